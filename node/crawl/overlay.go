package crawl

import (
	"context"
	"net/http"
	"time"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/frontier"
)

// Overlay is the other nodes as the loop sees them: they own hosts, too, and ask this node for pages.
type Overlay interface {
	// Route returns the links whose hosts this node owns. The others are then on disk, and will be sent to their owners.
	Route(ctx context.Context, links []frontier.Link) (mine []frontier.Link, err error)
	// PassOn writes links to disk, to be sent, that the frontier refuses because their hosts are moving.
	PassOn(ctx context.Context, links []frontier.Link) error
	// Ending is called before a page of this node is done or has failed. It is on disk, then, that other nodes are to know the page.
	Ending(ctx context.Context, page frontier.Link) error
	// Begin returns how a task is to be carried out, or false if it is no longer wanted.
	Begin(task *frontier.Task) (Visit, bool)
	// Ended is called after each download, once its outcome is on disk.
	Ended(task *frontier.Task, d Download)
}

// Visit is how a task is carried out, and what the log says about it.
type Visit struct {
	// Fresh uses a new connection. Quiet ignores the links of the page.
	Fresh, Quiet bool
	// Until is when the download is broken off; zero means never.
	Until time.Time
	// MayAsk returns an error if there is no right to ask the server at this instant; nil: there always is. It is called right before the
	// first bytes of each request are sent, and must not block. A remote fetch needs the lease of the node that asked for it.
	MayAsk func() error
	// Label, Batch, Home and Epoch go to the log.
	Label, Batch, Home string
	Epoch              uint64
}

// Download is what became of a task.
type Download struct {
	Outcome frontier.Outcome
	Status  int
	Timing  fetch.Timing
	// Bytes counts the body as received.
	Bytes int64
	// HTML means that the answer was a page: its status was 200, and its type HTML.
	HTML bool
}

// Alone is the Overlay of a node that crawls alone. Home is the id of the node, for the log.
type Alone struct{ Home string }

// Route implements Overlay.
func (Alone) Route(_ context.Context, links []frontier.Link) ([]frontier.Link, error) {
	return links, nil
}

// PassOn implements Overlay.
func (Alone) PassOn(context.Context, []frontier.Link) error { return nil }

// Ending implements Overlay.
func (Alone) Ending(context.Context, frontier.Link) error { return nil }

// Begin implements Overlay.
func (a Alone) Begin(*frontier.Task) (Visit, bool) { return Visit{Home: a.Home}, true }

// Ended implements Overlay.
func (Alone) Ended(*frontier.Task, Download) {}

// isHTML reports whether an answer is a page, by its head.
func isHTML(res *fetch.Result) bool {
	return res.Class == "" && res.Status == http.StatusOK && page.IsHTML(res.Header.Get("Content-Type"), nil)
}
