package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"proxima/node"
)

func runConfig(_ context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("config", out, "Usage: proxima config [-check FILE]\nPrints the complete default configuration.\n", "")
	check := flags.String("check", "", "check this `file` instead of printing the defaults")
	rest, err := parse(flags, args)
	if err := cmp.Or(err, noArguments("config", rest)); err != nil {
		return err
	}
	if *check != "" {
		if _, err := node.Load(*check); err != nil {
			return exit{exitUsage, err}
		}
		fmt.Fprintln(out, *check, "is valid")
		return nil
	}
	_, err = io.WriteString(out, node.DefaultFile)
	return err
}
