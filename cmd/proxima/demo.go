//go:build !nolab

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"proxima/cmd/proxima/compare"
)

func runDemo(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("demo", out, "Usage: proxima demo [FLAGS]\nBuilds a small Internet on this machine, lets six nodes crawl it, and "+
		"compares all assigners. Two minutes.\n", "")
	var f testbedFlags
	f.set(flags.FlagSet)
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	if err := runScenario(ctx, "demo", &f, out); err != nil {
		return err
	}
	r, err := compare.Read(ctx, []string{f.dir}, compare.Options{})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	r.Command = "proxima demo " + strings.Join(args, " ")
	fmt.Fprintln(out)
	if err := r.Text(out); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	report := filepath.Join(f.dir, "report.html")
	if err := writePage(report, r); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nlogs of every node: %s\nreport, for a browser: %s\n", f.dir, report)
	return nil
}
