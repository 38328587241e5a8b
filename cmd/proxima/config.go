package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"proxima/node"
)

func runConfig(_ context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("proxima config", flag.ContinueOnError)
	flags.SetOutput(errs)
	check := flags.String("check", "", "check this file instead of printing the defaults")
	if err := parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return exit{exitUsage, fmt.Errorf("config takes no arguments, got %q", flags.Arg(0))}
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

// parse reads flags; what is wrong with them has been printed with the usage by then.
func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err != nil && err != flag.ErrHelp {
		return exit{code: exitUsage}
	}
	return err
}
