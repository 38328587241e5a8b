package placement

import (
	"fmt"
	"testing"
	"time"

	"proxima/frontier"
)

// A walk over many hosts that looks at few of them in each check finds every ready host once.
func TestGatherMeetsEveryHost(t *testing.T) {
	w := newWorld(t)
	for i := range 2500 {
		n := 1
		if i%10 == 0 {
			n = 60
		}
		w.addHost(fmt.Sprintf("http://h%04d.example", i), addrOf(1), n)
	}
	p := New(cycle(), w.deps())
	p.walk.scan = 2 * stride
	met := make(map[string]bool)
	for range 60 {
		hosts, err := p.gather(time.Now(), nil)
		if err != nil || len(hosts) > 20 {
			t.Fatalf("%d hosts in a batch, %v", len(hosts), err)
		}
		for _, h := range hosts {
			if met[h.name] {
				t.Fatalf("%s twice", h.name)
			}
			met[h.name] = true
		}
		for _, h := range hosts {
			w.hosts[h.name].owner = "assigned:n1"
		}
	}
	if len(met) != 250 || len(p.walk.noticed) != 2250 {
		t.Errorf("met %d hosts, noticed %d", len(met), len(p.walk.noticed))
	}
}

// A check that comes to the last host goes on with the first.
func TestGatherWrapsWithinACheck(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		w.addHost(fmt.Sprintf("http://h%02d.example", i), addrOf(1), 60)
	}
	cfg := cycle()
	cfg.Hosts = 12
	b := New(cfg, w.deps())
	for i, want := range []string{"http://h00.example", "http://h12.example", "http://h24.example", "http://h06.example"} {
		hosts, err := b.gather(time.Now(), nil)
		if err != nil || len(hosts) != 12 || hosts[0].name != want {
			t.Fatalf("batch %d: %d hosts from %v: %v", i, len(hosts), hosts[0].name, err)
		}
	}
}

// A host with 50 URLs is ready at once. One with fewer waits for ten minutes from when it is noticed, and if it rests, anew after that.
func TestWaitsBeginWhenAHostIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.addHost("http://small.example", addrOf(1), 49)
	ready := w.addHost("http://ready.example", addrOf(2), 50)
	p, begin := New(cycle(), w.deps()), time.Now()
	for _, step := range []struct{ minute, hosts int }{{0, 1}, {9, 0}, {10, 1}, {29, 0}, {30, 0}, {39, 0}, {40, 1}} {
		hosts, err := p.gather(begin.Add(time.Duration(step.minute)*time.Minute), nil)
		if err != nil || len(hosts) != step.hosts || step.minute == 0 && hosts[0].name != ready.name {
			t.Errorf("after %d minutes: %d hosts, %v", step.minute, len(hosts), err)
		}
		if ready.owner = "assigned:n1"; step.minute == 10 {
			p.walk.resting["http://small.example"] = begin.Add(30 * time.Minute)
		}
	}
}

// However many hosts there are, and however long a walk over them takes, one with few URLs gets its turn.
func TestALongWalkReachesHostsThatWait(t *testing.T) {
	w := newWorld(t)
	for i := range 6 * stride {
		w.addHost(fmt.Sprintf("http://h%04d.example", i), addrOf(1), 1)
	}
	p, now := New(cycle(), w.deps()), time.Now()
	p.walk.scan, p.walk.most = stride, 30
	met := 0
	for range 60 { // a walk takes half an hour
		hosts, err := p.gather(now, nil)
		must(t, err)
		for _, h := range hosts {
			w.hosts[h.name].owner = "assigned:n1"
		}
		met += len(hosts)
		now = now.Add(p.cfg.LongestWait / 2)
	}
	if met < 100 {
		t.Errorf("%d hosts in five hours", met)
	}
}

// When too many hosts are noticed, those that a whole walk has not found since they were overdue are forgotten, and no others.
func TestHostsThatAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.addHost("http://small.example", addrOf(1), 3) // it is noticed if there is room
	p := New(cycle(), w.deps())
	now := time.Now()
	for most, want := range map[int]int{4: 4, 3: 3, 2: 2} {
		p.walk.most, p.walk.lastBegan, p.walk.thisBegan = most, now.Add(-p.cfg.LongestWait), now
		p.walk.noticed = map[string]time.Time{"new": now, "overdue": now.Add(-2 * p.cfg.LongestWait), "gone": now.Add(-2*p.cfg.LongestWait - 1)}
		if _, err := p.gather(now, nil); err != nil || len(p.walk.noticed) != want {
			t.Errorf("with room for %d: %v, %v", most, p.walk.noticed, err)
		}
		if _, there := p.walk.noticed["gone"]; there != (most > 3) {
			t.Errorf("with room for %d: %v", most, p.walk.noticed)
		}
	}
}

// looks counts how often each host is looked at.
type looks struct {
	*world
	seen  map[string]int
	calls int
}

func (l *looks) Ready(after string, minURLs, most int) ([]frontier.ReadyHost, string, error) {
	hosts, next, err := l.world.Ready(after, minURLs, most)
	l.calls++
	for _, h := range hosts {
		l.seen[h.Host]++
	}
	return hosts, next, err
}

// Wherever a check begins, it looks at all hosts, or at as many as it may. It looks at a host twice only in the stride that comes to
// its beginning.
func TestACheckLooksAtEveryHost(t *testing.T) {
	for _, hosts := range []int{0, 1, stride - 1, stride, stride + 1, 3 * stride, maxScan, maxScan + 1} {
		w := newWorld(t)
		name := func(i int) string { return fmt.Sprintf("http://h%04d.example", i) }
		for i := range hosts {
			w.addHost(name(i), addrOf(1), 1)
		}
		for _, after := range []string{"", name(0), name(hosts / 2), name(hosts - 1), name(hosts)} {
			l := &looks{world: w, seen: make(map[string]int)}
			deps := w.deps()
			deps.Frontier = l
			p := New(cycle(), deps)
			p.walk.after = after
			if found, err := p.gather(time.Now(), nil); err != nil || len(found) > 0 {
				t.Fatalf("%d hosts are ready, %v", len(found), err)
			}
			twice := 0
			for _, n := range l.seen {
				twice += n - 1
			}
			few := hosts <= maxScan-2*stride // it has time to come to its beginning
			if few && len(l.seen) != hosts || len(l.seen) < min(hosts, maxScan-stride) || twice >= stride || l.calls > maxScan/stride {
				t.Errorf("of %d hosts, after %q: %d are looked at, %d twice, in %d calls", hosts, after, len(l.seen), twice, l.calls)
			}
		}
	}
}
