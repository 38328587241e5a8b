package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"proxima/cmd/proxima/fleet"
	"proxima/node"
	"proxima/node/runlog"
)

// longCrawl is a command for long crawls, and its work on all hosts.
type longCrawl struct {
	*fleetFlags
	list  []fleet.Host
	words []string // by host: what came of it
	mu    sync.Mutex
}

// work is what a command does after its flags are read. It begins with a check of them.
type work func(ctx context.Context) error

// crawlVerb returns a command for long crawls. define adds its flags and returns its work.
func crawlVerb(name, usage, text string, define func(c *longCrawl) work) verb {
	return func(ctx context.Context, args []string, out, _ io.Writer) error {
		c := &longCrawl{fleetFlags: newFleetFlags(name, out, "Usage: proxima fleet "+name+" -hosts FILE "+usage+"[FLAGS]\n"+text+"\n"+
			"Exit codes: 0 all hosts are as they should be, 1 some are not, 2 wrong flags or list, 3 ssh is missing, 4 none is.\n", "proxima", 32)}
		work := define(c)
		err := parseAlone(c.flagSet, args)
		if err == nil {
			c.list, err = c.readList()
		}
		if err != nil {
			return err
		}
		c.words = make([]string, len(c.list))
		return work(ctx)
	}
}

func longCrawls() map[string]verb {
	return map[string]verb{
		"select": crawlVerb("select", "-need N (-sets K | -take M) -out DIR ", "Divides the least loaded hosts that answer into equal sets, and "+
			"writes the list of each: DIR/set-1.hosts and so on.", selecting),
		"deploy": crawlVerb("deploy", "-seeds FILE ", "Copies to each host what a node needs and the host does not have: program, configuration, "+
			"seeds and secret. A node that runs goes on, and takes them at its next start.", deploying),
		"start": crawlVerb("start", "", "Starts the nodes that were deployed and do not run, and waits until they answer. They need no connection.",
			waiting("start", "run a node", "`time` that a node may take until it answers")),
		"status": crawlVerb("status", "", "Prints what each node is doing. Members are those alive and settled, as the node sees them.", asking),
		"stop": crawlVerb("stop", "", "Stops the nodes in order. Nothing that was accepted is lost.",
			waiting("stop", "run no node", "`time` that a node may take to end before it is killed")),
		"collect": crawlVerb("collect", "-out DIR ", "Fetches logs and output of all nodes into DIR/HOST, compressed, also during a crawl.\n"+
			"What is here already and has not changed is not fetched again.", collecting),
	}
}

// each calls do for all hosts where nothing has failed before. It prints the failures, and what do returns unless it is empty.
func (c *longCrawl) each(ctx context.Context, limit time.Duration, do func(ctx context.Context, i int) (string, error)) {
	_ = c.ssh.Each(len(c.list), func(i int) error {
		if c.failed(i) {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		text, err := do(ctx, i)
		c.result(i, text, err)
		return nil
	})
}

func (c *longCrawl) failed(i int) bool { return c.words[i] != "" && c.words[i] != fleet.OK }

func (c *longCrawl) result(i int, text string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.words[i] = fleet.OK
	if err != nil {
		c.words[i], text = fleet.Reason(err)
	}
	if text != "" {
		fmt.Fprintf(c.out, "%-8s %-24s %s\n", c.words[i], c.list[i].Name, text)
	}
}

func (c *longCrawl) probe(ctx context.Context, freeMiB int) []fleet.Info {
	infos := make([]fleet.Info, len(c.list))
	c.each(ctx, time.Minute, func(ctx context.Context, i int) (_ string, err error) {
		if infos[i], err = c.ssh.Probe(ctx, c.list[i]); err == nil && infos[i].FreeMiB < freeMiB {
			err = fmt.Errorf("only %d MiB are free for %s", infos[i].FreeMiB, infos[i].Dir)
		}
		return "", err
	})
	return infos
}

// conclude prints the sum of the results, with the names of the hosts where the work is not done.
func (c *longCrawl) conclude(ctx context.Context, done string) error {
	n, lists := 0, map[string]string{}
	for i, word := range c.words {
		lists[word] += " " + c.list[i].Name
		if word == fleet.OK {
			n++
		}
	}
	text := done
	for _, word := range []string{fleet.Failed, fleet.Silent, fleet.Refused, fleet.Unknown} {
		if lists[word] != "" {
			text += "; " + word + ":" + lists[word]
		}
	}
	return c.sum(ctx, "", n, len(c.list), "hosts "+text)
}

// sum prints a text and how much is done, and returns the exit code that says it.
func (c *longCrawl) sum(ctx context.Context, text string, n, of int, what string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(c.out, "%s%d of %d %s\n", text, n, of, what)
	switch n {
	case of:
		return nil
	case 0:
		return exit{code: exitNothing}
	}
	return exit{code: exitFailed}
}

// waiting is the work of commands that wait for nodes.
func waiting(name, done, usage string) func(c *longCrawl) work {
	return func(c *longCrawl) work {
		var wait time.Duration
		inSeconds(c.FlagSet, &wait, "wait", 30*time.Second, usage)
		return func(ctx context.Context) error {
			c.each(ctx, wait+time.Minute, func(ctx context.Context, i int) (string, error) {
				return c.ssh.Answer(ctx, c.list[i], name, strconv.Itoa(int(wait.Seconds())))
			})
			return c.conclude(ctx, done)
		}
	}
}

func collecting(c *longCrawl) work {
	folder := c.String("out", "", "`directory` for the logs of one crawl")
	return func(ctx context.Context) error {
		if *folder == "" {
			return c.wrong("-out is missing")
		}
		c.each(ctx, 24*time.Hour, func(ctx context.Context, i int) (string, error) {
			got, err := c.ssh.Collect(ctx, c.list[i], filepath.Join(*folder, c.list[i].Name), "node.out")
			return fmt.Sprintf("%d files, %d of them new or longer, %d KiB fetched", got.Files, got.New, (got.Bytes+1023)/1024), err
		})
		return c.conclude(ctx, "are collected")
	}
}

func asking(c *longCrawl) work {
	return func(ctx context.Context) error {
		rows := make([]row, len(c.list))
		c.each(ctx, time.Minute, func(ctx context.Context, i int) (string, error) {
			rows[i] = newRow(c.ssh.Answer(ctx, c.list[i], "status"))
			return "", nil
		})
		const form = "%-24s %-8s %8s %9s %9s %9s  %s\n"
		table := fmt.Sprintf(form, "host", "state", "up", "pages", "pending", "members", "note")
		running := 0
		for i, r := range rows {
			if r.state == stateRunning {
				running++
			}
			table += fmt.Sprintf(form, c.list[i].Name, r.state, r.up, r.pages, r.pending, r.members, r.note)
		}
		return c.sum(ctx, table, running, len(rows), "nodes run")
	}
}

type row struct{ state, up, pages, pending, members, note string }

// States of a node. A mute one runs and does not answer. The others are absent and stopped.
const (
	stateRunning = "running"
	stateMute    = "mute"
)

// newRow reads what a host says about its node.
func newRow(text string, err error) row {
	r := row{"", "-", "-", "-", "-", ""}
	if err != nil {
		r.state, r.note = fleet.Reason(err)
		return r
	}
	r.state, text, _ = strings.Cut(text, "\n")
	var s node.Status
	var last runlog.Event // of a node that has ended
	switch {
	case r.state == stateMute:
		r.note = text
	case r.state == stateRunning && json.Unmarshal([]byte(text), &s) == nil:
		r = row{r.state, fmt.Sprintf("%ds", int(s.UptimeS)), fmt.Sprint(s.Crawl.Pages), fmt.Sprint(s.Frontier.Pending), "alone", ""}
		if o := s.Overlay; o != nil {
			r.members, r.note = fmt.Sprintf("%d/%d", o.Alive, o.Settled), o.Reason
		}
	case json.Unmarshal([]byte(text), &last) == nil && last.Event == runlog.EventStop:
		r.note, _ = last.Attrs[runlog.KeyReason].(string)
	}
	return r
}

func selecting(c *longCrawl) work {
	need := c.Int("need", 0, "`number` of hosts that a set needs")
	sets := c.Int("sets", 0, "`number` of sets; as many as the hosts taken are enough for, if only -take is given")
	take := c.Int("take", 0, "`number` of hosts in all; sets times need, if only -sets is given")
	dir := c.String("out", "", "`directory` for the sets")
	free := c.Int("free", 1024, "`MiB` of free disk space that a host must have")
	return func(ctx context.Context) error {
		wanted, _, _, err := fleet.SetSizes(*need, *sets, *take, 0)
		switch {
		case err != nil:
			return c.wrong("%v", err)
		case *dir == "":
			return c.wrong("-out is missing")
		}
		var found []fleet.Info
		for i, info := range c.probe(ctx, *free) {
			if !c.failed(i) {
				found = append(found, info)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		old, err := fs.Glob(os.DirFS(*dir), "set-*.hosts")
		for _, name := range old {
			err = errors.Join(err, os.Remove(filepath.Join(*dir, name)))
		}
		if err != nil {
			return fmt.Errorf("remove the sets of before: %w", err)
		}
		_, made, size, _ := fleet.SetSizes(*need, *sets, *take, len(found))
		for k, set := range fleet.Divide(found, made, size) {
			if err := fleet.WriteHosts(filepath.Join(*dir, fmt.Sprintf("set-%d.hosts", k+1)), set); err != nil {
				return err
			}
		}
		return c.sum(ctx, "", made, wanted, fmt.Sprintf("sets, of %d hosts each, in %s; %d of %d hosts can be used", size, *dir, len(found), len(c.list)))
	}
}
