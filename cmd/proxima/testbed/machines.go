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
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
)

// machines is the platform of real machines over ssh. Each runs a node. Other machines run the servers, unless the nodes crawl the real web.
type machines struct {
	remote
	run     *run
	program string                       // file name on each host
	hosts   []Host                       // by node
	infos   []hostInfo                   // by node
	web     map[netip.Addr]*conversation // by server
	serving []*conversation
	port    int
	seeds   []string // on the real web; empty with servers
	jobs    int
}

// packagesFolder is the folder of the node's sink on its host.
const packagesFolder = "packages"

// deploy copies the files of all nodes to their hosts. It replaces those of an earlier run.
func (b *machines) deploy(ctx context.Context) error {
	return forEach(len(b.hosts), b.jobs, func(i int) error {
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
	return forEach(len(b.hosts), b.jobs, func(i int) error {
		read, write := io.Pipe()
		var g errgroup.Group
		g.Go(func() error {
			err := unpack(read, b.run.nodeDir(i))
			_ = read.CloseWithError(err) // ends ssh if unpack failed
			return err
		})
		err := b.remote.run(ctx, b.hosts[i], "cd run; mkdir -p logs "+packagesFolder+"; touch "+outputFile+"; tar -czf - logs "+packagesFolder+" "+
			outputFile, nil, write)
		_ = write.CloseWithError(err) // nil means the end of the file
		return errors.Join(err, g.Wait())
	})
}

// configure sets the keys that depend on the host of a node.
func (b *machines) configure(i int, c *node.Config) {
	own := func(port int) string { return netip.AddrPortFrom(b.hosts[i].Addresses[0], uint16(port)).String() }
	listen := own
	if b.infos[i].translated {
		listen = func(port int) string { return fmt.Sprintf(":%d", port) }
	}
	c.Peer.Secret, c.Geo.Database = secretFile, ""
	c.Peer.Listen, c.Peer.Advertise = listen(peerPort), own(peerPort)
	c.Member.Bind, c.Member.Advertise = listen(gossipPort), own(gossipPort)
	if c.Sink.Dir() != "" {
		c.Sink.URL = "file://" + b.infos[i].dir + "/run/" + packagesFolder
	}
	if len(b.seeds) > 0 {
		return
	}
	c.Scope.SeedScope, c.Scope.Include.Hosts = "host", []string{"*." + topDomain}
	c.Fetch.AllowPrefixes, c.Politeness.Own = slices.Clone(c.Fetch.AllowPrefixes), slices.Clone(c.Politeness.Own) // the nodes share the scenario's slices
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
				b.port, b.run.plan.Scenario.Seed, a, strings.Join(all, ",")))
			if err != nil {
				return fmt.Errorf("serve sites: %w", err)
			}
			b.serving, b.web[a] = append(b.serving, c), c
		}
	}
	for _, c := range b.serving { // the first line says that the server listens
		select {
		case _, ok := <-c.lines:
			if !ok {
				return fmt.Errorf("serve sites: %w", errors.Join(errors.New("they ended immediately"), c.ended()))
			}
		case <-ctx.Done():
			return fmt.Errorf("serve sites: %w", context.Cause(ctx))
		}
	}
	return nil
}

// remoteNode is a node on another machine.
type remoteNode struct {
	ending
	talk    *conversation
	answers chan nodeReport
	mu      sync.Mutex // held during a question
}

func (b *machines) start(_ context.Context, i int) (runningNode, error) {
	c, err := b.converse(b.hosts[i], fmt.Sprintf("cd run; exec ../%s fleet tend %d", b.program, b.run.plan.Scenario.Seed+uint64(i)))
	if err != nil {
		return nil, err
	}
	l := &remoteNode{ending: newEnding(), talk: c, answers: make(chan nodeReport, 1)}
	go func() { l.end(l.listen()) }()
	return l, nil
}

// listen reads the answers until the conversation ends. It returns how the node ended.
func (l *remoteNode) listen() (fault error) {
	for line := range l.talk.lines {
		var t nodeReport
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			fault = fmt.Errorf("host %s answered %.100q: %w", l.talk.host.Name, line, err)
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
		default: // its question has timed out
		}
	}
	if err := l.talk.ended(); fault == nil && err != nil {
		fault = fmt.Errorf("the connection ended: %w", err)
	}
	return fault
}

func (l *remoteNode) stop()                  { l.talk.say(orderStop) }
func (l *remoteNode) kill()                  { l.talk.say(orderKill) }
func (l *remoteNode) setShare(share float64) { l.talk.say(fmt.Sprintf("%s %g", orderShare, share)) }

func (l *remoteNode) status(ctx context.Context) (node.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.answers: // the late answer to an earlier question
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

func (b *machines) slow(server netip.Addr, add time.Duration) error {
	b.web[server].say(fmt.Sprintf("slow %s %g", server, inMs(add)))
	return nil
}

// errReal is the error of methods that real machines do not support. Fleet refuses scenarios that need them.
var errReal = errors.New("real machines do not support this")

func (b *machines) bandwidth(netip.Addr, float64, float64) error { return errReal }
func (b *machines) partition(_, _ []netip.Addr) error            { return errReal }
func (b *machines) dial(int) (dialer, func(), error)             { return nil, nil, errReal }
func (b *machines) urls(int) []string                            { return nil }

func (b *machines) visits() map[netip.Addr][]sites.Visit { return nil } // the other machines keep them

// quality returns an error if a server ended before the run. It has no figures, since this network is real.
func (b *machines) quality() (none emulate.Stats, err error) {
	for _, c := range b.serving {
		select {
		case <-c.over:
			return none, fmt.Errorf("the sites on host %s ended before the run: %w", c.host.Name, cmp.Or(c.err, errors.New("no error")))
		default:
		}
	}
	return none, nil
}

func (b *machines) frontPages() []string {
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

// pages returns the number of pages on all servers, or 0 for the real web.
func (b *machines) pages() (n int) {
	for _, s := range b.run.plan.Servers {
		n += s.Site.Pages * len(s.Hosts)
	}
	return n
}

// close ends the servers.
func (b *machines) close() error {
	var g sync.WaitGroup
	for _, c := range b.serving {
		g.Go(c.close)
	}
	g.Wait()
	return nil
}

// pack writes a compressed tar archive. files has the path of each file by its name in the archive.
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

// unpack extracts the regular files of a compressed tar archive below a folder. It writes nothing outside the folder.
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
			_, err := io.Copy(io.Discard, z) // read and check the checksum at the end
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
