package frontier

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is what the frontier is doing now.
type Status struct {
	Totals
	// Hosts counts the hosts of the workbench by what they are doing or waiting for.
	Hosts map[string]int `json:"hosts"`
	// Servers are the servers known, Ready those that may be asked now, InFlight the requests under way.
	Servers  int `json:"servers"`
	Ready    int `json:"ready"`
	InFlight int `json:"in_flight"`
	// RemoteFetches are the pages for other nodes that wait here or are under way.
	RemoteFetches int `json:"remote_fetches"`
	// Queues counts the URLs in memory by their queue. More of them may wait on disk.
	Queues map[string]int `json:"queues"`
	// Waiting is true while hosts wait on disk for a place on the workbench.
	Waiting bool `json:"waiting"`
	// Paused says why no URL is taken; "" if URLs are taken.
	Paused string `json:"paused"`
	// Failing are the hosts that wait because they failed, by reason.
	Failing map[string]Failing `json:"failing"`
	// NextDue is the time until something becomes ready; 0 if that is now or not known.
	NextDue time.Duration `json:"next_due_ns"`
}

// Failing are the hosts that wait for one reason: their number, and the first by name.
type Failing struct {
	Hosts int    `json:"hosts"`
	First string `json:"first"`
}

// Status returns what the frontier is doing now. It is slow, because it looks at every host of the workbench.
func (f *Frontier) Status() Status {
	s := Status{Totals: f.ledger.count.totals(), Hosts: make(map[string]int), Failing: make(map[string]Failing),
		Queues: make(map[string]int)}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, h := range f.bench.hosts {
		kind, _ := f.bench.waits(h, now)
		s.Hosts[kind]++
		for o := range h.window {
			s.Queues[Origin(o).String()] += len(h.window[o])
		}
		if kind == "backoff" {
			was := s.Failing[h.why]
			if was.Hosts++; was.Hosts == 1 || h.name < was.First {
				was.First = h.name
			}
			s.Failing[h.why] = was
		}
	}
	for o, n := range f.bench.remote.waiting {
		s.Queues[Origin(o).String()] += n
	}
	s.Servers, s.Ready = len(f.bench.servers), f.bench.readyServers(now)
	s.InFlight, s.RemoteFetches = f.bench.inFlight+f.bench.remote.out, f.bench.remote.count
	s.Waiting, s.Paused = f.scan || len(f.candidates) > 0, f.pausedLocked()
	if due := f.bench.nextDue(); !due.IsZero() {
		s.NextDue = max(0, due.Sub(now))
	}
	return s
}

// waits says why a host is waiting, in a word for counting and in a sentence. It needs the front's lock held.
func (w *workbench) waits(h *host, now time.Time) (kind, sentence string) {
	due, work := h.due()
	switch {
	case h.reading:
		return "reading", "its URLs are being read from disk"
	case h.robotsBusy:
		return "robots", "its robots.txt is being asked for"
	case h.inFlight > 0:
		return "fetching", fmt.Sprintf("%d requests to it are under way", h.inFlight)
	case h.suspended != "":
		return "suspended", h.suspended
	case h.place == resolving:
		return "resolving", fmt.Sprintf("the name %s is being resolved", h.dialName())
	case !work:
		return "idle", "it has no pending URLs"
	case h.opens.After(now) && h.opens.After(h.notBefore) && !w.settingsAsked(h).closed(now):
		return "gap", fmt.Sprintf("its robots.txt wants %v between two requests (Crawl-delay); it may be asked in %v", h.crawlDelay, h.opens.Sub(now).Round(time.Millisecond))
	case h.opens.After(now) && h.opens.After(h.notBefore):
		return "hours", fmt.Sprintf("it is asked at its hours only, %s; the next begin at %s", h.hours, h.opens.Format("2006-01-02 15:04:05 -0700"))
	case h.notBefore.After(now):
		return "backoff", fmt.Sprintf("%s; it is asked again in %v", h.why, h.notBefore.Sub(now).Round(time.Millisecond))
	case due.After(now):
		return "retry", fmt.Sprintf("only URLs that failed are left; the next is tried again in %v", due.Sub(now).Round(time.Millisecond))
	case h.place == unplaced:
		return "unresolved", fmt.Sprintf("the name %s waits to be resolved", h.dialName())
	case h.server.reserved:
		return "batch", fmt.Sprintf("its server %s is kept for the batch that is being decided", h.server.addr)
	case !w.leased(h.server, now):
		return "lease", fmt.Sprintf("its server %s is not leased to this node", h.server.addr)
	case h.server.inFlight >= h.server.parallel:
		return "server busy", fmt.Sprintf("its server %s is answering another host", h.server.addr)
	case w.spent(h, now):
		return "budget", "its pages are due again, and the budget of visits is used up for now"
	case h.server.next.After(now):
		return "gap", fmt.Sprintf("politeness: its server %s may be asked in %v", h.server.addr, h.server.next.Sub(now).Round(time.Millisecond))
	}
	return "ready", "it may be asked now and waits for a fetcher"
}

// spent says that a host has only pages to visit again, and that the budget allows no visit now.
func (w *workbench) spent(h *host, now time.Time) bool {
	may, _ := w.recrawl.mayVisit(now)
	return !may && h.windowed() == len(h.window[Revisit])
}

// HostStatus is what the workbench knows of one host.
type HostStatus struct {
	Host     string        `json:"host"`
	Known    bool          `json:"known"` // on the workbench
	Wait     string        `json:"wait"`
	Sentence string        `json:"sentence"`
	Server   string        `json:"server"`
	InMemory int           `json:"in_memory"`
	OnDisk   bool          `json:"on_disk"`
	Failures int           `json:"failures"` // in a row; that of all its addresses counts once
	Delay    time.Duration `json:"delay_ns"` // Crawl-delay
}

// Explain says why a host is waiting.
func (f *Frontier) Explain(name string) HostStatus {
	f.mu.Lock()
	h, now := f.bench.hosts[name], time.Now()
	if h != nil {
		defer f.mu.Unlock()
		return f.bench.explain(h, now)
	}
	f.mu.Unlock()
	var rec record // if it cannot be read, less is said
	_ = f.store.view(context.Background(), func(txn *tx) (err error) {
		rec, _, err = readRecord(txn, name)
		return err
	})
	s := HostStatus{Host: name, Sentence: "it is not on the workbench: it has no pending URLs, or they wait on disk until fetchers starve"}
	switch {
	case rec.role == Leaving:
		s.Sentence = "it is being handed over"
	case rec.endedUntil.After(now):
		s.Sentence = fmt.Sprintf("it was given up: %s; URLs of it are dropped for another %v", rec.endReason, rec.endedUntil.Sub(now).Round(time.Second))
	}
	return s
}

// explain returns what is known of a host. It needs the front's lock held.
func (w *workbench) explain(h *host, now time.Time) HostStatus {
	s := HostStatus{Host: h.name, Known: true, InMemory: h.windowed() + len(h.delayed), OnDisk: h.onDisk(), Failures: h.failures + h.silent, Delay: h.crawlDelay}
	s.Wait, s.Sentence = w.waits(h, now)
	if h.server != nil {
		s.Server = h.server.addr.String()
	}
	return s
}

// Find returns the status of up to most hosts on the workbench whose names contain part, those with the most URLs in memory first. all is
// the number of such hosts.
func (f *Frontier) Find(part string, most int) (found []HostStatus, all int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hosts []*host
	for name, h := range f.bench.hosts {
		if strings.Contains(name, part) {
			hosts = append(hosts, h)
		}
	}
	slices.SortFunc(hosts, func(a, b *host) int {
		return cmp.Or(b.windowed()+len(b.delayed)-a.windowed()-len(a.delayed), strings.Compare(a.name, b.name))
	})
	now := time.Now()
	for _, h := range hosts[:min(most, len(hosts))] {
		found = append(found, f.bench.explain(h, now))
	}
	return found, len(hosts)
}

// Quiet receives a signal when no fetcher and no resolver is at work any more. That is a good time to call Idle.
func (f *Frontier) Quiet() <-chan struct{} { return f.quiet }

// Hopeless says that no URL was ever answered, and that every host failed in a way that waiting will hardly change: its name does not exist,
// or all its addresses refuse.
func (f *Frontier) Hopeless() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.bench
	if t := f.ledger.count.totals(); t.Done+t.Failed > 0 || f.outage.why != "" || f.busyLocked() {
		return false
	}
	hosts, now := 0, time.Now()
	for _, h := range b.hosts {
		if h.reading {
			return false
		}
		if _, work := h.due(); work {
			if hosts++; !h.lost || !h.notBefore.After(now) {
				return false
			}
		}
	}
	return hosts > 0
}

// busyLocked says that something is under way, apart from hosts that are being read.
func (f *Frontier) busyLocked() bool {
	b := f.bench
	return f.ending > 0 || b.inFlight > 0 || b.remote.count > 0 || b.resolving > 0 || f.scan || len(f.candidates) > 0
}

// Idle says that there is nothing to do within the patience: no task is out, and every URL that is left waits for longer, or for ten times as
// long if its host has ever answered. If such a host cannot be reached any more, it is tried once more after that time, and Idle waits for it.
// With Config.Shared it then waits until another node has the host, or CannotReach says that nobody takes it.
// While a URL waits only for the hours or the Crawl-delay of its site, or this node is cut off and has a URL, the frontier is not idle. Without
// a URL it has nothing to try, and would never find out that it is no longer cut off.
func (f *Frontier) Idle(patience time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.bench
	if b.recrawl.continuous() || !b.recrawl.over || f.busyLocked() {
		return false
	}
	now := time.Now()
	for _, h := range b.hosts {
		limit := now.Add(patience)
		if h.answered() { // and may do so again
			limit = now.Add(10 * patience)
		}
		if due, ok := h.due(); h.reading || ok && (f.outage.why != "" || !due.After(limit) || h.opens.After(now) && !h.notBefore.After(limit)) {
			return false
		}
	}
	awaits, tries := false, false
	for _, h := range b.hosts {
		_, work := h.due()
		switch {
		case !work || h.failures == 0:
		case !h.answered() || !h.resumes.IsZero(): // and had its last try
			awaits = b.strand(h) || awaits
		default:
			awaits = true
			if now.Sub(h.failed) >= 10*patience {
				tries = true
				b.lastTry(h, now)
			}
		}
	}
	if tries {
		f.dispatchLocked(now)
	}
	return !awaits
}
