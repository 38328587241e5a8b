package home

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/node/wire"
)

// backups gathers what changes at the hosts of this node until it goes to their second copies. Nothing of it is on
// disk: a digest of each host tells whether its copy is whole, and one that is not is copied anew.
type backups struct {
	// mu guards what follows. It is taken alone: the frontier tells of changes while it writes.
	mu     sync.Mutex
	hosts  map[string]*changes
	bytes  int             // of the changes in hosts
	copied map[string]bool // hosts that are being copied whole: their changes wait
	broken map[string]bool // hosts whose changes were too many to gather
}

// changes are those of one host.
type changes struct {
	added []frontier.PendingURL
	done  []uint64
	state bool
}

// memoryOf is about how much memory changes take, in bytes.
func memoryOf(added []frontier.PendingURL, done []uint64) int {
	n := 8 * len(done)
	for i := range added {
		n += len(added[i].Path) + 24
	}
	return n
}

// maxGathered bounds the memory, in bytes, of what is gathered for second copies: 200,000 URLs as a rule, fewer where they are long.
const maxGathered = 20 << 20

func newBackups() *backups {
	return &backups{hosts: make(map[string]*changes), copied: make(map[string]bool), broken: make(map[string]bool)}
}

// Changed takes note of what the frontier has written. It does not block.
func (h *Home) Changed(all []frontier.Change) {
	b := h.backups
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range all {
		n := memoryOf(c.Added, c.Done)
		if c.Dropped || b.bytes+n > maxGathered {
			b.spoil(c.Host)
			continue
		}
		g := b.hosts[c.Host]
		if g == nil {
			g = &changes{}
			b.hosts[c.Host] = g
		}
		g.added, g.done, g.state = append(g.added, c.Added...), append(g.done, c.Done...), g.state || c.State
		b.bytes += n
	}
}

// spoil gives up following a host: it will be copied whole. It needs mu held.
func (b *backups) spoil(host string) {
	if g := b.hosts[host]; g != nil {
		b.bytes -= memoryOf(g.added, g.done)
		delete(b.hosts, host)
	}
	b.broken[host] = true
}

// gather takes what is to be sent.
func (b *backups) gather() (hosts map[string]*changes, broken map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hosts, broken = make(map[string]*changes), b.broken
	b.broken = make(map[string]bool)
	for host, g := range b.hosts {
		if !b.copied[host] {
			hosts[host] = g
			b.bytes -= memoryOf(g.added, g.done)
			delete(b.hosts, host)
		}
	}
	return hosts, broken
}

// still says that nothing changed at a host since it was gathered.
func (b *backups) still(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, changed := b.hosts[host]
	return !changed && !b.broken[host]
}

// again puts back what could not be sent yet, before what changed since.
func (b *backups) again(host string, g *changes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := memoryOf(g.added, g.done)
	if b.broken[host] || b.bytes+n > maxGathered {
		b.spoil(host)
		return
	}
	if since := b.hosts[host]; since != nil {
		g.added, g.done, g.state = append(g.added, since.added...), append(g.done, since.done...), g.state || since.state
	}
	b.hosts[host] = g
	b.bytes += n
}

// runBackups sends changes to second copies: one message at a time to each peer, and none waits for another peer's.
func (h *Home) runBackups(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.BackupEvery)
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	busy, over := make(map[string]bool), make(chan string)
	round := func() error {
		items, err := h.gatherBackups(ctx, busy)
		for to, items := range items {
			busy[to] = true
			calls.Go(func() {
				h.sendBackups(ctx, to, items)
				select {
				case over <- to:
				case <-ctx.Done():
				}
			})
		}
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case to := <-over:
			delete(busy, to)
		case <-tick.C:
			if err := round(); err != nil {
				return err
			}
		case done := <-h.flush:
			for range 2 { // the second is for peers that are being spoken to
				if err := round(); err != nil {
					return err
				}
				for len(busy) > 0 {
					select {
					case to := <-over:
						delete(busy, to)
					case <-ctx.Done():
						return nil
					}
				}
			}
			close(done)
		}
	}
}

// Flush sends what has changed up to now to second copies, each change once, and returns when that is over or the context
// ends.
func (h *Home) Flush(ctx context.Context) {
	if h.begun() != nil {
		return
	}
	done := make(chan struct{})
	select {
	case h.flush <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// gatherBackups takes the changes that can be sent now, by the peers that keep the copies.
func (h *Home) gatherBackups(ctx context.Context, busy map[string]bool) (map[string][]*wire.BackupItem, error) {
	hosts, broken := h.backups.gather()
	for host := range broken {
		h.copyWhole(host)
	}
	items := make(map[string][]*wire.BackupItem)
	for host, g := range hosts {
		r, to, ok, err := h.secondCopy(host)
		switch {
		case err != nil:
			return nil, err
		case !ok: // nobody keeps its second copy
			continue
		case busy[to]:
			h.backups.again(host, g)
			continue
		}
		item, err := h.backupItem(ctx, r, g)
		if err != nil {
			return nil, err
		}
		items[to] = append(items[to], item)
	}
	return items, nil
}

// backupItem makes the message about one host's changes.
func (h *Home) backupItem(ctx context.Context, r Record, g *changes) (item *wire.BackupItem, err error) {
	c := frontier.Chunk{Pending: g.added, Done: g.done}
	if g.state {
		if c.State, err = h.deps.Frontier.StateOf(ctx, r.Host); err != nil {
			return nil, err
		}
	}
	item = &wire.BackupItem{Record: r.wire(), Chunk: chunkToWire(c)}
	// Where the host was at rest since, its digest must be that of the copy.
	d, err := h.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return nil, err
	}
	if h.backups.still(r.Host) {
		item.Digest = digestToWire(d)
	}
	return item, nil
}

// secondCopy says where the second copy of an own host is kept.
func (h *Home) secondCopy(host string) (r Record, to string, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok, err = h.records.get(host)
	if err != nil || !ok || r.Owner != h.horizon.now.Self {
		return r, "", false, err
	}
	to = h.horizon.now.copyOf(host, r.Owner)
	return r, to, to != "", nil
}

// backupURLs and chunkBytes bound a message of the changes of several hosts.
const backupURLs = 5000

// sendBackups sends changes to one peer, in messages of bounded size; what it cannot follow is copied whole.
func (h *Home) sendBackups(ctx context.Context, to string, items []*wire.BackupItem) {
	for len(items) > 0 {
		n, urls, size := 0, 0, 0
		for n < len(items) && (n == 0 || urls < backupURLs && size < chunkBytes) {
			urls += len(items[n].GetChunk().GetPending()) + len(items[n].GetChunk().GetDone())/8 + 8
			size += proto.Size(items[n])
			n++
		}
		part := items[:n]
		items = items[n:]
		res, err := h.deps.Peers.Backup(ctx, to, &wire.BackupRequest{Items: part})
		if err != nil && ctx.Err() == nil {
			h.deps.Warn(fmt.Errorf("send changes of %d hosts to their second copies at %s: %w", len(part), to, err))
		}
		for i, item := range part {
			if err != nil || i >= len(res.GetAnswers()) || res.GetAnswers()[i].GetStep() != wire.Step_STEP_STORED {
				h.copyWhole(item.GetRecord().GetHost())
			}
		}
	}
}

// copyWhole has a host copied to the node that keeps its second copy.
func (h *Home) copyWhole(host string) { h.todo(host, job{kind: resync}) }

// resync copies a host whole, unless its copy is: after a hand-off the former owner, or the home, has all of it. Changes
// that come meanwhile wait and follow it.
func (h *Home) resync(ctx context.Context, host string) error {
	r, to, ok, err := h.secondCopy(host)
	if err != nil || !ok {
		return err
	}
	h.mu.Lock()
	_, leaving := h.leaving[host]
	alive := h.horizon.now.alive(to)
	h.mu.Unlock()
	if leaving {
		return nil // its next owner sees to it
	}
	if !alive {
		return fmt.Errorf("copy it to %s: that node does not answer", to)
	}
	b := h.backups
	b.mu.Lock()
	b.copied[host] = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.copied, host)
		b.mu.Unlock()
	}()
	send := func(item *wire.BackupItem) (wire.Step, error) {
		item.Record = r.wire()
		res, err := h.deps.Peers.Backup(ctx, to, &wire.BackupRequest{Items: []*wire.BackupItem{item}})
		switch a := res.GetAnswers(); {
		case err != nil:
			return 0, fmt.Errorf("copy it to %s: %w", to, err)
		case len(a) != 1 || (a[0].GetStep() != wire.Step_STEP_STORED && a[0].GetStep() != wire.Step_STEP_AGAIN):
			return 0, fmt.Errorf("copy it to %s: not taken", to)
		default:
			return a[0].GetStep(), nil
		}
	}
	state, err := h.deps.Frontier.StateOf(ctx, host)
	if err != nil {
		return fmt.Errorf("copy it: %w", err)
	}
	d, err := h.deps.Frontier.DigestOf(ctx, host)
	if err != nil {
		return fmt.Errorf("copy it: %w", err)
	}
	step, err := send(&wire.BackupItem{Chunk: chunkToWire(frontier.Chunk{State: state}), Digest: digestToWire(d)})
	if err != nil || step == wire.Step_STEP_STORED {
		return err
	}
	var at frontier.Cursor
	for number := uint32(1); ; number++ {
		chunk, next, end, err := h.deps.Frontier.Export(ctx, host, at, h.cfg.ChunkURLs, chunkBytes)
		if err != nil {
			return fmt.Errorf("copy it: read chunk %d: %w", number, err)
		}
		step, err := send(&wire.BackupItem{Number: number, Chunk: chunkToWire(chunk)})
		if err != nil {
			return err
		}
		if step != wire.Step_STEP_STORED {
			return fmt.Errorf("copy it to %s: it lost what was sent before", to)
		}
		if end {
			return nil
		}
		at = next
	}
}

// Backup stores changes of hosts whose second copies are here.
func (h *Home) Backup(ctx context.Context, from string, req *wire.BackupRequest) (*wire.BackupResponse, error) {
	if err := h.begun(); err != nil {
		return nil, err
	}
	res := &wire.BackupResponse{}
	for _, item := range req.GetItems() {
		step, err := h.backup(ctx, from, item)
		if err != nil {
			return nil, err
		}
		res.Answers = append(res.Answers, &wire.BackupAnswer{Step: step})
	}
	return res, nil
}

func (h *Home) backup(ctx context.Context, from string, item *wire.BackupItem) (wire.Step, error) {
	r, ok := fromWire(item.GetRecord())
	chunk, err := chunkFromWire(item.GetChunk())
	if err != nil || !ok || r.Owner != from {
		return wire.Step_STEP_REFUSED, nil
	}
	unlock := h.locks.try(r.Host)
	if unlock == nil {
		return wire.Step_STEP_REFUSED, nil
	}
	defer unlock()
	h.mu.Lock()
	mine, had, err := h.records.get(r.Host)
	_, leaving := h.leaving[r.Host]
	_, arriving := h.arrive[r.Host]
	switch {
	case err != nil:
	case had && mine.Newer(r), had && mine.Owner == h.horizon.now.Self, leaving, arriving:
		h.mu.Unlock()
		return wire.Step_STEP_REFUSED, nil // the home will tell the two who is right
	default:
		err = h.put(r)
	}
	h.mu.Unlock()
	if err != nil {
		return 0, err
	}
	hold, known, err := h.deps.Frontier.HoldOf(ctx, r.Host)
	switch {
	case err != nil:
		return 0, err
	case known && hold != frontier.Backup && hold != frontier.Arriving:
		return wire.Step_STEP_REFUSED, nil
	case item.GetNumber() == 1: // also in place of what a hand-off that was given up has left
		if err := h.deps.Frontier.Remove(ctx, r.Host); err != nil {
			return 0, err
		}
		if err := h.deps.Frontier.SetHold(ctx, r.Host, frontier.Backup); err != nil {
			return 0, err
		}
	case !known || hold != frontier.Backup:
		return wire.Step_STEP_AGAIN, nil
	}
	if _, err := h.deps.Frontier.Import(ctx, r.Host, chunk, originOf(r)); err != nil {
		return 0, fmt.Errorf("store second copy of %s: %w", r.Host, err)
	}
	if item.GetDigest() == nil {
		return wire.Step_STEP_STORED, nil
	}
	d, err := h.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil || d != digestFromWire(item.GetDigest()) {
		return wire.Step_STEP_AGAIN, err
	}
	return wire.Step_STEP_STORED, nil
}
