//go:build !nolab

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/compare/report"
	"proxima/node"
)

// runFigures makes one page of the figures of 2009 and ours. Each folder has the runs of one scenario.
func runFigures(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("figures", out, "Usage: proxima figures [-o FILE] DIR ...\n"+
		"Shows the figures of the thesis of 2009 beside those of runs of the scenarios bandwidth, load, server, single and fourteen: a folder each.\n", "")
	path := flags.String("o", "figures.html", "`file` of the page")
	dirs, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(dirs) == 0 {
		return exit{exitUsage, errors.New("figures needs a folder of runs for each scenario (proxima figures -h)")}
	}
	var results []*compare.Result
	for _, dir := range dirs {
		r, err := compare.Read(ctx, []string{dir}, compare.Options{})
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	f, err := os.Create(*path)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	err = errors.Join(report.Figures(f, results, node.Version(), "proxima figures "+strings.Join(args, " ")), f.Close())
	if err == nil {
		fmt.Fprintln(out, "the figures are in", *path)
	}
	return err
}
