package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"proxima/fetch"
	"proxima/fetch/resolve"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
	"proxima/node/webmaster"
)

const (
	// tableOwners has the requests of web masters, by host. Under keyOwners it has the key of a node that crawls alone.
	tableOwners = 'w'
	keyOwners   = " key"
	// mostRequests is how many requests wait for the operator.
	mostRequests = 1000
	// maxProof is how much of a file is read to find a token in it.
	maxProof = 16 << 10
	// webMaster is who a block is by if a web master asked for it.
	webMaster = "web master"
)

// webMasters does what web masters ask for: it checks their proof, and keeps requests without proof for the operator.
type webMasters struct {
	*Node
	shelf *frontier.Shelf
	// making is held while a key or a request is looked for and, if it is missing, made: of two, the second would replace the first, and a
	// token that was shown would be worth nothing.
	making sync.Mutex
	// key is that of a node that crawls alone, once it is on disk. So the page is read while a request is written to a slow disk.
	key atomic.Pointer[[]byte]
}

func (w *webMasters) page() (*webmaster.Door, error) {
	return webmaster.New(w.cfg.WebMaster, webmaster.Deps{
		Agent: w.cfg.Fetch.UserAgent, Contact: w.cfg.Fetch.Contact, From: w.cfg.Fetch.From, Keys: w.keys, File: w.proof, TXT: w.texts, Ask: w.ask,
		Block: func(host, way string) error {
			_, _, err := w.operator.Block(host, webMaster, "its web master has asked for it, with proof by "+way, false)
			if err != nil {
				w.operator.failed(webMaster, "block", err)
			}
			return err
		},
	})
}

// keys returns the keys of the tokens: those of the secret, or the key of this node.
func (w *webMasters) keys() ([][]byte, error) {
	if w.overlay != nil {
		return w.overlay.secret.Load().OwnerKeys(), nil
	}
	if key := w.key.Load(); key != nil {
		return [][]byte{*key}, nil
	}
	w.making.Lock()
	defer w.making.Unlock()
	key, err := w.shelf.Get([]byte(keyOwners))
	if err == nil && key == nil {
		key = []byte(rand.Text())
		err = w.shelf.Put([]byte(keyOwners), key)
	}
	if err == nil {
		w.key.Store(&key)
	}
	return [][]byte{key}, err
}

// proof returns the beginning of a file of a web server. The guard against forbidden addresses applies as for pages.
func (w *webMasters) proof(ctx context.Context, u identity.URL) (string, error) {
	found, err := w.resolver.Lookup(ctx, u.Name())
	if e := (*resolve.Error)(nil); errors.As(err, &e) {
		err = fmt.Errorf("look up %s: %w", e.Host, e.Kind) // its reason names the name server of this machine
	}
	for _, addr := range found.Addrs {
		var text string
		if text, err = w.read(ctx, u, addr); err == nil {
			return text, nil
		}
	}
	return "", err
}

// texts returns the TXT records of a name.
func (w *webMasters) texts(ctx context.Context, name string) ([]string, error) {
	found, err := w.resolver.TXT(ctx, name)
	if err != nil {
		err = fmt.Errorf("look up %s: %w", name, resolve.ErrTemporary) // strangers need not know whom this machine asks
	}
	return found, err
}

func (w *webMasters) read(ctx context.Context, u identity.URL, addr netip.Addr) (string, error) {
	if err := w.mayDial(addr); err != nil {
		return "", err
	}
	res := w.client.Get(ctx, fetch.Request{URL: u.String(), Addr: addr, Accept: "text/plain, */*;q=0.1", MaxBody: maxProof, Fresh: true})
	defer res.Release()
	switch {
	case res.Err != nil:
		return "", fmt.Errorf("%s: %s", u, res.Class)
	case res.Status != http.StatusOK:
		return "", fmt.Errorf("%s: status %d", u, res.Status)
	}
	return string(res.Body), nil
}

// ask keeps a request without proof until the operator decides. It keeps only the first request for each host.
func (w *webMasters) ask(r webmaster.Request) error {
	if rule, blocked := w.blocklist.Host(r.Host); blocked {
		return fmt.Errorf("%s is left alone already", rule)
	}
	w.making.Lock()
	defer w.making.Unlock()
	all, err := w.requests()
	switch {
	case err != nil:
		return w.unkept(r.Host, err)
	case len(all) >= mostRequests:
		return errors.New("too many others wait")
	case slices.ContainsFunc(all, func(had webmaster.Request) bool { return had.Host == r.Host }):
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.runlog.Events().Info(runlog.EventRequest, runlog.KeyHost, r.Host, runlog.KeyReason, r.Note, runlog.KeyBy, r.From)
	if err := w.shelf.Put([]byte(r.Host), text); err != nil {
		return w.unkept(r.Host, err)
	}
	return nil
}

// unkept warns that a request could not be kept, and returns what a stranger may know of that: paths of this machine are none of it.
func (w *webMasters) unkept(host string, err error) error {
	w.warn(fmt.Errorf("keep what was asked for %s: %w", host, err))
	return errors.New("the disk of this machine has trouble")
}

// requests returns the requests without proof, by host.
func (w *webMasters) requests() (all []webmaster.Request, err error) {
	err = w.shelf.Scan(nil, func(key, value []byte) error {
		if string(key) == keyOwners {
			return nil
		}
		var r webmaster.Request
		err := json.Unmarshal(value, &r)
		all = append(all, r)
		return err
	})
	return all, err
}

// dismiss removes the request for a host. A block does so, too.
func (w *webMasters) dismiss(host, by string) error {
	if had, err := w.shelf.Get([]byte(host)); err != nil || had == nil || host == keyOwners {
		return errors.Join(err, refusal{http.StatusNotFound, fmt.Errorf("dismiss %.100q: nobody has asked for it", host)})
	}
	w.operator.log(by, "dismiss request", runlog.KeyHost, host)
	return w.shelf.Delete([]byte(host))
}

// blocked removes the request for a host that is about to be blocked, and returns a function that brings it back. While the disk is almost full
// the request stays, and can be dismissed later.
func (w *webMasters) blocked(host string) (undo func() error, err error) {
	kept := func() error { return nil }
	had, err := w.shelf.Get([]byte(host))
	if err != nil || had == nil {
		return kept, err
	}
	switch err := w.shelf.Delete([]byte(host)); {
	case errors.Is(err, frontier.ErrDiskFull):
		return kept, nil
	case err != nil:
		return kept, err
	}
	return func() error { return w.shelf.Put([]byte(host), had) }, nil
}

func webMasterRoutes() []route {
	return []route{
		{method: "GET", path: "/requests", does: "Lists what web masters have asked for without proof.", answer: []webmaster.Request{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.webMasters.requests() }},
		{method: "POST", path: "/dismiss", does: "Forgets what was asked for a host.", answer: Acted{}, query: []param{{"host", "the name of the host", true}},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.webMasters.dismiss(c.param("host"), c.by) }},
	}
}
