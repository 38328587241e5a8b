package main

import (
	"context"
	"fmt"
	"io"

	"proxima/node"
)

func runConfig(_ context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("config", out, "Usage: proxima config [-check FILE]\nPrints the complete default configuration.\n", "")
	check := flags.String("check", "", "check this `file` instead of printing the defaults")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	if *check != "" {
		if _, err := node.Load(*check); err != nil {
			return exit{exitUsage, err}
		}
		fmt.Fprintln(out, *check, "is valid")
		return nil
	}
	_, err := io.WriteString(out, node.DefaultFile)
	return err
}
