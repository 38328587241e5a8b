//go:build !nolab

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"proxima/cmd/proxima/testbed"
)

func runSites(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("sites", out, "Usage: proxima sites SCENARIO -at ADDRESS,ADDRESS... [-here ADDRESS,...] [FLAGS]\n"+
		"Serves the sites of a scenario at your own addresses, on one machine or on several with the same -at.\n", "")
	o := testbed.ServeOptions{Out: out}
	addresses(flags.FlagSet, &o.Addresses, "at", "comma-separated `addresses` of all servers, on whichever machine they are")
	addresses(flags.FlagSet, &o.Here, "here", "comma-separated `addresses` of this machine; all by default")
	flags.IntVar(&o.Port, "port", 80, "`port` of all servers")
	seedFlag(flags.FlagSet, &o.Seed, "`number` that draws the pages; 0 takes the scenario's own")
	orders := flags.Bool("orders", false, "obey lines of standard input (slow ADDRESS MILLISECONDS), and end with it")
	name, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(name) != 1 || len(o.Addresses) == 0 {
		return exit{exitUsage, errors.New("sites takes one scenario and -at (proxima sites -h)")}
	}
	if len(o.Here) == 0 {
		o.Here = o.Addresses
	}
	s, err := testbed.Load(name[0])
	if err != nil {
		return exit{exitUsage, err}
	}
	if *orders {
		o.Orders = os.Stdin
	}
	return testbed.Serve(ctx, s, o)
}

func addresses(flags *flag.FlagSet, list *[]netip.Addr, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			a, err := netip.ParseAddr(part)
			if err != nil {
				return fmt.Errorf("%q is no address", part)
			}
			if slices.Contains(*list, a) {
				return fmt.Errorf("%v is given twice", a)
			}
			*list = append(*list, a)
		}
		return nil
	})
}
