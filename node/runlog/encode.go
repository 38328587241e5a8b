package runlog

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"unicode/utf8"
)

// Bounds of a string in a fetch line, in bytes before escaping.
const (
	maxURL  = 8 << 10
	maxText = 1 << 10
)

// pairs encodes the keys of a line other than those of Line: `"key":value,…`.
func pairs(e Entry) ([]byte, error) {
	*e.line() = Line{}
	all, err := encode(e)
	if err != nil {
		return nil, err
	}
	_, rest, _ := bytes.Cut(all, []byte(`"`+KeyTime+`":"0001-01-01T00:00:00Z",`)) // the last key of Line
	return bytes.TrimSuffix(rest, []byte("}")), nil
}

// encode encodes a value as JSON without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// bounded returns f with long strings cut and durations rounded to microseconds. Durations that are not numbers become 0.
func (f Fetch) bounded() Fetch {
	url := clip(f.URL, maxURL)
	fields := reflect.ValueOf(&f).Elem()
	for i := range fields.NumField() {
		switch v := fields.Field(i); v.Kind() {
		case reflect.String:
			v.SetString(clip(v.String(), maxText))
		case reflect.Float64:
			ms := math.Round(v.Float()*1000) / 1000
			if ms == 0 || math.IsNaN(ms) || math.IsInf(ms, 0) {
				ms = 0 // neither "-0" nor an error of encoding/json
			}
			v.SetFloat(ms)
		}
	}
	f.URL = url
	return f
}

// clip cuts s to at most n bytes without cutting a character in two.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(s[n]) {
			break
		}
		n--
	}
	return s[:n]
}
