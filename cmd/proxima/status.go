package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"proxima/cmd/proxima/terminal"
	"proxima/frontier"
	"proxima/node"
	"proxima/node/bell"
)

func runStatus(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newAskFlags(ctx, "status", out, "Usage: proxima status [FLAGS] [HOST ...]\n"+
		"Says what the running node is doing; with hosts, why each of them is waiting.\n")
	asJSON := flags.Bool("json", false, "print JSON")
	again := flags.Bool("watch", false, "refresh every two seconds, until Ctrl-C or the end of the node")
	hosts, err := parse(flags, args)
	if err != nil {
		return err
	}
	if *again {
		if *asJSON || len(hosts) > 0 {
			return exit{exitUsage, errors.New("status: -watch shows the node as a whole, for people")}
		}
		return watchStatus(ctx, *flags.data, out)
	}
	if len(hosts) == 0 {
		s, err := ask[node.Status](ctx, *flags.data, "/status")
		switch {
		case err != nil:
			return err
		case *asJSON:
			return writeJSON(out, s)
		}
		showStatus(out, s)
		return nil
	}
	return each(hosts, func(name string) error {
		known, err := ask[[]frontier.HostStatus](ctx, *flags.data, "/host?name="+url.QueryEscape(name))
		for _, h := range known {
			if !*asJSON {
				showHost(out, h)
			} else if err := writeJSON(out, h); err != nil {
				return err
			}
		}
		return err
	})
}

// watchStatus shows what a node is doing until it ends: on a terminal each time in place of the last, elsewhere below it.
func watchStatus(ctx context.Context, data string, out io.Writer) error {
	between := "\n"
	if terminal.Is(out) {
		between = "\x1b[H\x1b[2J" // to the top of an empty screen
	}
	for first := true; ; first = false {
		s, err := ask[node.Status](ctx, data, "/status")
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !first && errors.Is(err, node.ErrNotRunning):
			fmt.Fprintln(out, "the node has ended")
			return nil
		case err != nil:
			return err
		}
		if _, err := fmt.Fprint(out, between); err != nil {
			return fmt.Errorf("show the status: %w", err)
		}
		showStatus(out, s)
		if bell.Sleep(ctx, 2*time.Second) != nil {
			return nil
		}
	}
}

func showStatus(w io.Writer, s node.Status) {
	fmt.Fprintf(w, "node %s, boot %d, run %q, up %v; logs in %s\n", s.Node, s.Boot, s.Run, seconds(s.UptimeS), s.LogDir)
	// A single look knows no speed of this moment, as the progress line does.
	fmt.Fprintf(w, "%.1f pages/s since the start · %s\n", float64(s.Crawl.Pages)/max(s.UptimeS, 1e-3), progressState(s))
	f := s.Frontier
	fmt.Fprintf(w, "URLs: %d accepted, %d duplicate, %d done, %d failed, %d dropped, %d pending (%d at start)\n",
		f.Accepted, f.Duplicate, f.Done, f.Failed, f.Dropped, f.Pending, f.AtStart)
	if f.Pages > 0 {
		fmt.Fprintf(w, "pages visited again: %s known, %s due now, %s visits since the start\n", humanize.Comma(f.Pages), humanize.Comma(f.Due), humanize.Comma(int64(f.Revisited)))
	}
	fmt.Fprintf(w, "servers: %d known, %d ready, %d requests in progress", f.Servers, f.Ready, f.InFlight)
	if f.Waiting {
		fmt.Fprint(w, "; more hosts wait on disk")
	}
	fmt.Fprintln(w)
	if k := s.Sink; k != nil {
		fmt.Fprintf(w, "sink %s: %s with %s %s delivered, %d wait; they use %s of %s here\n", k.To, english.Plural(k.Packages, "package", ""), humanize.Comma(k.Pages),
			english.PluralWord(int(k.Pages), "page", ""), k.Waiting, humanize.IBytes(uint64(k.Used)), humanize.IBytes(uint64(k.Limit)))
		if k.Damaged > 0 {
			fmt.Fprintf(w, "  %d downloads are lost, because their records here were damaged\n", k.Damaged)
		}
		if k.Trouble != "" {
			fmt.Fprintf(w, "  %s (%v ago; failed deliveries since the start: %d)\n", k.Trouble, time.Since(k.TroubleAt).Round(time.Second), k.Failures)
		}
	}
	rows := map[string]int64{}
	for kind, n := range f.Hosts {
		rows[kind] = int64(n)
	}
	table(w, "workbench", "hosts", rows)
	table(w, "answer", "pages", s.Crawl.Rows)
	if s.Overlay != nil {
		showOverlay(w, s.Overlay)
	}
}

func showOverlay(w io.Writer, o *node.OverlayStatus) {
	fmt.Fprintf(w, "members of the overlay: %d alive, %d settled", o.Alive, o.Settled)
	if !o.Majority {
		fmt.Fprintf(w, "; crawls nothing: %s", o.Reason)
	}
	fmt.Fprintf(w, "\nsecret %s", o.Secret)
	fmt.Fprintf(w, "\nhosts: %d handed over, %d received, %d taken over, %d given up to others; %d links wait for other nodes",
		o.Hosts.HandedOff, o.Hosts.Received, o.Hosts.Taken, o.Hosts.Obeyed, o.Outbox)
	if o.SetAside > 0 {
		fmt.Fprintf(w, "; %d are set aside, since they cannot be read", o.SetAside)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "leases: %d servers held, %d wanted, %d granted to others and this node\n", o.Leases.Held, o.Leases.Waiting, o.Leases.Granted)
	fmt.Fprintf(w, "batches (%s): %d begun, %d estimates, now %s", o.Batch.Mode, o.Batch.Batches, o.Batch.Estimates, o.Batch.Phase)
	if o.Batch.Why != "" {
		fmt.Fprintf(w, ": %s", o.Batch.Why)
	}
	fmt.Fprintln(w)
	if o.End != "" {
		fmt.Fprintf(w, "the crawl goes on: %s\n", o.End)
	}
	if o.Limits != "" {
		fmt.Fprintf(w, "limits of the crawl: %s\n", o.Limits)
	}
	fmt.Fprintf(w, "coordinate: %.1f ms, height %.1f ms, error %.0f %%\n", o.Vector, o.HeightMs, 100*o.Accuracy)
	fmt.Fprintf(w, "reach: %s", o.Reach.Reach)
	if len(o.Reach.Relays) > 0 {
		fmt.Fprintf(w, ", by the relays %.8s", o.Reach.Relays)
	}
	fmt.Fprintf(w, "; %d links; %d connections and %d packets carried for others\n", o.Reach.Links, o.Reach.Calls, o.Reach.Packets)
	fmt.Fprintf(w, "  %-10s %-22s %-6s %-8s %10s %8s %8s\n", "peer", "address", "phase", "reach", "for", "rtt ms", "links")
	for _, p := range o.Peers {
		fmt.Fprintf(w, "  %-10.8s %-22s %-6s %-8s %10v %8s %8d\n", p.ID, p.Addr, p.Phase, p.Reach,
			seconds(p.ForS), rtt(p), p.Links)
	}
}

func showHost(w io.Writer, h frontier.HostStatus) {
	fmt.Fprintf(w, "%s: %s\n", h.Host, h.Sentence)
	if h.Known {
		more := "no"
		if h.OnDisk {
			more = "yes"
		}
		fmt.Fprintf(w, "  server %s, %d URLs in memory, more on disk: %s, failures in a row: %d, Crawl-delay %v\n",
			cmp.Or(h.Server, "not known yet"), h.InMemory, more, h.Failures, h.Delay)
	}
}
