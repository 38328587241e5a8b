package testbed

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
)

// machines is the bed of real machines over ssh: a node on each, and servers of one's own on others, or the web as it is.
type machines struct {
	remote
	run     *run
	program string                       // below the directory on each host
	hosts   []Host                       // by node
	looks   []look                       // by node
	web     map[netip.Addr]*conversation // by server
	serving []*conversation
	port    int
	seeds   []string // without servers of one's own
	jobs    int
}

// packagesFolder holds what the sink of a node writes, on its host.
const packagesFolder = "packages"

// deploy puts the files of all nodes on their hosts, in place of those of an earlier run.
func (b *machines) deploy(ctx context.Context) error {
	return b.each(ctx, func(ctx context.Context, i int) error {
		var files bytes.Buffer
		dir := b.run.nodeDir(i)
		err := pack(&files, map[string]string{nodeFile: filepath.Join(dir, nodeFile), "node.json": filepath.Join(dir, "node.json"),
			seedsFile: filepath.Join(dir, seedsFile), secretFile: filepath.Join(b.run.dir, secretFile)})
		if err != nil {
			return fmt.Errorf("pack files of node %s: %w", b.run.plan.Nodes[i].Name, err)
		}
		return b.remote.run(ctx, b.hosts[i], "rm -rf run; mkdir run; tar -xzf - -C run --no-same-owner", &files, nil)
	})
}

// collect fetches logs and packages of all nodes into the folder of the run.
func (b *machines) collect(ctx context.Context) error {
	return b.each(ctx, func(ctx context.Context, i int) error {
		read, write := io.Pipe()
		var g errgroup.Group
		g.Go(func() error {
			err := unpack(read, b.run.nodeDir(i))
			_ = read.CloseWithError(err) // ssh need not go on
			return err
		})
		err := b.remote.run(ctx, b.hosts[i], "cd run; mkdir -p logs "+packagesFolder+"; touch "+outputFile+"; tar -czf - logs "+packagesFolder+" "+
			outputFile, nil, write)
		_ = write.CloseWithError(err) // nil is the end of the file
		return errors.Join(err, g.Wait())
	})
}

// each does something for all nodes, some at once, and goes on where one fails.
func (b *machines) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	errs := make([]error, len(b.hosts))
	var g errgroup.Group
	g.SetLimit(b.jobs)
	for i := range b.hosts {
		g.Go(func() error {
			errs[i] = do(ctx, i)
			return nil
		})
	}
	_ = g.Wait() // they are in errs
	return errors.Join(errs...)
}

// configure sets what depends on the host of a node.
func (b *machines) configure(i int, c *node.Config) {
	own := func(port int) string { return netip.AddrPortFrom(b.hosts[i].Addresses[0], uint16(port)).String() }
	listen := own
	if b.looks[i].translated {
		listen = func(port int) string { return fmt.Sprintf(":%d", port) }
	}
	c.Peer.Secret, c.Geo.Database = secretFile, ""
	c.Peer.Listen, c.Peer.Advertise = listen(peerPort), own(peerPort)
	c.Member.Bind, c.Member.Advertise = listen(gossipPort), own(gossipPort)
	if c.Sink.Dir() != "" {
		c.Sink.URL = "file://" + b.looks[i].dir + "/run/" + packagesFolder
	}
	if len(b.seeds) > 0 {
		return
	}
	c.Scope.SeedScope, c.Scope.Include.Hosts = "host", []string{"*." + topDomain}
	c.Fetch.AllowPrefixes, c.Politeness.Own = slices.Clone(c.Fetch.AllowPrefixes), slices.Clone(c.Politeness.Own) // nodes share the scenario's
	c.Fetch.DNS.Hosts = map[string][]string{}
	for _, s := range b.run.plan.Servers {
		prefix := netip.PrefixFrom(s.Addr, s.Addr.BitLen()).String()
		c.Fetch.AllowPrefixes, c.Politeness.Own = append(c.Fetch.AllowPrefixes, prefix), append(c.Politeness.Own, prefix)
		for _, h := range s.Hosts {
			c.Fetch.DNS.Hosts[h] = []string{s.Addr.String()}
		}
	}
}

// serve starts the servers of the plan, each on the host that has its address.
func (b *machines) serve(ctx context.Context, hosts []Host, scenario []byte) error {
	var all []string
	for _, h := range hosts {
		for _, a := range h.Addresses {
			all = append(all, a.String())
		}
	}
	folder := fmt.Sprintf("sites-%d", b.port)
	for _, h := range hosts {
		err := b.remote.run(ctx, h, "mkdir -p "+folder+"; cat >"+folder+"/"+rundir.ScenarioFile, bytes.NewReader(scenario), nil)
		if err != nil {
			return fmt.Errorf("serve sites: %w", err)
		}
		for _, a := range h.Addresses {
			c, err := b.converse(h, fmt.Sprintf("exec ./%s sites %s/%s -orders -port %d -seed %d -here %s -at %s", b.program, folder, rundir.ScenarioFile,
				b.port, b.run.plan.Seed, a, strings.Join(all, ",")))
			if err != nil {
				return fmt.Errorf("serve sites: %w", err)
			}
			b.serving, b.web[a] = append(b.serving, c), c
		}
	}
	for _, c := range b.serving { // the first line says that it listens
		select {
		case _, ok := <-c.lines:
			if !ok {
				<-c.over
				return fmt.Errorf("serve sites: %w", errors.Join(errors.New("they ended at once"), c.err))
			}
		case <-ctx.Done():
			return fmt.Errorf("serve sites: %w", context.Cause(ctx))
		}
	}
	return nil
}

// distant is a life of a node on another machine.
type distant struct {
	ending
	talk    *conversation
	answers chan tended
	mu      sync.Mutex // one question at a time
}

func (b *machines) start(_ context.Context, i int) (life, error) {
	c, err := b.converse(b.hosts[i], fmt.Sprintf("cd run; exec ../%s fleet tend %d", b.program, b.run.plan.Seed+uint64(i)))
	if err != nil {
		return nil, err
	}
	l := &distant{ending: newEnding(), talk: c, answers: make(chan tended, 1)}
	go func() { l.end(l.listen()) }()
	return l, nil
}

// listen reads the answers until the conversation ends, and returns how the node ended.
func (l *distant) listen() (fault error) {
	for line := range l.talk.lines {
		var t tended
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			fault = fmt.Errorf("host %s said %.100q: %w", l.talk.host.Name, line, err)
			continue
		}
		if t.Ended {
			if t.Fault != "" {
				fault = errors.New(t.Fault)
			}
			continue
		}
		select {
		case l.answers <- t:
		default: // nobody waits for it any more
		}
	}
	<-l.talk.over
	if fault == nil && l.talk.err != nil {
		fault = fmt.Errorf("the connection ended: %w", l.talk.err)
	}
	return fault
}

func (l *distant) stop()                  { l.talk.say(orderStop) }
func (l *distant) kill()                  { l.talk.say(orderKill) }
func (l *distant) setShare(share float64) { l.talk.say(fmt.Sprintf("%s %g", orderShare, share)) }

func (l *distant) status(ctx context.Context) (node.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.answers: // a late answer to an earlier question
	default:
	}
	l.talk.say(orderStatus)
	select {
	case t := <-l.answers:
		if t.Status == nil {
			return node.Status{}, fmt.Errorf("host %s: %s", l.talk.host.Name, t.Fault)
		}
		return *t.Status, nil
	case <-l.over:
		return node.Status{}, errors.New("it has ended")
	case <-ctx.Done():
		return node.Status{}, ctx.Err()
	}
}

func (b *machines) slow(server int, add time.Duration) error {
	addr := b.run.plan.Servers[server].Addr
	b.web[addr].say(fmt.Sprintf("slow %s %g", addr, inMs(add)))
	return nil
}

// errReal reports what cannot be done to real machines. Fleet refuses scenarios that ask for it.
var errReal = errors.New("this cannot be done to real machines")

func (b *machines) bandwidth(int, float64) error             { return errReal }
func (b *machines) partition(func(int) bool) error           { return errReal }
func (b *machines) client(int) (*http.Client, func(), error) { return nil, nil, errReal }
func (b *machines) urls(int) []string                        { return nil }

func (b *machines) visits() map[netip.Addr][]sites.Visit { return nil } // other machines saw them

// faithful checks that the servers lasted to the end. There is nothing to report about a network that nobody emulates.
func (b *machines) faithful() (t rundir.Testbed, err error) {
	for _, c := range b.serving {
		select {
		case <-c.over:
			return t, fmt.Errorf("the sites on host %s ended before the run: %w", c.host.Name, cmp.Or(c.err, errors.New("without an error")))
		default:
		}
	}
	return t, nil
}

func (b *machines) fronts() []string {
	if len(b.seeds) > 0 {
		return b.seeds
	}
	var list []string
	for _, s := range b.run.plan.Servers {
		for _, h := range s.Hosts {
			list = append(list, fmt.Sprintf("http://%s:%d/", h, b.port))
		}
	}
	return list
}

// pages counts the pages of all servers; 0 for the real web.
func (b *machines) pages() (n int) {
	for _, s := range b.run.plan.Servers {
		n += s.Site.Pages * len(s.Hosts)
	}
	return n
}

// close ends the servers.
func (b *machines) close() error {
	var g errgroup.Group
	for _, c := range b.serving {
		g.Go(func() error { c.close(); return nil })
	}
	return g.Wait()
}

// pack writes files, by the names that they shall have, as a compressed tar.
func pack(w io.Writer, files map[string]string) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for name, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// unpack writes the plain files of a compressed tar below a folder, and nothing outside of it.
func unpack(r io.Reader, dir string) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer root.Close()
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, z) // its sum comes at the end
			return err
		} else if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		f, err := root.Create(h.Name)
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		_, err = io.Copy(f, t)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}
