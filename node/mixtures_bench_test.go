package node_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier/identity"
	"proxima/node"
)

// BenchmarkMixtures has Proxima, wget2 and Scrapy crawl the mixtures by TCP, and prints what each found and how often it asked. It wants
// a network namespace of its own, whose addresses and names it makes: unshare -rnm go test ./node -run '^$' -bench Mixtures -benchtime 1x
func BenchmarkMixtures(b *testing.B) {
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		b.Skip("not alone in a network namespace: see the comment")
	}
	rivals := []struct {
		name  string
		crawl func(ctx context.Context, w *Web, dir, seed string) error
	}{{"Proxima", byProxima}, {"wget2", byWget}, {"Scrapy", byScrapy}}
	fmt.Printf("\n| mixture | pages | %s | %s | %s |\n|---|---:|---:|---:|---:|\n", rivals[0].name, rivals[1].name, rivals[2].name)
	whole, sum := 0, make([]int, len(rivals))
	for _, m := range mixtures() {
		want := m.want
		if want == nil { // within the time that they redirect
			want = append(at(secureA, numbered(40)...), secureA+"/")
		}
		row := fmt.Sprintf("| %s | %d |", m.name, len(want))
		whole += len(want)
		for k, rival := range rivals {
			visits := besides(b, m, rival.crawl)
			found := slices.DeleteFunc(slices.Clone(want), func(url string) bool {
				return !slices.ContainsFunc(visits, func(v Visit) bool { return v.URL() == url })
			})
			row += fmt.Sprintf(" %d (%d) |", len(found), len(visits))
			sum[k] += len(found)
		}
		fmt.Println(row)
	}
	fmt.Printf("| all | %d | %d | %d | %d |\n", whole, sum[0], sum[1], sum[2])
}

// besides has one crawler crawl one mixture for a minute at most, and returns the pages that it asked for.
func besides(b *testing.B, m mixture, crawl func(ctx context.Context, w *Web, dir, seed string) error) []Visit {
	b.Helper()
	web, err := NewWeb()
	must(b, err)
	defer web.Close()
	m.build(&trial{Web: web, cfg: node.Default(), began: time.Now()})
	defer onSockets(b, web)()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := crawl(ctx, web, b.TempDir(), m.seed); err != nil && ctx.Err() == nil {
		b.Errorf("%s: %v", m.name, err)
	}
	return pages(web.Visits(nil))
}

// onSockets gives the servers of a web their addresses and the sites their names, and carries connections to them until it is ended.
func onSockets(b *testing.B, web *Web) (end func()) {
	b.Helper()
	names := ""
	listeners := map[string]net.Listener{}
	do := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	do("ip", "link", "set", "lo", "up")
	for name, addrs := range web.Names() {
		names += addrs[0] + " " + name + "\n"
		do("ip", "address", "replace", addrs[0]+"/32", "dev", "lo")
		for _, port := range []string{"80", "443"} {
			at := net.JoinHostPort(addrs[0], port)
			probe, err := web.Dial(b.Context(), "tcp", at)
			if err != nil || listeners[at] != nil {
				continue
			}
			_ = probe.Close()
			if listeners[at], err = net.Listen("tcp", at); err != nil {
				b.Fatal(err)
			}
		}
	}
	hosts := filepath.Join(b.TempDir(), "hosts")
	must(b, os.WriteFile(hosts, []byte(names), 0o644))
	do("mount", "--bind", hosts, "/etc/hosts")
	var g errgroup.Group
	for at, l := range listeners {
		g.Go(func() error { carry(web, l, at); return nil })
	}
	return func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		_ = g.Wait()
		do("umount", "/etc/hosts")
	}
}

// carry connects whoever comes to a server of the web, until the listener is closed.
func carry(web *Web, l net.Listener, at string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := web.Dial(context.Background(), "tcp", at)
		if err != nil {
			_ = from.Close()
			continue
		}
		one := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}
		go one(to, from)
		go one(from, to)
	}
}

func byProxima(ctx context.Context, w *Web, dir, seed string) error {
	cfg := node.Default()
	cfg.Node.Data = dir
	cfg.Fetch.AllowPrefixes, cfg.Politeness.Own = []string{webPrefix}, []string{webPrefix}
	cfg.Fetch.TLSVerify = false
	cfg.Fetch.DNS.Hosts = w.Names()
	u, err := identity.Parse(seed)
	if err != nil {
		return err
	}
	n, err := node.New(cfg, []identity.URL{u}, node.Deps{})
	if err != nil {
		return err
	}
	_, err = n.Run(ctx)
	return err
}

func byWget(ctx context.Context, w *Web, dir, seed string) error {
	cmd := exec.CommandContext(ctx, "wget2", "--no-config", "--quiet", "--progress=none", "--recursive", "--level=inf", "--robots=on",
		"--span-hosts", "--domains="+strings.Join(namesOf(w), ","), "--no-check-certificate", "--timeout=10", "--directory-prefix="+dir, seed)
	cmd.Env = append(os.Environ(), "HOME="+dir) // where it remembers HSTS
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.Exited() { // codes for answers that were errors
		return nil
	}
	return err
}

func byScrapy(ctx context.Context, w *Web, dir, seed string) error {
	script, err := filepath.Abs("testdata/mixtures.py")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", append([]string{script, seed}, namesOf(w)...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd.Run()
}

// namesOf are the names of the sites of a web.
func namesOf(w *Web) (names []string) {
	for name := range w.Names() {
		names = append(names, name)
	}
	return names
}
