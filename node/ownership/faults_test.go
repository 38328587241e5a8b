package ownership

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/golden"
)

// errFault is returned by the call to a disk that fails.
var errFault = errors.New("bad sector")

// fault makes one call to a disk fail: the n-th call of a method from now on.
type fault struct {
	call string
	n    int
	met  bool // the call has failed
	// before is called at each call, with the lock of the disk held; it may be nil.
	before func(call string)
}

// fails counts calls of the method that called lock, so many calls above, and fails the n-th one. The lock of the disk is held.
func (f *fault) fails(caller int) error {
	pc, _, _, _ := runtime.Caller(caller)
	name := runtime.FuncForPC(pc).Name()
	if f == nil {
		return nil
	}
	call := name[strings.LastIndexByte(name, '.')+1:]
	if f.before != nil {
		f.before(call)
	}
	if f.met || call != f.call {
		return nil
	}
	if f.n--; f.n > 0 {
		return nil
	}
	f.met = true
	return errFault
}

var tries = regexp.MustCompile(`try \d+`)

// faultyCalls are the methods that may fail.
var faultyCalls = []string{"SetRole", "RoleOf", "List", "Export", "Import", "Remove", "DigestOf", "Sync", "Add", "Get", "Batch"}

// TestFaults plays the scenarios of testdata/faults many times. Each time another call to a disk fails, at one of the nodes after "at" in
// the last step, from "begin" on. It prints what people and callers hear, and what becomes of the host a. Whatever fails, a has one owner
// and two whole copies in the end. A node that ends with the fault is started again.
//
//	go test -run Faults ./node/ownership -update
func TestFaults(t *testing.T) {
	golden.Play(t, "testdata/faults/*.txt", *update, func(t *testing.T, blocks [][]string, wanted []string) (printed []string) {
		for i, steps := range blocks {
			var lines []string
			for _, at := range numbersIn(strings.Fields(steps[len(steps)-1])) {
				for _, call := range faultyCalls {
					lines = append(lines, faultsOf(t, steps[:len(steps)-1], call, at, strings.Split(wanted[i], "\n"))...)
				}
			}
			printed = append(printed, strings.Join(lines, "\n"))
		}
		return printed
	})
}

// faultsOf returns a line for each result of a failing call of one method. The lines do not have the number of the call, because calls at
// one instant come in any order. For the same reason a play may miss a line that is wanted, and another one follows.
func faultsOf(t *testing.T, steps []string, call string, at int, wanted []string) (lines []string) {
	const plays, most = 10, 12 // some calls repeat for ever
	for range plays {
		for n := 1; n <= most; n++ {
			line, met := faultAt(t, steps, &fault{call: call, n: n}, at)
			if !met {
				break
			}
			lines = append(lines, fmt.Sprintf("%d: %s: %s", at, call, line))
		}
		slices.Sort(lines)
		lines = slices.Compact(lines)
		if !slices.ContainsFunc(wanted, func(line string) bool {
			return strings.HasPrefix(line, fmt.Sprintf("%d: %s: ", at, call)) && !slices.Contains(lines, line)
		}) {
			break
		}
	}
	return lines
}

func faultAt(t *testing.T, steps []string, f *fault, at int) (line string, met bool) {
	onStage(t, numbersIn(strings.Fields(steps[0])), func(s *stage) {
		g := &scene{stage: s, hosts: map[string]string{}, names: map[string]string{}, begun: time.Now()}
		begin := slices.Index(steps, "begin")
		for _, step := range steps[1:begin] {
			g.do(strings.Fields(step))
		}
		s.listen(g.event, func(at int, err error) {
			text := tries.ReplaceAllString(g.numbers(err.Error()), "one try") // which try meets the fault is random
			if !strings.HasPrefix(text, "renew at ") {                        // so is the node that renews at that instant
				g.say("%d: warning: %s", at, text)
			}
		})
		if p := s.node(at); p != nil {
			p.fail(f)
		} else { // it joins later
			s.fault = map[int]*fault{at: f}
		}
		for _, step := range steps[begin+1:] {
			g.do(strings.Fields(step))
		}
		s.node(at).fail(nil)
		if met = f.met; !met {
			return
		}
		if s.node(at).ended() {
			s.node(at).kill(false)
			s.node(at).start()
		}
		time.Sleep(2 * s.cfg.TakeAfter)
		g.print()            // for the hooks
		slices.Sort(g.heard) // what happens at one instant comes in any order
		line = strings.Join(append(g.heard, g.whole("a")), "; ")
	})
	return line, met
}

// fail makes a call to a node's disk fail.
func (p *player) fail(f *fault) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	p.disk.fault = f
}

// ended reports whether a life has ended by itself.
func (p *player) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// whole tells who has a host, and how much of it.
func (g *scene) whole(name string) string {
	var copies []string
	digests := make(map[frontier.Digest]bool)
	owners := g.owners(g.hosts[name])
	for _, p := range g.all() {
		role, known, err := p.disk.RoleOf(g.t.Context(), g.hosts[name])
		if err == nil && known && g.running(p) {
			all, done := p.has(g.hosts[name])
			if d, err := p.disk.DigestOf(g.t.Context(), g.hosts[name]); err == nil {
				digests[d] = true
			}
			copies = append(copies, fmt.Sprintf("%d (%v, %d, %d done)", p.at, role, all, done))
			if role == frontier.Owned && !slices.Equal(owners, []int{p.at}) {
				g.t.Errorf("%s is owned by %v", name, owners)
			}
		}
	}
	if len(copies) != 2 || len(digests) != 1 {
		g.t.Errorf("%s has not two equal copies: %v", name, copies)
	}
	return "in the end " + strings.Join(copies, ", ")
}

// forget loses what has changed, as a frontier does that has no memory for it.
func (d *disk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for host := range d.changes {
		d.changes[host] = &frontier.Change{Lost: true}
	}
}

// untrack stops tracking the digest of a host, until it is asked for.
func (d *disk) untrack(host string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loose[host] = true
}

func (d *disk) Untold(u identity.URL) bool {
	d.gate()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.changes[u.Host]
	return c != nil && (c.Lost || slices.ContainsFunc(c.Added, func(p frontier.PendingURL) bool { return p.Path == u.Path }))
}
