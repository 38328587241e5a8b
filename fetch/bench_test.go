package fetch

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// BenchmarkGet compares a page of 20 kB over loopback with a bare net/http client that discards it.
func BenchmarkGet(b *testing.B) {
	page := []byte(strings.Repeat("0123456789abcdef", 1250))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(page) }))
	defer s.Close()
	c := newClient(b, testConfig(), Deps{})
	bare := &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute}
	defer bare.CloseIdleConnections()

	byUs := func(capture bool) {
		res := c.Get(b.Context(), Request{URL: s.URL + "/", Addr: testAddr, Capture: capture})
		if res.Err != nil || len(res.Body) != len(page) {
			b.Fatal(res.Err)
		}
		res.Release()
	}
	byHTTP := func() {
		resp, err := bare.Get(s.URL + "/")
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for name, get := range map[string]func(){"proxima": func() { byUs(false) }, "capture": func() { byUs(true) }, "net/http": byHTTP} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				get()
			}
		})
	}
	b.Run("ratio", func(b *testing.B) { // turn by turn, so that other load hits both
		var ours, theirs time.Duration
		for b.Loop() {
			t0 := time.Now()
			byUs(false)
			t1 := time.Now()
			byHTTP()
			ours, theirs = ours+t1.Sub(t0), theirs+time.Since(t1)
		}
		b.ReportMetric(float64(ours)/float64(theirs), "times-net/http")
	})
}
