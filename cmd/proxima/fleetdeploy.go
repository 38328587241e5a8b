package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/cmd/proxima/fleet"
	"proxima/node"
	"proxima/node/peer"
	"proxima/node/strict"
)

// deployment is what the nodes of an overlay get.
type deployment struct {
	*longCrawl
	seeds                           []string
	sample, peers, port, gossip     int
	seed                            uint64
	config, run, geo, secret, state string
	programs                        fleet.Programs
	overlay                         []fleet.Info
}

func deploying(c *longCrawl) work {
	d := deployment{longCrawl: c}
	seeds := c.String("seeds", "", "`file` of all seeds, of which each node gets a sample")
	c.IntVar(&d.sample, "sample", 50, "`number` of seeds of a node; 0 gives all to each")
	c.Uint64Var(&d.seed, "seed", 1, "`number` that draws the samples and the peers")
	config := c.String("config", "", "configuration `file` of all nodes; each node's own keys are put over it")
	c.StringVar(&d.run, "run", "", "`name` of the crawl in the logs; that of the configuration by default")
	c.IntVar(&d.peers, "peers", 16, "`number` of peers that a node joins, at most; one that answers is enough")
	c.IntVar(&d.port, "port", 7947, "`port` of the peer protocol")
	c.IntVar(&d.gossip, "gossip", 7946, "`port` of the gossip, TCP and UDP")
	c.StringVar(&d.geo, "geo", "", "`file` of the location database, which is copied to the hosts")
	c.StringVar(&d.secret, "secret", "", "`file` of the overlay's secret; by default one that is made and kept in -state")
	c.StringVar(&d.state, "state", "", "`directory` for what is made; by default beside the list of hosts: FILE.deploy")
	fresh := c.Bool("fresh", false, "delete data and logs of earlier crawls on the hosts; refused where a node runs")
	programs := c.programs()
	return func(ctx context.Context) (err error) {
		port := func(p int) bool { return p > 0 && p < 1<<16 }
		switch {
		case *seeds == "":
			return c.wrong("-seeds is missing")
		case d.sample < 0 || d.peers < 1:
			return c.wrong("-sample or -peers is too small")
		case !port(d.port) || !port(d.gossip) || d.port == d.gossip:
			return c.wrong("-port and -gossip must be two ports")
		}
		d.state = cmp.Or(d.state, c.hosts+".deploy")
		d.secret = cmp.Or(d.secret, filepath.Join(d.state, "secret"))
		if d.seeds, err = fleetSeeds(ctx, *seeds, c.out); err == nil && *config != "" {
			var text []byte
			text, err = os.ReadFile(*config)
			d.config = string(text)
		}
		if err == nil {
			d.programs, err = fleet.ReadPrograms(*programs)
		}
		if err == nil {
			err = d.check(*config)
		}
		var common []fleet.File
		if err == nil {
			common, err = d.common()
		}
		if err != nil {
			return exit{exitUsage, err}
		}
		return d.deploy(ctx, common, *fresh)
	}
}

// check returns an error if nodes could not read the configuration that is made of this file, before any host is asked.
func (d *deployment) check(file string) error {
	alone := *d
	alone.overlay = make([]fleet.Info, 1)
	text, err := alone.nodeConfig(fleet.Info{Host: fleet.Host{Addresses: []netip.Addr{netip.IPv6Loopback()}}})
	if err == nil {
		_, err = node.Parse("configuration of a node", text)
	}
	if _, own := node.Parse(file, d.config); err != nil && own != nil {
		return own // it says in which line of the file
	}
	return err
}

// deploy copies to each host that answers what it does not have.
func (d *deployment) deploy(ctx context.Context, common []fleet.File, fresh bool) error {
	infos := d.probe(ctx, 0)
	owner, loopback := map[netip.Addr]string{}, 0
	for i, info := range infos {
		if d.failed(i) || ctx.Err() != nil {
			continue
		}
		a := info.Address()
		if owner[a] != "" {
			d.result(i, "", fmt.Errorf("it has the address of %s, %v: name others in the list of hosts", owner[a], a))
			continue
		}
		d.overlay, owner[a] = append(d.overlay, info), info.Host.Name
		if a.IsLoopback() {
			loopback++
		}
	}
	if loopback > 0 && loopback < len(d.overlay) {
		return exit{exitUsage, errors.New("some hosts have a loopback address: name those for peers in the list of hosts")}
	}
	d.each(ctx, 2*time.Hour, func(ctx context.Context, i int) (string, error) {
		files, err := d.files(infos[i])
		if err != nil {
			return "", err
		}
		changed, said, err := d.ssh.Copy(ctx, d.list[i], append(files, common...), "deploy", fmt.Sprint(fresh))
		text := "unchanged"
		if len(changed) > 0 {
			text = "new: " + strings.Join(changed, " ")
		}
		return fmt.Sprintf("%s, as %v%s", text, infos[i].Address(), said), err
	})
	return d.conclude(ctx, "have a node")
}

// common returns the files that all nodes have. It makes the secret if there is none.
func (d *deployment) common() (files []fleet.File, err error) {
	if _, err := os.Stat(d.secret); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(d.secret), 0o755), peer.Keygen(d.secret)); err != nil {
			return nil, fmt.Errorf("make secret: %w", err)
		}
	}
	if _, err := peer.Load(d.secret); err != nil {
		return nil, err
	}
	for _, of := range [][2]string{{"secret", d.secret}, {geoName, d.geo}} {
		if of[1] == "" {
			continue
		}
		f, err := fleet.ReadFile(of[0], 0o600, of[1])
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

const geoName = "geo.mmdb"

// files returns the files of one node. Those that can be read are kept here, too.
func (d *deployment) files(i fleet.Info) ([]fleet.File, error) {
	program, err := d.programs.For(i)
	if err != nil {
		return nil, err
	}
	config, err := d.nodeConfig(i)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(d.state, "nodes", i.Host.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of a node: %w", err)
	}
	files := []fleet.File{program}
	seeds := strings.Join(draw(d.seeds, d.sample, d.seed, i.Host.Name, "seeds"), "\n") + "\n"
	for _, of := range [][2]string{{"node.toml", config}, {"seeds.txt", seeds}} {
		if err := os.WriteFile(filepath.Join(folder, of[0]), []byte(of[1]), 0o600); err != nil {
			return nil, fmt.Errorf("keep files of a node: %w", err)
		}
		files = append(files, fleet.NewFile(of[0], 0o600, []byte(of[1])))
	}
	_, err = node.Load(filepath.Join(folder, "node.toml"))
	return files, err
}

// nodeConfig returns the configuration of a node: the common one, with the node's own keys in place of its.
func (d *deployment) nodeConfig(i fleet.Info) (text string, err error) {
	join, err := json.Marshal(d.join(i))
	own := []string{`node.data="data"`, `crawl.seeds=["seeds.txt"]`, `peer.secret="secret"`, `output.logs="logs"`,
		"peer.listen=" + strconv.Quote(i.Listen(d.port)), "peer.advertise=" + strconv.Quote(i.Advertise(d.port)),
		"member.bind=" + strconv.Quote(i.Listen(d.gossip)), "member.advertise=" + strconv.Quote(i.Advertise(d.gossip)),
		"member.join=" + string(join), fmt.Sprint("termination.expected_nodes=", len(d.overlay))}
	if d.run != "" {
		own = append(own, "node.run="+strconv.Quote(d.run))
	}
	if d.geo != "" {
		own = append(own, "geo.database="+strconv.Quote(geoName))
	}
	text = d.config
	for _, key := range own {
		if err == nil {
			text, err = strict.Set(text, key)
		}
	}
	return text, err
}

// join returns the peers that a node joins: the next one in a ring, so that no part of the overlay is on its own, and others at random.
func (d *deployment) join(i fleet.Info) []string {
	at := slices.IndexFunc(d.overlay, func(o fleet.Info) bool { return o.Host.Name == i.Host.Name })
	list := []string{} // an empty one replaces that of the common configuration
	for k := 1; k < len(d.overlay); k++ {
		list = append(list, d.overlay[(at+k)%len(d.overlay)].Advertise(d.gossip))
	}
	if len(list) > d.peers {
		list = append(list[:1], draw(list[1:], d.peers-1, d.seed, i.Host.Name, "peers")...)[:d.peers]
	}
	return list
}

// draw returns n of a list, drawn at random. The same seed and words draw the same. 0 draws all.
func draw(list []string, n int, seed uint64, words ...string) []string {
	if n == 0 || n >= len(list) {
		return list
	}
	list = slices.Clone(list)
	random := rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, strings.Join(words, " ")))))
	random.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
	return list[:n]
}
