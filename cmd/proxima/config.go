package main

import (
	"context"
	"fmt"
	"io"

	"proxima/node"
)

func runConfig(_ context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("config", out, "Usage: proxima config [-short | -check FILE | -diff FILE | -for URL [-config FILE]]\nPrints the complete default configuration.\n", "")
	check := flags.String("check", "", "check this `file` instead of printing the defaults")
	short := flags.Bool("short", false, "print those keys only that most people set")
	diff := flags.String("diff", "", "print what this `file` sets otherwise than the defaults")
	url := flags.String("for", "", "print what holds for a `URL`, and where each value comes from")
	file := flags.String("config", "", "configuration `file` for -for")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	switch {
	case *url != "":
		u, err := argument(*url)
		if err != nil {
			return exit{exitUsage, fmt.Errorf("-for: %w", err)}
		}
		text, err := node.Explain(*file, u)
		if err != nil {
			return exit{exitUsage, err}
		}
		_, err = fmt.Fprintf(out, "# %s\n%s", u, text)
		return err
	case *check != "":
		if _, err := node.Load(*check); err != nil {
			return exit{exitUsage, err}
		}
		fmt.Fprintln(out, *check, "is valid")
		return nil
	case *diff != "":
		c, err := node.Load(*diff)
		if err != nil {
			return exit{exitUsage, err}
		}
		return showDiff(out, c)
	case *short:
		showShort(out)
		return nil
	case *file != "":
		return exit{exitUsage, fmt.Errorf("-config needs -for URL; -check FILE checks a file")}
	}
	_, err := io.WriteString(out, node.DefaultFile)
	return err
}
