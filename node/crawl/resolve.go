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

// placeAll tells the frontier which servers serve its hosts, until the context ends.
func (l *Loop) placeAll(ctx context.Context) error {
	for {
		u, err := l.deps.Frontier.Resolve(ctx)
		if err != nil {
			return unlessOver(err)
		}
		if err := unlessOver(l.place(ctx, u)); err != nil {
			return err
		}
	}
}

// place finds the addresses of a host. It leaves out those that must not be dialled.
func (l *Loop) place(ctx context.Context, u frontier.Unplaced) error {
	if l.deps.Policy.files(u.Host) != nil && u.Name == identity.Name(u.Host) {
		l.deps.Frontier.Place(u, []netip.Addr{frontier.FileServer(u.Host)}, 24*time.Hour, 0)
		return nil
	}
	if l.deps.Elsewhere != nil && l.deps.Elsewhere(u.Host) {
		return l.deps.Frontier.Lost(ctx, u, "its files are at another node", true, false)
	}
	answer, err := l.deps.Resolver.Lookup(ctx, u.Name)
	if err != nil {
		return l.unplaced(ctx, u, err)
	}
	if answer.Elapsed > 0 {
		l.deps.Frontier.Answered(true)
	}
	usable, reason, class := l.usable(answer.Addrs)
	switch {
	case len(usable) > 0:
		l.deps.Frontier.Place(u, usable, answer.TTL, answer.Elapsed)
		return nil
	case class == fetch.ForbiddenAddress && !answer.Local: // behind a captive portal, or without its tunnel, a node sees only such names
		return l.deps.Frontier.Lost(ctx, u, reason, false, true)
	default:
		blocked := class == "" // otherwise the operator can allow the address, or set a contact
		return l.deps.Frontier.Refuse(ctx, u, reason, blocked)
	}
}

// unplaced records a failed lookup. It counts against the host unless the failure is this node's own trouble.
func (l *Loop) unplaced(ctx context.Context, u frontier.Unplaced, failure error) error {
	ours := ctx.Err() != nil || errors.Is(failure, resolve.ErrClosed)
	if why, own := fetch.OwnTrouble(failure); own && !ours {
		ours = true
		l.deps.Frontier.OwnTrouble(why, true)
	}
	if !ours {
		l.deps.Frontier.Answered(true)
		l.stats.update(func(s *Stats) { s.row(RowDNS) })
		l.deps.RunLog.Events().Warn(runlog.EventDNS, runlog.KeyHost, u.Host, runlog.KeyReason, failure.Error())
	}
	lasts := errors.Is(failure, resolve.ErrNotFound) || errors.Is(failure, resolve.ErrInvalid)
	return l.deps.Frontier.Lost(ctx, u, "DNS: "+reasonOf(failure), ours, lasts)
}

// usable returns the addresses that may be dialled. If there are none, reason and class say what is wrong with the last one. The class of an
// address in a blocklist is "".
func (l *Loop) usable(addrs []netip.Addr) (usable []netip.Addr, reason string, class fetch.Class) {
	for _, a := range addrs {
		rule, blocked := l.deps.Policy.Blocklist.Addr(a)
		if blocked {
			reason, class = "blocked: "+rule, ""
			continue
		}
		var err error
		if class, err = l.deps.Client.Check(a); err == nil {
			usable = append(usable, a)
			continue
		}
		reason = words(string(class)) + ": " + err.Error()
		if class == fetch.NoIdentity {
			l.stats.update(func(s *Stats) { s.NoIdentity = true })
		}
	}
	return usable, reason, class
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
