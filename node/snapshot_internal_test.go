package node

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// A snapshot has no URL of a replica that its owner has done, however many parts the host has.
func TestSnapshotOfAReplica(t *testing.T) {
	const host = "http://a.test"
	cfg := frontier.Default()
	cfg.MinFreeMiB, cfg.Shared = 0, true
	f, err := frontier.Open("", cfg, frontier.DefaultPoliteness(), frontier.Deps{})
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	defer func() { end(); must(t, <-ended) }()
	var c, done frontier.Chunk
	for i := range 3 * snapshotURLs {
		path := fmt.Sprintf("/%04d", i)
		c.Pending = append(c.Pending, frontier.PendingURL{Path: path, Depth: 2})
		if path != "/2345" {
			done.Done = append(done.Done, identity.URL{Host: host, Path: path}.Hash())
		}
	}
	for _, part := range []frontier.Chunk{c, done} {
		_, err := f.Import(ctx, host, part, frontier.Discovered)
		must(t, err)
	}
	var b bytes.Buffer
	must(t, writeSnapshot(ctx, f, &b))
	const want = `{"host":"http://a.test","role":"replica","done":0,"failed":0,"dropped":0}
{"url":"http://a.test/2345","depth":2}
{"hosts":1,"urls":1}
`
	if b.String() != want {
		t.Errorf("%d bytes: %.300s", b.Len(), &b)
	}
}
