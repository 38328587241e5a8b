package crawl

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"proxima/fetch"
	"proxima/fetch/resolve"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// placer tells the frontier which servers serve its hosts.
type placer struct {
	deps  *Deps
	stats *statistics
}

// run places hosts until the context ends.
func (p placer) run(ctx context.Context) error {
	for {
		u, err := p.deps.Frontier.Resolve(ctx)
		if err != nil {
			if ended(err) {
				return nil
			}
			return err
		}
		if err := p.place(ctx, u); err != nil && !ended(err) {
			return err
		}
	}
}

// place finds the addresses of a host. It leaves out those that must not be dialled.
func (p placer) place(ctx context.Context, u frontier.Unplaced) error {
	if p.deps.Policy.files(u.Host) != nil && u.Name == identity.Name(u.Host) {
		p.deps.Frontier.Place(u, []netip.Addr{frontier.FileServer(u.Host)}, 24*time.Hour, 0)
		return nil
	}
	if p.deps.Elsewhere != nil && p.deps.Elsewhere(u.Host) {
		_, err := p.deps.Frontier.Lost(ctx, u, "its files are at another node", true, false)
		return err
	}
	answer, err := p.deps.Resolver.Lookup(ctx, u.Name)
	if err != nil {
		return p.failed(ctx, u, err)
	}
	if answer.Elapsed > 0 {
		p.deps.Frontier.Answered(true)
	}
	usable, reason, lasts := p.usable(answer.Addrs)
	if len(usable) == 0 {
		_, err := p.deps.Frontier.Refuse(ctx, u, reason, lasts)
		return err
	}
	p.deps.Frontier.Place(u, usable, answer.TTL, answer.Elapsed)
	return nil
}

// failed records a failed lookup. It counts against the host unless the failure is this node's own trouble.
func (p placer) failed(ctx context.Context, u frontier.Unplaced, failure error) error {
	ours := ctx.Err() != nil || errors.Is(failure, resolve.ErrClosed)
	if why, own := fetch.OwnTrouble(failure); own && !ours {
		ours = true
		p.deps.Frontier.OwnTrouble(why, true)
	}
	if !ours {
		p.deps.Frontier.Answered(true)
		p.stats.update(func(s *Stats) { s.row(RowDNS) })
		p.deps.RunLog.Events().Warn(runlog.EventDNS, runlog.KeyHost, u.Host, runlog.KeyReason, failure.Error())
	}
	_, err := p.deps.Frontier.Lost(ctx, u, "DNS: "+reasonOf(failure), ours, errors.Is(failure, resolve.ErrNotFound) || errors.Is(failure, resolve.ErrInvalid))
	return err
}

// usable returns the addresses that may be dialled. If there are none, reason says why, and lasts whether that will stay so.
func (p placer) usable(addrs []netip.Addr) (usable []netip.Addr, reason string, lasts bool) {
	lasts = true
	for _, a := range addrs {
		if rule, blocked := p.deps.Policy.Blocklist.Addr(a); blocked {
			reason = "blocked: " + rule
		} else if class, err := p.deps.Client.Check(a); err != nil {
			reason = words(string(class)) + ": " + err.Error()
			if class == fetch.NoIdentity {
				lasts = false // the operator can set a contact
				p.stats.update(func(s *Stats) { s.NoIdentity = true })
			}
		} else {
			usable = append(usable, a)
		}
	}
	return usable, reason, lasts
}

// reasonOf returns the kind of a failed lookup, so that reasons can be counted.
func reasonOf(err error) string {
	for _, kind := range []error{resolve.ErrNotFound, resolve.ErrInvalid, resolve.ErrTemporary} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return err.Error()
}
