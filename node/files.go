package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"proxima/node/bell"
	"proxima/node/site"
)

// A site can be read from a directory. All nodes have the same settings of the site, but only some may have the directory. These tell the
// others. A node that owns a host of the site without the directory hands the host over to one that has it.

// filesEntry begins an entry about a directory. The node that has it follows, and its name in the settings.
const filesEntry = "files "

// mostFiles bounds the number of these entries. Peers may tell more (toldMost).
const mostFiles = 10_000

func filesOf(node, dir string) string { return filesEntry + node + " " + dir }

func checkFiles(entry string) error {
	node, dir, ok := strings.Cut(strings.TrimPrefix(entry, filesEntry), " ")
	if !ok || dir == "" {
		return errors.New("read files: it does not name a node and a directory")
	}
	return errors.Join(plain("node", node, maxWho), plain("files", dir, maxWhy))
}

// has tells the overlay which directories this node has.
func (s *told) has(node string, dirs []string) error {
	var entries []string
	for _, dir := range dirs {
		if entry := filesOf(node, dir); checkFiles(entry) == nil {
			entries = append(entries, entry)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(nil, entries, 1)
}

// whoHas returns those of some nodes that have a directory, or had it in an earlier life.
func (s *told) whoHas(dir string, of []string) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range of {
		if _, ok := slices.BinarySearch(s.file.Files, filesOf(id, dir)); ok {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// sentHosts remembers when this node has sent which host where for its files. One that comes back was sent to a node that has lost them.
type sentHosts struct {
	*lru.Cache[[2]string, time.Time] // by host and node
}

const (
	// sendAgainAfter is when a host may be sent to the same node again.
	sendAgainAfter = time.Hour
	// mostSent is how many hosts that were sent are remembered.
	mostSent = 100_000
)

func newSentHosts() sentHosts {
	cache, _ := lru.New[[2]string, time.Time](mostSent) // it fails only for a size below one
	return sentHosts{cache}
}

func (s sentHosts) lately(host, to string, now time.Time) bool {
	at, sent := s.Get([2]string{host, to})
	return sent && now.Sub(at) < sendAgainAfter
}

// filesEvery is how often a node looks for hosts whose files another node has.
const filesEvery = 2 * time.Second

// sendToFiles hands hosts over to nodes that have their files.
func (o *overlay) sendToFiles(ctx context.Context) error {
	n := o.node
	if !slices.ContainsFunc(n.cfg.Site, func(e site.Entry) bool { return e.Files != nil && *e.Files != "" }) {
		return nil
	}
	err := n.told.has(n.id.Node, n.directories())
	if err != nil {
		n.warn(fmt.Errorf("the other nodes are not told which directories this one has, until that can be remembered: %w", err))
	}
	return bell.Every(ctx, filesEvery, func() {
		if err != nil {
			err = n.told.has(n.id.Node, n.directories())
		}
		for _, host := range n.frontier.Active() {
			if to := o.whoHasFiles(host); to != "" {
				// A host that cannot leave now is tried again.
				if err := o.owners.HandOff(ctx, host, to, true, "it has the files of the site"); err == nil {
					o.sent.Add([2]string{host, to}, time.Now())
				}
			}
		}
	})
}

// whoHasFiles returns another live node that has the files of a host's site. It returns "" if this node has them, or no live node does.
func (o *overlay) whoHasFiles(host string) string {
	dir := o.node.sites.ForHost(host).Files
	if dir == "" || o.node.files[dir] != nil {
		return ""
	}
	for _, id := range o.node.told.whoHas(dir, o.there().Alive) {
		if id != o.node.id.Node && !o.sent.lately(host, id, time.Now()) {
			return id
		}
	}
	return ""
}
