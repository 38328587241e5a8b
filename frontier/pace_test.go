package frontier

import (
	"reflect"
	"testing"
	"time"
)

// What is marked as live is taken, and nothing else.
func TestAdjust(t *testing.T) {
	cfg, was := testConfig()
	f, err := Open("", cfg, was, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.store.close() //nolint:errcheck // it is in memory
	next := was
	v := reflect.ValueOf(&next).Elem()
	for i := range v.NumField() {
		switch p := v.Field(i).Addr().Interface().(type) {
		case *time.Duration:
			*p += time.Hour
		case *float64:
			*p++
		case *int:
			*p++
		case *[]time.Duration:
			*p = []time.Duration{7}
		case *[]string:
			*p = []string{"192.0.2.0/24"}
		}
	}
	cfg.MaxHostURLs = 77
	f.Adjust(cfg, next)
	if got := f.ledger.mostURLs.Load(); got != 77 {
		t.Errorf("%d URLs a host", got)
	}
	got := reflect.ValueOf(f.bench.rules.Politeness)
	for i := range got.NumField() {
		want, field := reflect.ValueOf(was), got.Type().Field(i)
		if field.Tag.Get("live") != "" {
			want = v
		}
		if !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
			t.Errorf("%s is %v, not %v", field.Name, got.Field(i), want.Field(i))
		}
	}
}
