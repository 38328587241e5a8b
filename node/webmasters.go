package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"golang.org/x/net/netutil"

	"proxima/fetch"
	"proxima/frontier/identity"
	"proxima/node/runlog"
	"proxima/node/webmaster"
)

// tableOwners has what web masters have asked for, by the hosts, and under keyOwners the key of a node that crawls alone.
const (
	tableOwners = 'w'
	keyOwners   = " key"
)

const (
	// mostRequests is how many requests wait for the operator, and mostReaders how many connections the page for web masters has at once.
	mostRequests, mostReaders = 1000, 256
	// maxProof is how much of a file is read that may have a token.
	maxProof = 16 << 10
)

// webMaster is who a block is by that a web master has asked for.
const webMaster = "web master"

// newDoor makes the page for web masters.
func (n *Node) newDoor() (*webmaster.Door, error) {
	c := n.cfg.Fetch.Config
	return webmaster.New(n.cfg.WebMaster, webmaster.Deps{
		Agent: c.UserAgent, Contact: c.Contact, From: c.From, Keys: n.ownerKeys, File: n.proofOf, TXT: n.resolver.TXT, Ask: n.ask,
		Block: func(host, way string) error {
			_, _, err := n.Block(host, webMaster, "its web master has asked for it, with proof by "+way, false)
			return err
		},
	})
}

// watched hears of what the logs get.
func (n *Node) watched(line any) {
	n.book.Watch(line)
	if f, ok := line.(*runlog.Fetch); ok && n.door != nil {
		n.door.Visited(identity.Name(f.Host), f.URL, f.Status)
	}
}

// serveDoor serves the page for web masters until the context ends.
func (n *Node) serveDoor(ctx context.Context) error {
	if n.door == nil {
		return nil
	}
	l, err := net.Listen("tcp", n.cfg.WebMaster.Listen)
	if err != nil {
		n.warn(fmt.Errorf("serve page for web masters: %w", err))
		return nil
	}
	return n.serve(ctx, netutil.LimitListener(l, mostReaders), n.door)
}

// ownerKeys make the tokens of web masters: those of the secret, or one of this node alone.
func (n *Node) ownerKeys() ([][]byte, error) {
	if n.overlay != nil {
		return n.overlay.secret.Load().OwnerKeys()
	}
	shelf := n.frontier.Shelf(tableOwners)
	key, err := shelf.Get([]byte(keyOwners))
	if err == nil && key == nil {
		key = []byte(rand.Text())
		err = shelf.Put([]byte(keyOwners), key)
	}
	return [][]byte{key}, err
}

// proofOf reads the beginning of a file of a web server, with the guard that holds for pages, too.
func (n *Node) proofOf(ctx context.Context, u identity.URL) (string, error) {
	found, err := n.resolver.Lookup(ctx, u.Name())
	for _, addr := range found.Addrs {
		var text string
		if text, err = n.readFrom(ctx, u, addr); err == nil {
			return text, nil
		}
	}
	return "", err
}

func (n *Node) readFrom(ctx context.Context, u identity.URL, addr netip.Addr) (string, error) {
	if class, err := n.client.Check(addr); err != nil {
		return "", fmt.Errorf("%s: %w", class, err)
	}
	res := n.client.Get(ctx, fetch.Request{URL: u.String(), Addr: addr, Accept: "text/plain, */*;q=0.1", MaxBody: maxProof, Fresh: true})
	defer res.Release()
	switch {
	case res.Err != nil:
		return "", fmt.Errorf("%s: %s", u, res.Class)
	case res.Status != http.StatusOK:
		return "", fmt.Errorf("%s: status %d", u, res.Status)
	}
	return string(res.Body), nil
}

// ask keeps what a web master wants without proof, until somebody decides: the first request for each host.
func (n *Node) ask(r webmaster.Request) error {
	if rule, blocked := n.blocklist.Host(r.Host); blocked {
		return fmt.Errorf("%s is left alone already", rule)
	}
	all, err := n.Requests()
	switch {
	case err != nil:
		return errors.New("the disk of this machine has trouble")
	case len(all) >= mostRequests:
		return errors.New("too many others wait")
	}
	for _, had := range all {
		if had.Host == r.Host {
			return nil
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	n.runlog.Events().Info(runlog.EventRequest, runlog.KeyHost, r.Host, runlog.KeyReason, r.Note, runlog.KeyBy, r.From)
	return n.frontier.Shelf(tableOwners).Put([]byte(r.Host), text)
}

// Requests are what web masters have asked this node for without proof, by their hosts.
func (n *Node) Requests() (all []webmaster.Request, err error) {
	err = n.frontier.Shelf(tableOwners).Scan(nil, func(key, value []byte) error {
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

// Dismiss forgets what was asked for a host; a block does so as well.
func (n *Node) Dismiss(host, by string) error {
	shelf := n.frontier.Shelf(tableOwners)
	if had, err := shelf.Get([]byte(host)); err != nil || had == nil || host == keyOwners {
		return errors.Join(err, refusal{http.StatusNotFound, fmt.Errorf("dismiss %.100q: nobody has asked for it", host)})
	}
	n.acted(by, "dismiss request", runlog.KeyHost, host)
	return shelf.Delete([]byte(host))
}

// doorRoutes are what an operator sees of web masters.
func doorRoutes() []route {
	return []route{
		{method: "GET", path: "/requests", does: "Lists what web masters have asked for without proof.", answer: []webmaster.Request{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.Requests() }},
		{method: "POST", path: "/dismiss", acts: true, does: "Forgets what was asked for a host.", answer: Acted{}, query: []param{{"host", "the name of the host", true}},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.Dismiss(c.param("host"), c.by) }},
	}
}
