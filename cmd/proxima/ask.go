package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize/english"

	"proxima/ncoord"
	"proxima/node"
)

// noAnswer gives an error of a call its exit code.
func noAnswer(err error) error {
	if errors.Is(err, node.ErrNotRunning) {
		return exit{exitNoAnswer, fmt.Errorf("%w (-data or -config says where else)", err)}
	}
	return err
}

// ask returns what a running node answers to a question.
func ask[T any](ctx context.Context, data, path string) (answer T, err error) {
	err = noAnswer(node.Call(ctx, http.MethodGet, data, path, nil, &answer))
	return answer, err
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// seconds rounds a time in s for a table.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// members asks a node, or another one through it, for the members that it sees.
func members(ctx context.Context, data, through string) ([]node.MemberRow, error) {
	path := "/members"
	if through != "" {
		path += "?node=" + url.QueryEscape(through)
	}
	return ask[[]node.MemberRow](ctx, data, path)
}

func runMembers(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newAskFlags(ctx, "members", out, "Usage: proxima members [FLAGS]\nLists the members of the overlay, as the running node sees them.\n")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	rows, err := members(ctx, *flags.data, "")
	if err != nil {
		return err
	}
	showMembers(out, rows)
	return nil
}

func showMembers(out io.Writer, rows []node.MemberRow) {
	fmt.Fprintf(out, "%-8s  %-5s %-8s %10s %7s %6s %8s %6s  %s\n", "node", "phase", "reach", "for", "settled", "rtt ms", "queue ms", "links", "address")
	for _, m := range rows {
		queue := "-"
		if m.Phase == "alive" {
			queue = fmt.Sprintf("%.0f", m.QueueMs)
		}
		fmt.Fprintf(out, "%-8.8s  %-5s %-8s %10v %7v %6s %8s %6d  %s\n", m.ID, m.Phase, m.Reach, seconds(m.ForS), m.Settled, rtt(m.PeerStatus), queue, m.Links, m.Addr)
	}
}

// rtt returns the round trip to a member for a table. There is none to the node itself, and none to one that is dead.
func rtt(p node.PeerStatus) string {
	if p.RTTMs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", p.RTTMs)
}

func runRTT(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newAskFlags(ctx, "rtt", out, "Usage: proxima rtt [FLAGS] NODE NODE\nPrints the round trip between two members. NODE is the id or its first characters.\n")
	ids, err := parseSome(flags, args, 2, 2, "rtt takes two nodes")
	if err != nil {
		return err
	}
	rows, err := members(ctx, *flags.data, "")
	if err != nil {
		return err
	}
	var ends [2]node.MemberRow
	for i, id := range ids {
		found := slices.DeleteFunc(slices.Clone(rows), func(m node.MemberRow) bool { return !strings.HasPrefix(m.ID, id) })
		if len(found) != 1 {
			return fmt.Errorf("%d members have an id that begins with %q", len(found), id)
		}
		ends[i] = found[0]
	}
	a, b := ends[0], ends[1]
	if a.ID == b.ID {
		return fmt.Errorf("%.8s is one node, and has no round trip to itself", a.ID)
	}
	fmt.Fprintf(out, "%.8s to %.8s:", a.ID, b.ID)
	if len(a.Vector) > 0 && len(b.Vector) > 0 {
		fmt.Fprintf(out, " %.1f ms by their coordinates (error %.0f %% and %.0f %%)", ncoord.Distance(place(a), place(b)), 100*a.Accuracy, 100*b.Accuracy)
	} else {
		fmt.Fprint(out, " one of them has no coordinate yet")
	}
	seen, err := members(ctx, *flags.data, a.ID)
	i := slices.IndexFunc(seen, func(m node.MemberRow) bool { return m.ID == b.ID })
	switch {
	case err != nil:
		fmt.Fprintf(out, "; %.8s cannot be asked what it has measured: %v\n", a.ID, err)
	case i < 0 || seen[i].RTTMs == 0:
		fmt.Fprintln(out, "; not measured lately")
	default:
		fmt.Fprintf(out, "; %.1f ms measured\n", seen[i].RTTMs)
	}
	return nil
}

func place(m node.MemberRow) (c ncoord.Coordinate) {
	copy(c.Vec[:], m.Vector)
	c.Height, c.Error = m.HeightMs, m.Accuracy
	return c
}

// mostTop is the number of lines of each kind that top shows.
const mostTop = 20

func runTop(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newAskFlags(ctx, "top", out, "Usage: proxima top [FLAGS] [hosts | servers | errors]\n"+
		"Shows the hosts with the most URLs in memory, the servers with the most hosts, and the most frequent errors of the running node.\n")
	kinds, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(kinds) == 0 {
		kinds = []string{"hosts", "servers", "errors"}
	}
	shows := map[string]func(context.Context, string, io.Writer) error{"hosts": topHosts, "servers": topServers, "errors": topErrors}
	for _, kind := range kinds {
		if shows[kind] == nil {
			return exit{exitUsage, fmt.Errorf("top takes hosts, servers and errors, not %q", kind)}
		}
	}
	for _, kind := range kinds {
		if err := shows[kind](ctx, *flags.data, out); err != nil {
			return err
		}
	}
	return nil
}

func topHosts(ctx context.Context, data string, out io.Writer) error {
	list, err := ask[node.HostList](ctx, data, "/hosts")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, english.Plural(list.All, "host", ""))
	for _, h := range list.Hosts[:min(mostTop, len(list.Hosts))] {
		fmt.Fprintf(out, "  %6d %-4s  %-40s %s\n", h.InMemory, english.PluralWord(h.InMemory, "URL", ""), printable(h.Host), printable(h.Sentence))
	}
	return nil
}

func topServers(ctx context.Context, data string, out io.Writer) error {
	s, err := ask[node.Status](ctx, data, "/status")
	if err != nil {
		return err
	}
	servers, err := ask[[]node.ServerRow](ctx, data, "/servers")
	if err != nil {
		return err
	}
	fmt.Fprint(out, english.Plural(max(s.Frontier.Servers, len(servers)), "server", ""))
	if s.Frontier.Paused != "" {
		fmt.Fprint(out, "; no request begins: ", s.Frontier.Paused)
	}
	fmt.Fprintln(out)
	for _, s := range servers[:min(mostTop, len(servers))] {
		fmt.Fprintf(out, "  %6d %-5s  %-40s asked again in %v  %s\n", s.AllHosts, english.PluralWord(s.AllHosts, "host", ""), s.Addr, time.Duration(s.WaitMs)*time.Millisecond,
			printable(strings.Join(s.Hosts, " ")))
	}
	return nil
}

func topErrors(ctx context.Context, data string, out io.Writer) error {
	s, err := ask[node.Status](ctx, data, "/status")
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	for row, n := range s.Crawl.Rows {
		if !strings.HasPrefix(row, "2") {
			counts["answer "+row] = n
		}
	}
	for why, f := range s.Frontier.Failing {
		counts["hosts that wait: "+why] = int64(f.Hosts)
	}
	rows := largestFirst(counts)
	fmt.Fprintln(out, english.Plural(len(rows), "kind of errors", "kinds of errors"))
	for _, row := range rows[:min(mostTop, len(rows))] {
		fmt.Fprintf(out, "  %6d  %s\n", counts[row], printable(row))
	}
	return nil
}

// largestFirst returns the keys of counts, the largest count first.
func largestFirst(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

// printable replaces control characters, since the text comes from other servers.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
