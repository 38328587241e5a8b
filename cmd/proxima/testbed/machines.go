package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"proxima/cmd/proxima/fleet"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/node"
)

// machines is the platform of real machines over ssh. Each runs a node. Other machines run the servers, unless the nodes crawl the real web.
type machines struct {
	platform // nil: has what real machines do not support. Fleet refuses scenarios that need it, and their paths are unknown
	fleet.SSH
	run   *run
	infos []fleet.Info                       // by node
	web   map[netip.Addr]*fleet.Conversation // by server
	port  int
	seeds []string // on the real web; empty with servers
}

// Folders on a host: of a run, and in it of the node's sink.
const (
	runFolder      = "run"
	packagesFolder = "packages"
)

// deploy copies the files of all nodes to their hosts. It replaces those of an earlier run.
func (b *machines) deploy(ctx context.Context) error {
	return b.Each(len(b.infos), func(i int) error {
		var files []fleet.File
		dir := b.run.nodeDir(i)
		for _, path := range []string{filepath.Join(dir, nodeFile), filepath.Join(dir, "node.json"), filepath.Join(dir, seedsFile),
			filepath.Join(b.run.dir, secretFile)} {
			f, err := fleet.ReadFile(filepath.Base(path), 0o600, path)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		_, _, err := b.Below(runFolder).Copy(ctx, b.infos[i].Host, files, "within", "rm -rf ./*; take")
		return err
	})
}

// collect fetches logs, output and packages of all nodes into the folder of the run.
func (b *machines) collect(ctx context.Context) error {
	return b.Each(len(b.infos), func(i int) error {
		_, err := b.Below(runFolder).Collect(ctx, b.infos[i].Host, b.run.nodeDir(i), outputFile, packagesFolder+"/*")
		return err
	})
}

// configure sets the keys that depend on the host of a node.
func (b *machines) configure(i int, c *node.Config) {
	info := b.infos[i]
	c.Peer.Secret, c.Geo.Database = secretFile, ""
	c.Peer.Listen, c.Peer.Advertise = info.Listen(peerPort), info.Advertise(peerPort)
	c.Member.Bind, c.Member.Advertise = info.Listen(gossipPort), info.Advertise(gossipPort)
	if c.Sink.Dir() != "" {
		c.Sink.URL = "file://" + info.Dir + "/" + runFolder + "/" + packagesFolder
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
func (b *machines) serve(ctx context.Context, hosts []fleet.Host, scenario []byte) error {
	var all []string
	for _, h := range hosts {
		for _, a := range h.Addresses {
			all = append(all, a.String())
		}
	}
	folder := fmt.Sprintf("sites-%d", b.port)
	file := fleet.NewFile(rundir.ScenarioFile, 0o600, scenario)
	for _, h := range hosts {
		if _, _, err := b.Below(folder).Copy(ctx, h, []fleet.File{file}, "within", "take"); err != nil {
			return fmt.Errorf("serve sites: %w", err)
		}
		for _, a := range h.Addresses {
			c, err := b.Converse(h, fmt.Sprintf("exec ./proxima sites %s/%s -orders -port %d -seed %d -here %s -at %s", folder, rundir.ScenarioFile,
				b.port, b.run.plan.Scenario.Seed, a, strings.Join(all, ",")))
			if err != nil {
				return fmt.Errorf("serve sites: %w", err)
			}
			b.web[a] = c
		}
	}
	for _, c := range b.web { // the first line says that the server listens
		select {
		case _, ok := <-c.Lines:
			if !ok {
				return fmt.Errorf("serve sites: %w", errors.Join(errors.New("they ended immediately"), c.Ended()))
			}
		case <-ctx.Done():
			return fmt.Errorf("serve sites: %w", context.Cause(ctx))
		}
	}
	return nil
}

type remoteNode struct {
	ending
	talk    *fleet.Conversation
	answers chan nodeReport
	mu      sync.Mutex // held during a question
}

func (b *machines) start(_ context.Context, i int) (runningNode, error) {
	c, err := b.Below(runFolder).Converse(b.infos[i].Host, fmt.Sprintf("exec ../proxima fleet tend %d", b.run.plan.Scenario.Seed+uint64(i)))
	if err != nil {
		return nil, err
	}
	l := &remoteNode{ending: newEnding(), talk: c, answers: make(chan nodeReport, 1)}
	go func() { l.end(l.listen()) }()
	return l, nil
}

// listen reads the answers until the conversation ends. It returns how the node ended.
func (l *remoteNode) listen() (fault error) {
	for line := range l.talk.Lines {
		var t nodeReport
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			fault = fmt.Errorf("host %s answered %.100q: %w", l.talk.Host(), line, err)
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
	if err := l.talk.Ended(); fault == nil && err != nil {
		fault = fmt.Errorf("the connection ended: %w", err)
	}
	return fault
}

func (l *remoteNode) stop()                  { l.talk.Say(orderStop) }
func (l *remoteNode) kill()                  { l.talk.Say(orderKill) }
func (l *remoteNode) setShare(share float64) { l.talk.Say(fmt.Sprintf("%s %g", orderShare, share)) }

func (l *remoteNode) status(ctx context.Context) (node.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.answers: // the late answer to an earlier question
	default:
	}
	l.talk.Say(orderStatus)
	select {
	case t := <-l.answers:
		if t.Status == nil {
			return node.Status{}, fmt.Errorf("host %s: %s", l.talk.Host(), t.Fault)
		}
		return *t.Status, nil
	case <-l.over:
		return node.Status{}, errors.New("it has ended")
	case <-ctx.Done():
		return node.Status{}, ctx.Err()
	}
}

func (b *machines) Slow(server netip.Addr, add time.Duration) error {
	b.web[server].Say(fmt.Sprintf("slow %s %g", server, inMs(add)))
	return nil
}

// Stats returns an error if a server ended before the run. It has no figures, since this network is real.
func (b *machines) Stats() (none emulate.Stats, err error) {
	for _, c := range b.web {
		select {
		case <-c.Over:
			return none, fmt.Errorf("the sites on host %s ended before the run: %w", c.Host(), cmp.Or(c.Ended(), errors.New("no error")))
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

func (b *machines) close() error {
	var g sync.WaitGroup
	for _, c := range b.web {
		g.Go(c.Close)
	}
	g.Wait()
	return nil
}
