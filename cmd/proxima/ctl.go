package main

import (
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

	"proxima/node"
)

func runCtl(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("ctl", out, "Usage: proxima ctl [-data DIR | -config FILE] pause | resume | seed URL... | drop HOST...\n"+
		"Steers the running node. It says what it did, and so does its log.\n"+
		"  pause   no new request begins until resume, or until the node starts again; what is under way ends\n"+
		"  seed    URLs, or - for a list on standard input, belong to the crawl as if they had been there from the start\n"+
		"  drop    gives up the pending URLs of hosts; the blocklist (blocklist.sources) keeps a host away for good\n", "")
	data := flags.String("data", node.Default().Node.Data, "data `directory` of the node")
	config := flags.String("config", "", "configuration `file` of the node, which names its data directory")
	words, err := parse(flags, args)
	if err != nil {
		return err
	}
	if err := dataOf(flags, data, *config); err != nil {
		return err
	}
	if len(words) == 0 {
		return exit{exitUsage, errors.New("ctl takes pause, resume, seed or drop (proxima ctl -h)")}
	}
	var a node.Acted
	switch act, on := words[0], words[1:]; {
	case (act == "pause" || act == "resume") && len(on) == 0:
		if err := node.Call(ctx, http.MethodPost, *data, "/"+act, nil, &a); err != nil {
			return noAnswer(err)
		}
		fmt.Fprintln(out, act+"d")
		return nil
	case act == "seed" && len(on) > 0:
		return addSeeds(ctx, *data, on, out)
	case act == "drop" && len(on) > 0:
		for _, host := range on {
			a = node.Acted{}
			if err := node.Call(ctx, http.MethodPost, *data, "/drop?host="+url.QueryEscape(host), nil, &a); err != nil {
				return noAnswer(err)
			}
			fmt.Fprintf(out, "%s: %d URLs dropped\n", host, a.Dropped)
		}
		return nil
	default:
		return exit{exitUsage, fmt.Errorf("ctl does not take %q (proxima ctl -h)", strings.Join(words, " "))}
	}
}

func addSeeds(ctx context.Context, data string, urls []string, out io.Writer) error {
	var list io.Reader = os.Stdin
	if !slices.Equal(urls, []string{"-"}) {
		for _, text := range urls {
			if _, err := argument(text); err != nil {
				return exit{exitUsage, err}
			}
		}
		list = strings.NewReader(strings.Join(urls, "\n"))
	}
	var a node.Acted
	if err := node.Call(ctx, http.MethodPost, data, "/seeds", list, &a); err != nil {
		return noAnswer(err)
	}
	if len(a.Refused) == 0 {
		fmt.Fprintln(out, "added")
	}
	for _, reason := range slices.Sorted(maps.Keys(a.Refused)) {
		fmt.Fprintf(out, "%d not added: %s\n", a.Refused[reason], reason)
	}
	return nil
}
