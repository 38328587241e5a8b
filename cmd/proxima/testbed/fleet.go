package testbed

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/rundir"
)

// FleetOptions say how to run a scenario on real machines.
type FleetOptions struct {
	// Dir is the folder of all runs. Runs that are finished there are not repeated.
	Dir string
	// Hosts can run nodes. Sites run the web servers of the scenario. Without Sites, the crawl begins with Seeds on the real web.
	Hosts, Sites []Host
	Seeds        []string
	// Sets is the number of equal sets of hosts that run the scenario at the same time.
	Sets int
	// Seed draws what the scenario leaves open. 0 takes the scenario's seed.
	Seed uint64
	// Program is copied to the hosts. HostDir is the folder there that holds everything.
	Program, HostDir string
	// SSH is the configuration file for ssh, or "" for the default.
	SSH string
	// Jobs is the number of hosts to work on at once. Timeout limits the time to connect.
	Jobs    int
	Timeout time.Duration
	// Port is the port of the servers of the first set. Each further set has the next one.
	Port int
	// Command is the command line, which the folder of each run records.
	Command string
	// Out receives messages and progress for people.
	Out io.Writer
}

// fleet executes Fleet.
type fleet struct {
	FleetOptions
	remote
	scenario Scenario
	program  string // its file name on the hosts
	packed   []byte
	out      printer
}

// hostInfo describes a host that can be used.
type hostInfo struct {
	host       Host
	load       float64 // of the last minute, divided by the number of processors
	dir        string  // absolute
	translated bool    // whether the address that others dial is not one of its own
}

// Fleet runs a scenario on real machines over ssh: each assigner in turn, on equal sets of hosts at the same time. In the folder, set-1 and
// so on have a run for each assigner. unfinished has the others. Fleet returns when everything that it started has ended.
func Fleet(ctx context.Context, s Scenario, o FleetOptions) error {
	f := &fleet{FleetOptions: o, scenario: s, out: newPrinter(o.Out), remote: remote{config: o.SSH, dir: o.HostDir, seconds: max(1, int(o.Timeout.Seconds()))}}
	if err := f.check(); err != nil {
		return err
	}
	if err := f.pack(); err != nil {
		return err
	}
	sets, err := f.chooseSets(ctx)
	if err != nil {
		return err
	}
	return forEach(len(sets), len(sets), func(k int) error {
		if err := f.runSet(ctx, k, sets[k]); err != nil {
			err = fmt.Errorf("set %d: %w", k+1, err)
			f.out.say("%v", err)
			return err
		}
		return nil
	})
}

// forEach calls do for 0 to n-1, at most limit at once, and returns all errors.
func forEach(n, limit int, do func(i int) error) error {
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(limit)
	for i := range n {
		g.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = g.Wait() // errs has the errors
	return errors.Join(errs...)
}

// check returns an error if real machines cannot run the scenario.
func (f *fleet) check() error {
	for _, e := range f.scenario.Events {
		switch e.Kind {
		case rundir.EventBandwidth, rundir.EventPartition, rundir.EventHeal:
			return fmt.Errorf("event %s at %v: %w", e.Kind, e.At, errReal)
		case rundir.EventSlow:
			if len(f.Sites) == 0 {
				return fmt.Errorf("event %s at %v: a server can be slow only on a machine for sites", e.Kind, e.At)
			}
		}
	}
	addresses, servers := 0, 0
	for _, h := range f.Sites {
		addresses += len(h.Addresses)
	}
	for _, g := range f.scenario.Sites {
		servers += g.Count
	}
	switch {
	case len(f.Sites) == 0 && len(f.Seeds) == 0:
		return errors.New("a fleet needs machines for sites, or seeds on the real web")
	case len(f.Sites) > 0 && addresses < servers:
		return fmt.Errorf("the scenario has %d servers, but the list of sites has only %d addresses", servers, addresses)
	case f.Sets < 1 || f.Jobs < 1:
		return errors.New("the number of sets and the number of jobs must be at least 1")
	case f.Port < 1 || f.Port > math.MaxUint16+1-f.Sets:
		return fmt.Errorf("there are no %d ports from %d on", f.Sets, f.Port)
	}
	return nil
}

// pack compresses the program for the hosts. Its name on them includes a hash of its content, so that no host receives it twice.
func (f *fleet) pack() error {
	text, err := os.ReadFile(f.Program)
	if err != nil {
		return fmt.Errorf("read the program for the hosts: %w", err)
	}
	sum := sha256.Sum256(text)
	f.program = "proxima-" + hex.EncodeToString(sum[:6])
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(text)
		err = errors.Join(err, z.Close())
	}
	if err != nil {
		return fmt.Errorf("pack the program for the hosts: %w", err)
	}
	f.packed = b.Bytes()
	return nil
}

// inspect asks a host about itself and copies the program to it.
func (f *fleet) inspect(ctx context.Context, h Host) (hostInfo, error) {
	l := hostInfo{host: h}
	text, err := f.answer(ctx, h, `echo "$(cut -d " " -f 1 /proc/loadavg) $(nproc) $(uname -sm | tr " " /) ${SSH_CONNECTION:-}"; pwd -P; hostname -I 2>/dev/null || true`)
	if err != nil {
		return l, err
	}
	lines := append(strings.Split(text, "\n"), "", "")
	var cores float64
	var system, peer, port, address string
	if _, err := fmt.Sscan(lines[0], &l.load, &cores, &system, &peer, &port, &address); err != nil || cores < 1 {
		return l, fmt.Errorf("host %s answered %q", h.Name, lines[0])
	}
	l.load, l.dir = l.load/cores, lines[1]
	if want := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]; f.Program == self() && system != "Linux/"+want {
		return l, fmt.Errorf("host %s is a %s machine, which cannot run this program: name another program", h.Name, system)
	}
	if len(h.Addresses) == 0 {
		a, err := netip.ParseAddr(address)
		if err != nil {
			return l, fmt.Errorf("find the address of host %s: %w", h.Name, err)
		}
		l.host.Addresses = []netip.Addr{a.Unmap()}
	}
	mine := l.host.Addresses[0]
	l.translated = !mine.IsLoopback() && !slices.Contains(strings.Fields(lines[2]), mine.String())
	return l, f.run(ctx, h, fmt.Sprintf(`if [ -x %[1]s ]; then exit 0; fi; gzip -dc >%[1]s.$$; chmod 700 %[1]s.$$; mv -f %[1]s.$$ %[1]s`, f.program),
		bytes.NewReader(f.packed), nil)
}

// self returns the path of this program, or "" if it is unknown.
func self() string {
	path, _ := os.Executable()
	return path
}

// inspectAll inspects hosts and returns those that can be used. It prints why the others cannot.
func (f *fleet) inspectAll(ctx context.Context, hosts []Host) []hostInfo {
	found := make([]hostInfo, len(hosts))
	_ = forEach(len(hosts), f.Jobs, func(i int) (err error) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if found[i], err = f.inspect(ctx, hosts[i]); err != nil {
			found[i].dir = ""
			f.out.say("left out: %v", err)
		}
		return err
	})
	return slices.DeleteFunc(found, func(h hostInfo) bool { return h.dir == "" })
}

// chooseSets returns the hosts of each set: those that an earlier call wrote to the folder, or the least loaded.
func (f *fleet) chooseSets(ctx context.Context) ([][]hostInfo, error) {
	if len(f.Sites) > 0 {
		if found := f.inspectAll(ctx, f.Sites); len(found) < len(f.Sites) {
			return nil, fmt.Errorf("%d of %d machines for sites can be used", len(found), len(f.Sites))
		}
	}
	file := func(k int) string { return filepath.Join(f.setDir(k), "hosts") }
	if _, err := os.Stat(file(0)); err == nil {
		sets := make([][]hostInfo, f.Sets)
		for k := range sets {
			hosts, err := ReadHosts(file(k))
			if err != nil {
				return nil, err
			}
			if sets[k] = f.inspectAll(ctx, hosts); len(sets[k]) < len(hosts) {
				f.out.say("set %d: %d of its %d hosts can be used", k+1, len(sets[k]), len(hosts))
				sets[k] = nil
			}
		}
		return sets, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find sets: %w", err)
	}
	found := f.inspectAll(ctx, f.Hosts)
	size := 0
	for _, g := range f.scenario.Nodes {
		size += g.Count
	}
	if need := size * f.Sets; len(found) < need {
		return nil, fmt.Errorf("%d sets of %d nodes need %d hosts; %d of %d can be used", f.Sets, size, need, len(found), len(f.Hosts))
	}
	sets := divide(found, f.Sets, size)
	for k, set := range sets {
		var list strings.Builder
		for _, l := range set {
			fmt.Fprintf(&list, "%s # load per processor %.2f\n", l.host.entry, l.load)
		}
		if err := os.MkdirAll(f.setDir(k), 0o755); err != nil {
			return nil, fmt.Errorf("make folder of a set: %w", err)
		}
		if err := os.WriteFile(file(k), []byte(list.String()), 0o644); err != nil {
			return nil, fmt.Errorf("write hosts of a set: %w", err)
		}
	}
	return sets, nil
}

// divide divides the least loaded hosts into sets. It begins with the most loaded of them and gives each host to the set with the least load
// that has room.
func divide(hosts []hostInfo, sets, size int) [][]hostInfo {
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b hostInfo) int { return cmp.Compare(a.load, b.load) })
	hosts = hosts[:sets*size]
	slices.Reverse(hosts)
	dealt, sums := make([][]hostInfo, sets), make([]float64, sets)
	for _, h := range hosts {
		to := -1
		for k := range dealt {
			if len(dealt[k]) < size && (to < 0 || sums[k] < sums[to]) {
				to = k
			}
		}
		dealt[to], sums[to] = append(dealt[to], h), sums[to]+h.load
	}
	return dealt
}

func (f *fleet) setDir(k int) string { return filepath.Join(f.Dir, fmt.Sprintf("set-%d", k+1)) }

// runSet runs each assigner on a set of hosts, unless its run is finished.
func (f *fleet) runSet(ctx context.Context, k int, hosts []hostInfo) error {
	if hosts == nil {
		return errors.New("some of its hosts cannot be used")
	}
	out := f.out
	out.prefix = fmt.Sprintf("set %d: ", k+1)
	var errs []error
	for _, a := range f.scenario.Assigners {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		done := filepath.Join(f.setDir(k), a)
		if _, err := os.Stat(done); err == nil {
			out.say("the run of assigner %s is finished", a)
			continue
		}
		part := filepath.Join(f.Dir, "unfinished", fmt.Sprintf("set-%d-%s", k+1, a))
		if err := os.RemoveAll(part); err != nil {
			return fmt.Errorf("remove an unfinished run: %w", err)
		}
		out.say("assigner %s", a)
		err := f.runAssigner(ctx, k, a, part, hosts, out)
		if err == nil {
			err = os.Rename(part, done)
		} else {
			_ = os.Remove(filepath.Join(part, rundir.WorldFile)) // compare finds runs by this file
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("assigner %s: %w", a, err))
			out.say("assigner %s: %v", a, err)
		}
	}
	return errors.Join(errs...)
}

// runAssigner runs an assigner on a set of hosts.
func (f *fleet) runAssigner(ctx context.Context, k int, assigner, dir string, hosts []hostInfo, out printer) (err error) {
	plan, err := f.plan(assigner, hosts)
	if err != nil {
		return err
	}
	r := &run{plan: plan, dir: dir, command: f.Command, out: out}
	b := &machines{remote: f.remote, run: r, program: f.program, infos: hosts, web: map[netip.Addr]*conversation{}, port: f.Port + k, jobs: f.Jobs,
		seeds: f.Seeds}
	for _, l := range hosts {
		b.hosts = append(b.hosts, l.host)
	}
	r.platform, r.configure = b, b.configure
	if err := r.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if len(f.Sites) > 0 {
		if err := b.serve(ctx, f.Sites, []byte(plan.Scenario.Text())); err != nil {
			return err
		}
	}
	if err := r.writeSeeds(b.frontPages()); err != nil {
		return err
	}
	if err := b.deploy(ctx); err != nil {
		return err
	}
	r.world = plan.World()
	r.world.Pages = b.pages()
	err = r.execute(ctx)
	// Collect the logs of failed runs, too.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
	defer cancel()
	return errors.Join(err, b.collect(late))
}

// plan plans the run of an assigner on real machines, whose round trips are unknown.
func (f *fleet) plan(assigner string, hosts []hostInfo) (*Plan, error) {
	p := &Plan{Scenario: f.scenario.as(f.Seed, assigner)}
	if err := p.addNodes(nil); err != nil {
		return nil, err
	}
	if len(hosts) < len(p.Nodes) {
		return nil, fmt.Errorf("the set has %d hosts for %d nodes: name another -out, since this one has the sets of an earlier call", len(hosts), len(p.Nodes))
	}
	for i := range p.Nodes {
		h := hosts[i].host
		p.Nodes[i].Addr = h.Addresses[0]
		if p.Nodes[i].Name == "" {
			p.Nodes[i].Name = p.freeName(slug(strings.ReplaceAll(h.Name, ".", "-")))
		}
	}
	if len(f.Sites) == 0 {
		return p, nil
	}
	var addresses []netip.Addr
	for _, h := range f.Sites {
		addresses = append(addresses, h.Addresses...)
	}
	return p, p.addServers(nil, addresses)
}
