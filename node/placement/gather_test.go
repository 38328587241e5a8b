package placement

import (
	"fmt"
	"testing"
	"time"

	"proxima/frontier"
)

// A walk over many hosts that looks at few of them in each check finds every ready host.
func TestGatherMeetsEveryHost(t *testing.T) {
	w := newWorld(t)
	for i := range 2500 {
		n := 1
		if i%10 == 0 {
			n = 60
		}
		w.addHost(fmt.Sprintf("http://h%04d.example", i), addrOf(1), n)
	}
	cfg := cycle()
	cfg.Hosts = 20
	b := New(cfg, w.deps())
	b.walk.scan = 2 * stride
	now := time.Now()
	met := make(map[string]int)
	for range 60 {
		hosts, err := b.gather(now, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(hosts) > 20 {
			t.Fatalf("%d hosts in a batch", len(hosts))
		}
		seen := make(map[string]bool)
		for _, h := range hosts {
			if seen[h.name] {
				t.Fatalf("%s twice in one batch", h.name)
			}
			seen[h.name] = true
			met[h.name]++
			w.hosts[h.name].owner = "assigned:n1"
		}
	}
	if len(met) != 250 {
		t.Errorf("met %d hosts", len(met))
	}
	if len(b.walk.noticed) != 2250 {
		t.Errorf("noticed %d hosts", len(b.walk.noticed))
	}
	// Hosts that are gone are forgotten when there is no room left.
	for _, h := range w.hosts {
		h.urls = nil
	}
	b.walk.most = 2250
	if _, err := b.gather(now.Add(time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if len(b.walk.noticed) != 0 {
		t.Errorf("%d hosts are still noticed", len(b.walk.noticed))
	}
}

// A check looks past hosts that are not ready, as far as it may. The next one goes on from there.
func TestACheckLooksFar(t *testing.T) {
	w := newWorld(t)
	for i := range 3 * stride {
		n := 1
		if i == stride*3/2 || i == stride*5/2 {
			n = 60
		}
		w.addHost(fmt.Sprintf("http://h%04d.example", i), addrOf(1), n)
	}
	b := New(cycle(), w.deps())
	b.walk.scan = 2 * stride
	for check, want := range []string{"http://h0750.example", "http://h1250.example"} {
		hosts, err := b.gather(time.Now(), nil)
		if err != nil || len(hosts) == 0 || hosts[0].name != want {
			t.Fatalf("check %d: %v, %v, want %s", check, hosts, err, want)
		}
		w.hosts[want].owner = "assigned:n1"
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
	b.walk.scan = 2 * stride
	for i, want := range []string{"http://h00.example", "http://h12.example", "http://h24.example", "http://h06.example"} {
		hosts, err := b.gather(time.Now(), nil)
		if err != nil || len(hosts) != 12 || hosts[0].name != want {
			t.Fatalf("batch %d: %d hosts from %v: %v", i, len(hosts), hosts[0].name, err)
		}
	}
}

func TestWaitsBeginWhenAHostIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.addHost("http://small.example", addrOf(1), 3)
	b := New(cycle(), w.deps())
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {9 * time.Minute, 0}, {10 * time.Minute, 1}} {
		hosts, err := b.gather(now.Add(step.after), nil)
		if err != nil || len(hosts) != step.want {
			t.Errorf("after %v: %d hosts, %v", step.after, len(hosts), err)
		}
	}
	// A host that rests is left out, and then waits anew.
	b.walk.resting["http://small.example"] = now.Add(30 * time.Minute)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{29 * time.Minute, 0}, {30 * time.Minute, 0}, {39 * time.Minute, 0}, {40 * time.Minute, 1}} {
		hosts, err := b.gather(now.Add(step.after), nil)
		if err != nil || len(hosts) != step.want {
			t.Errorf("after %v: %d hosts, %v", step.after, len(hosts), err)
		}
	}
}

// A host with as many URLs as a batch wants is ready at once.
func TestURLsThatMakeAHostReady(t *testing.T) {
	for urls, ready := range map[int]int{49: 0, 50: 1} {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), urls)
		if hosts, err := New(cycle(), w.deps()).gather(time.Now(), nil); err != nil || len(hosts) != ready {
			t.Errorf("with %d URLs: %d hosts, %v", urls, len(hosts), err)
		}
	}
}

// When too many hosts are noticed, those that are overdue for as long as they had to wait are forgotten, and no others.
func TestHostsThatAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.addHost("http://small.example", addrOf(1), 3) // it is noticed if there is room
	p := New(cycle(), w.deps())
	now := time.Now()
	for most, want := range map[int]int{4: 4, 3: 3, 2: 2} {
		p.walk.most = most
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
