package crawl

import (
	"context"
	"net/http"
	"strings"
	"time"

	"proxima/fetch"
	"proxima/frontier"
)

// Overlay is the rest of the crawl as the loop sees it: other nodes own hosts too, and ask for pages.
type Overlay interface {
	// Route sorts links by the owners of their hosts. Those for this node are returned; the others are on disk, to be
	// sent.
	Route(ctx context.Context, links []frontier.Link) (mine []frontier.Link, err error)
	// PassOn keeps links on disk, to be sent, that the frontier does not take: their hosts are on their way.
	PassOn(ctx context.Context, links []frontier.Link) error
	// Begin says how a task is to be carried out; false: it is no longer wanted.
	Begin(task *frontier.Task) (Visit, bool)
	// Ended is told of every download, after its end is on disk.
	Ended(task *frontier.Task, d Download)
}

// Visit is how a task is carried out, and what stands in its line of the log.
type Visit struct {
	// Fresh asks for a connection of its own, Quiet leaves the links of the page unread.
	Fresh, Quiet bool
	// Until breaks the download off; zero leaves it its time.
	Until time.Time
	// MayAsk is asked in place of Deps.MayAsk where it is not nil: a remote fetch is under the lease of who wants it.
	MayAsk func() error
	// Label, Batch, Home and Epoch are those of the log.
	Label, Batch, Home string
	Epoch              uint64
}

// Download is what became of a task.
type Download struct {
	Outcome frontier.Outcome
	Status  int
	Timing  fetch.Timing
	// Bytes of the body as it crossed the wire.
	Bytes int64
	// HTML says that it was a page: status 200, and HTML.
	HTML bool
}

// alone is a node without others.
type alone struct{ home string }

func (alone) Route(_ context.Context, links []frontier.Link) ([]frontier.Link, error) {
	return links, nil
}
func (alone) PassOn(context.Context, []frontier.Link) error { return nil }
func (a alone) Begin(*frontier.Task) (Visit, bool)          { return Visit{Home: a.home}, true }
func (alone) Ended(*frontier.Task, Download)                {}

func isHTML(res *fetch.Result) bool {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return res.Class == "" && res.Status == http.StatusOK && (kind == "text/html" || kind == "application/xhtml+xml")
}
