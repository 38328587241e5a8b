package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"proxima/frontier"
	"proxima/node"
)

func runStatus(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("proxima status", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		fmt.Fprint(errs, "Usage: proxima status [FLAGS] [HOST ...]\nSays what the running node is doing; with hosts, why each of them is waiting.\n")
		flags.PrintDefaults()
	}
	data := flags.String("data", node.Default().Node.Data, "data `directory` of the node")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parse(flags, args); err != nil {
		return err
	}
	var answers []any
	if flags.NArg() == 0 {
		s, err := node.AskStatus(ctx, *data)
		if err != nil {
			return noAnswer(err)
		}
		if !*asJSON {
			showStatus(out, s)
			return nil
		}
		answers = append(answers, s)
	}
	for _, name := range flags.Args() {
		h, err := node.AskHost(ctx, *data, name)
		if err != nil {
			return noAnswer(err)
		}
		if !*asJSON {
			showHost(out, h)
			continue
		}
		answers = append(answers, h)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	for _, a := range answers {
		if err := e.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

func noAnswer(err error) error {
	if errors.Is(err, node.ErrNotRunning) {
		return exit{exitNoAnswer, err}
	}
	return err
}

func showStatus(w io.Writer, s node.Status) {
	up := time.Duration(s.UptimeS * float64(time.Second))
	fmt.Fprintf(w, "node %s, boot %d, run %q, up %v; logs in %s\n", s.Node, s.Boot, s.Run, up.Round(time.Second), s.LogDir)
	fmt.Fprintln(w, progressLine(s, float64(s.Crawl.Pages)/max(s.UptimeS, 1e-3)))
	f := s.Frontier
	fmt.Fprintf(w, "URLs: %d accepted, %d duplicate, %d done, %d failed, %d dropped, %d pending (%d at start)\n",
		f.Accepted, f.Duplicate, f.Done, f.Failed, f.Dropped, f.Pending, f.AtStart)
	fmt.Fprintf(w, "servers: %d known, %d ready, %d requests under way", f.Servers, f.Ready, f.InFlight)
	if f.Waiting {
		fmt.Fprint(w, "; more hosts wait on disk")
	}
	fmt.Fprintln(w)
	rows := map[string]int64{}
	for kind, n := range f.Hosts {
		rows[kind] = int64(n)
	}
	table(w, "workbench", "hosts", rows)
	table(w, "answer", "pages", s.Crawl.Rows)
}

func showHost(w io.Writer, h frontier.HostStatus) {
	fmt.Fprintf(w, "%s: %s\n", h.Host, h.Sentence)
	if h.Known {
		fmt.Fprintf(w, "  server %s, %d URLs in memory, more on disk: %v, failures in a row: %d, Crawl-delay %v\n",
			h.Server, h.InMemory, h.OnDisk, h.Failures, h.Delay)
	}
}
