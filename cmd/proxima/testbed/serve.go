package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"proxima/cmd/proxima/testbed/sites"
)

// ServeOptions say where to serve the sites of a scenario.
type ServeOptions struct {
	// Addresses are those of the servers on all machines, in the same order on each machine. Here are those of this machine.
	Addresses, Here []netip.Addr
	Port            int
	Seed            uint64 // 0 takes the scenario's seed
	// Orders, if not nil, has lines of the form "slow ADDRESS MILLISECONDS". Serve returns when it ends.
	Orders io.Reader
	// Out receives the URLs of the front pages.
	Out io.Writer
}

// Serve serves those sites of a scenario whose addresses this machine has, until the context ends. Every machine with the same scenario,
// addresses and seed generates the same web, so that links lead from one machine to another.
func Serve(ctx context.Context, s Scenario, o ServeOptions) error {
	if o.Port < 1 || o.Port > math.MaxUint16 {
		return fmt.Errorf("serve sites of %s: %d is no port", s.Name, o.Port)
	}
	p := &Plan{Scenario: s.as(o.Seed, s.Assigners...)}
	if err := errors.Join(p.addNodes(nil), p.addServers(nil, o.Addresses)); err != nil {
		return fmt.Errorf("serve sites of %s: %w", s.Name, err)
	}
	cfg := sites.Config{Seed: p.Scenario.Seed, Port: uint16(o.Port)}
	for _, a := range o.Here {
		if !slices.Contains(o.Addresses, a) {
			return fmt.Errorf("serve sites of %s: %v is not among the addresses of all servers", s.Name, a)
		}
		cfg.Listen = append(cfg.Listen, netip.AddrPortFrom(a, uint16(o.Port)).String())
	}
	for _, server := range p.Servers {
		for _, h := range server.Hosts {
			cfg.Sites = append(cfg.Sites, server.site(h))
		}
	}
	web, err := sites.New(cfg, sites.Deps{Listen: net.Listen})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "serving %s at %s\n", strings.Join(web.Fronts(), " "), strings.Join(cfg.Listen, " "))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if o.Orders != nil {
		go func() { // the orders end when this process ends, or before
			for lines := bufio.NewScanner(o.Orders); lines.Scan(); {
				if err := order(web, lines.Text()); err != nil {
					end(err)
				}
			}
			end(nil)
		}()
	}
	err = web.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
}

func order(web *sites.Web, line string) error {
	var text string
	var add float64
	if _, err := fmt.Sscanf(line, "slow %s %g", &text, &add); err != nil {
		return fmt.Errorf("order %q does not have the form slow ADDRESS MILLISECONDS", line)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("order %q: %w", line, err)
	}
	return web.Slow(addr, ms(add))
}

func (s PlannedServer) site(host string) sites.Site {
	g := s.Site
	return sites.Site{Host: host, Addr: s.Addr, Pages: g.Pages, Think: ms(s.ThinkMs), Robots: robots(g), RefuseEvery: g.RefuseEvery,
		RetryAfter: seconds(g.RetryAfterS), MedianBytes: g.PageKB * 1000, Links: g.Links, Abroad: g.CrossLinks, Errors: g.Misbehave / 2,
		Redirects: g.Misbehave / 2}
}
