package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"proxima/fetch"
)

func ExampleClient_Get() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			w.Header().Set("Location", "/new")
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()

	cfg := fetch.Default()
	cfg.AllowPrefixes = []string{"127.0.0.0/8"} // else the guard refuses loopback
	client, err := fetch.New(cfg, fetch.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	addr := netip.MustParseAddrPort(server.Listener.Addr().String()).Addr()
	for _, path := range []string{"/page", "/old"} {
		res := client.Get(context.Background(), fetch.Request{URL: server.URL + path, Addr: addr})
		fmt.Printf("%d %q location %q, first byte known: %v\n", res.Status, res.Body, res.Location, res.Timing.FirstByte > 0)
		res.Release()
	}
	res := client.Get(context.Background(), fetch.Request{URL: "http://example.org/", Addr: netip.MustParseAddr("10.0.0.1")})
	fmt.Println(res.Class)
	// Output:
	// 200 "hello" location "", first byte known: true
	// 301 "" location "/new", first byte known: true
	// forbidden_address
}
