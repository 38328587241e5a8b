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
	"math/rand/v2"
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

// FleetOptions are how a scenario is to be run on real machines.
type FleetOptions struct {
	// Dir is the folder of all runs. What is finished there is not run again.
	Dir string
	// Hosts may carry nodes, Sites servers of one's own. Seeds are the URLs to begin with where there are no Sites.
	Hosts, Sites []Host
	Seeds        []string
	// Sets is how many equal sets of hosts run the scenario side by side.
	Sets int
	// Seed draws what the scenario leaves open; 0 is the scenario's own.
	Seed uint64
	// Program is copied to the hosts; HostDir is where everything is on them.
	Program, HostDir string
	// SSH is the file that configures ssh, "" for its own.
	SSH string
	// Jobs is how many hosts are worked on at once; Timeout is what a connection may take.
	Jobs    int
	Timeout time.Duration
	// Port is that of the servers of the first set; other sets have the next ones.
	Port int
	// Command is what the runs were asked for by.
	Command string
	// Out is for people.
	Out io.Writer
}

// fleet is the work of Fleet.
type fleet struct {
	FleetOptions
	remote
	scenario Scenario
	program  string // its name on the hosts
	packed   []byte
	out      printer
}

// look is what a host says of itself.
type look struct {
	host       Host
	load       float64 // of the last minute, a processor
	dir        string  // absolute
	translated bool    // the address that others dial is not its own
}

// Fleet runs a scenario on real machines over ssh: each assigner in turn, on equal sets of hosts side by side. The folder has set-1 and
// so on, with a run for each assigner, and what is unfinished. It blocks until everything that it started has ended.
func Fleet(ctx context.Context, s Scenario, o FleetOptions) error {
	f := &fleet{FleetOptions: o, scenario: s, out: newPrinter(o.Out), remote: remote{config: o.SSH, dir: o.HostDir, seconds: max(1, int(o.Timeout.Seconds()))}}
	if err := f.check(); err != nil {
		return err
	}
	if err := f.pack(); err != nil {
		return err
	}
	sets, err := f.sets(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(sets))
	var g errgroup.Group
	for k, set := range sets {
		g.Go(func() error {
			if err := f.set(ctx, k, set); err != nil {
				errs[k] = fmt.Errorf("set %d: %w", k+1, err)
				f.out.say("%v", errs[k])
			}
			return nil
		})
	}
	_ = g.Wait() // they are in errs
	return errors.Join(errs...)
}

// check refuses what real machines cannot do.
func (f *fleet) check() error {
	for _, e := range f.scenario.Events {
		switch e.Kind {
		case rundir.EventBandwidth, rundir.EventPartition, rundir.EventHeal:
			return fmt.Errorf("event %s at %v: %w", e.Kind, e.At, errReal)
		case rundir.EventSlow:
			if len(f.Sites) == 0 {
				return fmt.Errorf("event %s at %v: without machines for sites no server can be made slow", e.Kind, e.At)
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
		return errors.New("a fleet needs machines for sites, or seeds of the web as it is")
	case len(f.Sites) > 0 && addresses < servers:
		return fmt.Errorf("the scenario has %d servers, the list of sites %d addresses: each server has one of its own", servers, addresses)
	case f.Sets < 1 || f.Jobs < 1:
		return errors.New("a fleet has one set of hosts at least, and works on one host at once")
	}
	return nil
}

// pack reads the program that the hosts get. Its name there tells its content, so it is copied once.
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

// look asks a host what it is, and brings it the program.
func (f *fleet) look(ctx context.Context, h Host) (look, error) {
	l := look{host: h}
	text, err := f.answer(ctx, h, `echo "$(cut -d " " -f 1 /proc/loadavg) $(nproc) $(uname -sm | tr " " /) ${SSH_CONNECTION:-}"; pwd -P; hostname -I 2>/dev/null || true`)
	if err != nil {
		return l, err
	}
	lines := append(strings.Split(text, "\n"), "", "")
	var cores float64
	var system, peer, port, address string
	if _, err := fmt.Sscan(lines[0], &l.load, &cores, &system, &peer, &port, &address); err != nil || cores < 1 {
		return l, fmt.Errorf("host %s says %q of itself", h.Name, lines[0])
	}
	l.load, l.dir = l.load/cores, lines[1]
	if want := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]; f.Program == self() && system != "Linux/"+want {
		return l, fmt.Errorf("host %s is of %s, for which this program is not: name one that is", h.Name, system)
	}
	if len(h.Addresses) == 0 {
		a, err := netip.ParseAddr(address)
		if err != nil {
			return l, fmt.Errorf("host %s does not say which address it has: %w", h.Name, err)
		}
		l.host.Addresses = []netip.Addr{a.Unmap()}
	}
	mine := l.host.Addresses[0]
	l.translated = !mine.IsLoopback() && !slices.Contains(strings.Fields(lines[2]), mine.String())
	return l, f.run(ctx, h, fmt.Sprintf(`if [ -x %[1]s ]; then exit 0; fi; gzip -dc >%[1]s.$$; chmod 700 %[1]s.$$; mv -f %[1]s.$$ %[1]s`, f.program),
		bytes.NewReader(f.packed), nil)
}

// self is the path of this program, "" where it cannot be told.
func self() string {
	path, _ := os.Executable()
	return path
}

// looks asks hosts, some at once; those that cannot be used are said, and left out.
func (f *fleet) looks(ctx context.Context, hosts []Host) []look {
	found := make([]*look, len(hosts))
	var g errgroup.Group
	g.SetLimit(f.Jobs)
	for i, h := range hosts {
		g.Go(func() error {
			one, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			l, err := f.look(one, h)
			if err != nil {
				f.out.say("left out: %v", err)
				return nil
			}
			found[i] = &l
			return nil
		})
	}
	_ = g.Wait() // what went wrong was said
	var list []look
	for _, l := range found {
		if l != nil {
			list = append(list, *l)
		}
	}
	return list
}

// sets are the hosts of each set: those of the folder, or else the least loaded.
func (f *fleet) sets(ctx context.Context) ([][]look, error) {
	if len(f.Sites) > 0 {
		if found := f.looks(ctx, f.Sites); len(found) < len(f.Sites) {
			return nil, fmt.Errorf("%d of %d machines for sites can be used", len(found), len(f.Sites))
		}
	}
	file := func(k int) string { return filepath.Join(f.setDir(k), "hosts") }
	if _, err := os.Stat(file(0)); err == nil {
		sets := make([][]look, f.Sets)
		for k := range sets {
			hosts, err := ReadHosts(file(k))
			if err != nil {
				return nil, err
			}
			if sets[k] = f.looks(ctx, hosts); len(sets[k]) < len(hosts) {
				f.out.say("set %d: %d of its %d hosts can be used", k+1, len(sets[k]), len(hosts))
				sets[k] = nil
			}
		}
		return sets, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find sets: %w", err)
	}
	found := f.looks(ctx, f.Hosts)
	size := 0
	for _, g := range f.scenario.Nodes {
		size += g.Count
	}
	if need := size * f.Sets; len(found) < need {
		return nil, fmt.Errorf("%d sets of %d nodes need %d hosts; %d of %d can be used", f.Sets, size, need, len(found), len(f.Hosts))
	}
	sets := deal(found, f.Sets, size)
	for k, set := range sets {
		var list strings.Builder
		for _, l := range set {
			fmt.Fprintf(&list, "%s # load a processor %.2f\n", l.host.entry, l.load)
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

// deal takes the least loaded hosts and gives them out, the most loaded first, each to the set with the least load that has room.
func deal(hosts []look, sets, size int) [][]look {
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b look) int { return cmp.Compare(a.load, b.load) })
	hosts = hosts[:sets*size]
	slices.Reverse(hosts)
	dealt, sums := make([][]look, sets), make([]float64, sets)
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

// set runs each assigner on a set of hosts, except those that were run before.
func (f *fleet) set(ctx context.Context, k int, hosts []look) error {
	if hosts == nil {
		return errors.New("not all of its hosts can be used")
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
			out.say("assigner %s was run before", a)
			continue
		}
		part := filepath.Join(f.Dir, "unfinished", fmt.Sprintf("set-%d-%s", k+1, a))
		if err := os.RemoveAll(part); err != nil {
			return fmt.Errorf("remove an unfinished run: %w", err)
		}
		out.say("assigner %s", a)
		err := f.one(ctx, k, a, part, hosts, out)
		if err == nil {
			err = os.Rename(part, done)
		} else {
			_ = os.Remove(filepath.Join(part, rundir.WorldFile)) // so nobody takes it for a run
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("assigner %s: %w", a, err))
			out.say("assigner %s: %v", a, err)
		}
	}
	return errors.Join(errs...)
}

// one is a run of an assigner on a set of hosts.
func (f *fleet) one(ctx context.Context, k int, assigner, dir string, hosts []look, out printer) (err error) {
	plan, err := f.plan(hosts)
	if err != nil {
		return err
	}
	r := &run{plan: plan, assigners: []string{assigner}, dir: dir, command: f.Command, out: out}
	b := &machines{remote: f.remote, run: r, program: f.program, looks: hosts, web: map[netip.Addr]*conversation{}, port: f.Port + k, jobs: f.Jobs,
		seeds: f.Seeds}
	for _, l := range hosts {
		b.hosts = append(b.hosts, l.host)
	}
	r.bed, r.locate = b, b.configure
	if err := r.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if len(f.Sites) > 0 {
		if err := b.serve(ctx, f.Sites, []byte(r.effective().Text())); err != nil {
			return err
		}
	}
	if err := r.sow(b.fronts()); err != nil {
		return err
	}
	if err := b.deploy(ctx); err != nil {
		return err
	}
	r.world = plan.World(r.assigners)
	r.world.Pages = b.pages()
	err = r.whole(ctx)
	// Whatever came of it, the logs say more.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
	defer cancel()
	return errors.Join(err, b.collect(late))
}

// plan is the scenario on real machines: nothing is known of round trips.
func (f *fleet) plan(hosts []look) (*Plan, error) {
	p := sketch(f.scenario, f.Seed)
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
	return p, p.settle(addresses)
}

// sketch is a plan with the nodes of a scenario, wherever they are.
func sketch(s Scenario, seed uint64) *Plan {
	p := &Plan{Scenario: s, Seed: cmp.Or(seed, s.Seed)}
	rnd := rand.New(rand.NewPCG(p.Seed, 1))
	for _, g := range s.Nodes {
		for _, name := range groupNames(g.Name, g.Count) {
			p.Nodes = append(p.Nodes, PlannedNode{Group: g.Name, CPU: cmp.Or(g.CPU, 1), ID: drawID(rnd), Node: rundir.Node{Name: name}})
		}
	}
	return p
}

// settle gives the servers of the scenario addresses of one's own, in turn.
func (p *Plan) settle(addresses []netip.Addr) error {
	rnd := rand.New(rand.NewPCG(p.Seed, 2))
	for _, g := range p.Scenario.Sites {
		for _, name := range groupNames(g.Name, g.Count) {
			if len(p.Servers) == len(addresses) {
				return fmt.Errorf("there are more servers than the %d addresses", len(addresses))
			}
			if name == "" {
				name = fmt.Sprintf("s%d", len(p.Servers)+1)
			}
			p.Servers = append(p.Servers, PlannedServer{Name: name, Site: g, Server: rundir.Server{Addr: addresses[len(p.Servers)],
				ThinkMs: drawThink(g, rnd), Software: SoftwarePages}})
		}
	}
	return p.nameHosts()
}
