package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/sites"
)

// internet has the emulated web servers and the name server.
type internet struct {
	*sites.Web
	plan  *Plan
	nginx *sites.Nginx
	group *errgroup.Group
	end   context.CancelFunc
}

const httpPort = 80

// newInternet starts the web servers of a run and a name server at nameServer. If nginx is missing, or with noNginx, the built-in server
// replaces it. Then it says so and changes the plan. It calls broken if a server fails later.
func newInternet(ctx context.Context, r *run, noNginx bool, deps sites.Deps, broken func(error)) (*internet, error) {
	p := r.plan
	in := &internet{plan: p}
	install := r.findNginx(noNginx)
	cfg := sites.Config{Seed: p.Scenario.Seed, Port: httpPort}
	names := map[string]netip.Addr{}
	in.nginx = &sites.Nginx{Dir: filepath.Join(r.dir, "nginx"), Port: httpPort, Install: install, Start: deps.Start}
	tree := p.random(4)
	for _, s := range p.Servers {
		if s.Software == SoftwarePages {
			cfg.Listen = append(cfg.Listen, netip.AddrPortFrom(s.Addr, httpPort).String())
		}
		for _, h := range s.Hosts {
			names[h] = s.Addr
			if s.Software == SoftwareNginx {
				in.nginx.Sites = append(in.nginx.Sites, sites.NginxSite{Host: h, Addr: s.Addr, Tree: tree.IntN(1000)})
				continue
			}
			cfg.Sites = append(cfg.Sites, s.site(h))
		}
	}
	if install == nil { // one listener can serve all addresses
		cfg.Listen = []string{netip.AddrPortFrom(netip.IPv4Unspecified(), httpPort).String()}
	}
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	in.end = end
	in.group, work = errgroup.WithContext(work)
	context.AfterFunc(work, func() {
		if err := context.Cause(work); !errors.Is(err, context.Canceled) {
			broken(err)
		}
	})
	if err := in.serve(work, cfg, names, deps); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

func (in *internet) serve(ctx context.Context, cfg sites.Config, names map[string]netip.Addr, deps sites.Deps) (err error) {
	if in.Web, err = sites.New(cfg, deps); err != nil {
		return fmt.Errorf("start web server: %w", err)
	}
	in.group.Go(func() error { return in.Run(ctx) })
	dns, err := sites.NewDNS(netip.AddrPortFrom(nameServer, 53).String(), names, deps)
	if err != nil {
		return fmt.Errorf("start name server: %w", err)
	}
	in.group.Go(func() error { return dns.Run(ctx) })
	if len(in.nginx.Sites) == 0 {
		return nil
	}
	ready := make(chan struct{})
	in.group.Go(func() error { return in.nginx.Run(ctx, func() { close(ready) }) })
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return errors.New("start nginx: it ended immediately")
	}
}

func servedByNginx(s PlannedServer) bool { return s.Software == SoftwareNginx }

// findNginx finds nginx if the plan needs it. Without nginx, it changes the plan's servers to the built-in one.
func (r *run) findNginx(not bool) (install *sites.Install) {
	if !slices.ContainsFunc(r.plan.Servers, servedByNginx) {
		return nil
	}
	why := errors.New("the portable emulation cannot run other programs")
	if !not {
		install, why = sites.FindNginx()
	}
	if install == nil {
		r.out.Say("nginx: %v; the built-in server replaces it", why)
	}
	for i := range r.plan.Servers {
		switch s := &r.plan.Servers[i]; {
		case !servedByNginx(*s):
		case install == nil:
			s.Software = SoftwarePages
		default:
			s.ThinkMs = 0 // it sends files
		}
	}
	return install
}

// robots returns the robots.txt of a site, or "" for none.
func robots(g SiteGroup) string {
	if g.CrawlDelayS == 0 {
		return ""
	}
	return fmt.Sprintf("User-agent: *\nCrawl-delay: %v\n", g.CrawlDelayS)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (in *internet) frontPages() []string { return append(in.Fronts(), in.nginx.Fronts()...) }

// sampled is the number of pages of a server for the calibration.
const sampled = 4

func (in *internet) urls(server int) (some []string) {
	s := in.plan.Servers[server]
	if s.Software == SoftwareNginx {
		return in.nginx.Fronts(s.Hosts...)
	}
	for page := range min(sampled, s.Site.Pages) {
		some = append(some, in.URL(s.Hosts[0], page))
	}
	return some
}

// writeGeo writes the location database. It records in the plan what the database states about each server.
func writeGeo(p *Plan, path string) error {
	var servers []*rundir.Server
	for i := range p.Servers {
		servers = append(servers, &p.Servers[i].Server)
	}
	return sites.WriteGeo(path, servers, p.Scenario.Seed, p.Scenario.Geo.Wrong, p.Scenario.Geo.Missing)
}

func (in *internet) close() error {
	in.end()
	return in.group.Wait()
}
