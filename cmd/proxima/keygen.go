package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"proxima/node"
)

func runKeygen(_ context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("proxima keygen", flag.ContinueOnError)
	flags.SetOutput(errs)
	rotate := flags.Bool("rotate", false, "take FILE one of three steps further to a new secret; nodes go on meanwhile")
	flags.Usage = func() {
		fmt.Fprint(errs, "Usage: proxima keygen [-rotate] FILE\nWrites a new cluster secret, which must be copied to every node of the overlay (peer.secret).\n")
		flags.PrintDefaults()
	}
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return exit{exitUsage, fmt.Errorf("keygen takes the name of one file")}
	}
	if *rotate {
		next, err := node.Rotate(flags.Arg(0))
		if err != nil {
			return err
		}
		fmt.Fprint(out, next)
		return nil
	}
	if err := node.Keygen(flags.Arg(0)); err != nil {
		return err
	}
	fmt.Fprintln(out, "wrote", flags.Arg(0)+"; copy it to every node, and to nobody else")
	return nil
}
