package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"proxima/node"
)

func runKeygen(_ context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("keygen", out, "Usage: proxima keygen [-rotate] FILE\n"+
		"Writes a new cluster secret, which must be copied to every node of the overlay (peer.secret).\n", "")
	rotate := flags.Bool("rotate", false, "take FILE one of three steps further to a new secret; nodes go on meanwhile")
	files, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return exit{exitUsage, errors.New("keygen takes the name of one file (proxima keygen -h)")}
	}
	if *rotate {
		next, err := node.Rotate(files[0])
		if err != nil {
			return err
		}
		fmt.Fprint(out, next)
		return nil
	}
	if err := node.Keygen(files[0]); err != nil {
		return err
	}
	fmt.Fprintln(out, "wrote", files[0]+"; copy it to every node, and to nobody else")
	return nil
}
