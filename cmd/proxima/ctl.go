package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/terminal"
	"proxima/node"
	"proxima/node/strict"
	"proxima/node/webmaster"
)

type act struct {
	name, args, does string
	least, most      int // arguments; most below 0 is any number
	run              func(ctx context.Context, c *ctl, on []string) error
}

// acts returns all actions in the order of the help.
func acts() []act {
	return []act{
		{"pause", "", "start no more requests until resume, even if the node is restarted; those in progress end", 0, 0, say("/pause", "paused")},
		{"resume", "", "end pause", 0, 0, say("/resume", "resumed")},
		{"seed", "URL...", "add URLs, or with - a list on standard input, as if they had been there from the start", 1, -1, addSeeds},
		{"drop", "HOST...", "give up the pending URLs of hosts; block keeps them away for good", 1, -1,
			eachHost("/drop", func(a node.Acted) string { return fmt.Sprintf("%d URLs dropped", a.Dropped) })},
		{"block", "HOST|PREFIX...", "let all nodes leave alone hosts with all below them, or addresses; -why says the reason", 1, -1, block("block", "blocked on all nodes", "was already blocked")},
		{"unblock", "HOST|PREFIX...", "end block", 1, -1, block("unblock", "unblocked on all nodes", "was not blocked")},
		{"blocks", "", "list what is blocked, by whom, when and why", 0, 0, list("/blocks", "nothing is blocked", func(b node.Block) string {
			return fmt.Sprintf("%-30s %s  by %s at %.8s  %s", b.On, b.At.Format(time.DateTime), b.By, b.Node, b.Why)
		})},
		{"requests", "", "list what web masters have asked of this node without proof; block does it, dismiss forgets it", 0, 0,
			list("/requests", "nobody has asked for anything", func(r webmaster.Request) string {
				return fmt.Sprintf("%-30s %s  from %s  %q", r.Host, r.At.Format(time.DateTime), r.From, r.Note)
			})},
		{"dismiss", "HOST", "forget what was asked for a host", 1, 1, eachHost("/dismiss", func(node.Acted) string { return "dismissed" })},
		{"retry", "HOST...", "ask hosts now, as if they had never failed", 1, -1, eachHost("/retry", func(node.Acted) string { return "asked again" })},
		{"move", "HOST NODE", "give a host and the others of its server to a node, named by the first characters of its id", 2, 2, move},
		{"drain", "", "hand all hosts to other nodes, then stop the node", 0, 0,
			say("/drain", "the node hands its hosts over, then stops; proxima status says how many are left")},
		{"set", "KEY VALUE", "change a live key of the configuration, until the node ends or reads its file again", 2, 2,
			func(ctx context.Context, c *ctl, on []string) error {
				return c.say(ctx, "/set", url.Values{"key": on[:1], "value": on[1:]}, on[0]+": set")
			}},
		{"reload", "", "read the configuration file again and apply its live keys, as SIGHUP does", 0, 0, reload},
		{"rotate", "", "take the node's secret file a step further, as keygen -rotate does", 0, 0, func(ctx context.Context, c *ctl, _ []string) error {
			a, err := c.post(ctx, "/rotate", nil, nil)
			fmt.Fprint(c.out, a.Next)
			return err
		}},
		{"snapshot", "", "print the hosts and pending URLs of the node, one JSON object per line; the last one counts them", 0, 0,
			func(ctx context.Context, c *ctl, _ []string) error {
				return c.call(ctx, http.MethodGet, "/snapshot", nil, nil, c.out)
			}},
		{"profile", "KIND", "print a profile for go tool pprof: cpu (of 10 s), heap or goroutine", 1, 1, func(ctx context.Context, c *ctl, on []string) error {
			return c.call(ctx, http.MethodGet, "/profile", url.Values{"kind": on}, nil, c.out)
		}},
	}
}

func ctlVerbs() (names []string) {
	for _, a := range acts() {
		names = append(names, a.name)
	}
	return names
}

type ctl struct {
	data, why string
	out       io.Writer
}

func (c *ctl) call(ctx context.Context, method, path string, q url.Values, body io.Reader, to any) error {
	if q != nil {
		path += "?" + q.Encode()
	}
	return noAnswer(node.Call(ctx, method, c.data, path, body, to))
}

func (c *ctl) post(ctx context.Context, path string, q url.Values, body io.Reader) (did node.Acted, err error) {
	err = c.call(ctx, http.MethodPost, path, q, body, &did)
	return did, err
}

// say makes the node do something, and prints that it is done.
func (c *ctl) say(ctx context.Context, path string, q url.Values, done string) error {
	_, err := c.post(ctx, path, q, nil)
	if err == nil {
		fmt.Fprintln(c.out, done)
	}
	return err
}

// say returns an action without arguments.
func say(path, done string) func(context.Context, *ctl, []string) error {
	return func(ctx context.Context, c *ctl, _ []string) error { return c.say(ctx, path, nil, done) }
}

// eachHost returns an action on each of some hosts. done says what the node did.
func eachHost(path string, done func(node.Acted) string) func(context.Context, *ctl, []string) error {
	return func(ctx context.Context, c *ctl, hosts []string) error {
		return each(hosts, func(host string) error {
			a, err := c.post(ctx, path, url.Values{"host": {host}}, nil)
			if err == nil {
				fmt.Fprintf(c.out, "%s: %s\n", host, done(a))
			}
			return err
		})
	}
}

func runCtl(ctx context.Context, args []string, out, errs io.Writer) error {
	var help strings.Builder
	help.WriteString("Usage: proxima ctl [-data DIR | -config FILE] ACT\nSteers the running node. It says what it did, and so does its log.\n")
	for _, a := range acts() {
		terminal.Wrap(&help, fmt.Sprintf("  %-23s  ", strings.TrimSpace(a.name+" "+a.args)), 27, a.does)
	}
	flags := newAskFlags(ctx, "ctl", out, help.String())
	c := &ctl{out: out}
	flags.StringVar(&c.why, "why", "", "`reason` for a block or its end, for people")
	words, err := parse(flags, args)
	if err != nil {
		return err
	}
	c.data = *flags.data
	if len(words) == 0 {
		return exit{exitUsage, fmt.Errorf("ctl takes %s (proxima ctl -h)", strings.Join(ctlVerbs(), ", "))}
	}
	for _, a := range acts() {
		switch on := words[1:]; {
		case a.name != words[0]:
		case len(on) < a.least || a.most >= 0 && len(on) > a.most:
			return exit{exitUsage, fmt.Errorf("write proxima ctl %s, not %q (proxima ctl -h)", strings.TrimSpace(a.name+" "+a.args), strings.Join(words, " "))}
		default:
			return a.run(ctx, c, on)
		}
	}
	text := fmt.Sprintf("ctl does not take %q", strings.Join(words, " "))
	if near := strict.Nearest(words[0], ctlVerbs()); near != "" {
		text += ": did you mean " + near + "?"
	}
	return exit{exitUsage, errors.New(text + " (proxima ctl -h)")}
}

func runGoAlone(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newAskFlags(ctx, "go-alone", out, "Usage: proxima go-alone [-data DIR | -config FILE]\n"+
		"Tells the running node that the nodes which do not answer it now are gone for good, so that it goes on with those that "+
		"do. If the others still run, the same servers may be asked twice at once until they meet again: stop them first.\n")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	c := ctl{data: *flags.data}
	a, err := c.post(ctx, "/go-alone", nil, nil)
	if err != nil {
		return err
	}
	if len(a.Gone) == 0 {
		fmt.Fprintln(out, "all members whose votes count answer the node")
		return nil
	}
	fmt.Fprintf(out, "the node goes on without %d nodes:\n", len(a.Gone))
	for _, id := range a.Gone {
		fmt.Fprintln(out, " ", id)
	}
	return nil
}

// each calls do for each argument, even after errors, and returns all errors.
func each(on []string, do func(string) error) error {
	var all error
	for _, one := range on {
		all = errors.Join(all, do(one))
	}
	return all
}

func addSeeds(ctx context.Context, c *ctl, urls []string) error {
	var list bytes.Buffer
	for _, text := range urls {
		if text != "-" {
			if _, err := argument(text); err != nil {
				if isFile(text) { // node's -seeds is no flag of ctl
					err = fmt.Errorf("%q is a file: proxima ctl seed - <FILE adds the URLs in it", text)
				}
				return exit{exitUsage, err}
			}
			fmt.Fprintln(&list, text)
			continue
		}
		// The list is read before the node is asked: it may come slowly, and a call ends after a minute.
		in := os.Stdin
		more, err := untilStopped(ctx, func() ([]byte, error) { return io.ReadAll(in) })
		if err != nil {
			return fmt.Errorf("read seeds: %w", err)
		}
		fmt.Fprintf(&list, "%s\n", more)
	}
	a, err := c.post(ctx, "/seeds", nil, &list)
	if err != nil {
		return err
	}
	if len(a.Refused) == 0 {
		fmt.Fprintln(c.out, "added")
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Refused)) {
		fmt.Fprintf(c.out, "%d not added: %s\n", a.Refused[reason], reason)
	}
	return nil
}

func block(verb, done, already string) func(context.Context, *ctl, []string) error {
	return func(ctx context.Context, c *ctl, targets []string) error {
		return each(targets, func(on string) error {
			var b node.Blocked
			if err := c.call(ctx, http.MethodPost, "/"+verb, url.Values{"on": {on}, "why": {c.why}}, nil, &b); err != nil {
				return err
			}
			outcome := already
			if b.Changed {
				outcome = done
			}
			fmt.Fprintf(c.out, "%s: %s\n", b.Block.On, outcome)
			return nil
		})
	}
}

// list returns an action that prints a list of the node, or none if it is empty.
func list[T any](path, none string, line func(T) string) func(context.Context, *ctl, []string) error {
	return func(ctx context.Context, c *ctl, _ []string) error {
		all, err := ask[[]T](ctx, c.data, path)
		if err == nil && len(all) == 0 {
			fmt.Fprintln(c.out, none)
		}
		for _, one := range all {
			fmt.Fprintln(c.out, line(one))
		}
		return err
	}
}

func reload(ctx context.Context, c *ctl, _ []string) error {
	a, err := c.post(ctx, "/reload", nil, nil)
	for _, key := range a.Set {
		fmt.Fprintf(c.out, "%s: set\n", key)
	}
	for _, why := range a.NotSet {
		fmt.Fprintln(c.out, why)
	}
	if err == nil && len(a.Set)+len(a.NotSet) == 0 {
		fmt.Fprintln(c.out, "no key has changed; seeds are added by: proxima ctl seed")
	}
	return err
}

func move(ctx context.Context, c *ctl, on []string) error {
	a, err := c.post(ctx, "/move", url.Values{"host": on[:1], "to": on[1:]}, nil)
	for _, host := range a.Moved {
		fmt.Fprintf(c.out, "%s: moved\n", host)
	}
	return err
}
