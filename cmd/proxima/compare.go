//go:build !nolab

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/compare/report"
	"proxima/node"
)

func runCompare(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("compare", out, "Usage: proxima compare [FLAGS] DIR ...\n"+
		"Reads the logs of all nodes below each DIR and says which assigner was better, by how much, and why.\n", "")
	asJSON := flags.Bool("json", false, "print JSON for programs (docs/compare.md)")
	page := flags.String("html", "", "also write a page with plots to this `file`")
	by := flags.String("by", compare.ByAssigner, "`what` a row is: "+strings.Join(compare.Bys(), ", "))
	against := flags.String("against", "", "`row` or assigner that the others are compared to; random by default")
	seed := flags.Uint64("seed", 1, "`seed` of the confidence intervals")
	dirs, err := parseSome(flags, args, 1, math.MaxInt, "compare needs a folder with logs (proxima compare -h)")
	if err != nil {
		return err
	}
	if !slices.Contains(compare.Bys(), *by) {
		return exit{exitUsage, fmt.Errorf("-by %q is none of %s", *by, strings.Join(compare.Bys(), ", "))}
	}
	if err := checkFile("-html", *page); err != nil {
		return err
	}
	r, err := compare.Read(ctx, dirs, compare.Options{Seed: *seed, By: *by, Against: *against})
	switch {
	case errors.Is(err, compare.ErrNoRow):
		return exit{exitUsage, err}
	case err != nil:
		return err
	}
	r.Command = commandLine(append([]string{"compare"}, args...)...)
	// Print first, so that a page that cannot be written does not lose hours of reading.
	if *asJSON {
		err = writeJSON(out, r)
	} else {
		fmt.Fprint(out, r.Text())
	}
	if *page != "" {
		err = errors.Join(err, writePage(*page, func(w io.Writer) error { return report.Write(w, r, node.Version()) }))
	}
	return err
}

// commandLine is a command as a shell takes it, so that it can be repeated.
func commandLine(words ...string) string {
	line := "proxima"
	for _, word := range words {
		special := func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_=+,.:/@%", r)
		}
		if word == "" || strings.ContainsFunc(word, special) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		line += " " + word
	}
	return line
}

// writePage writes a page or a plot beside the one of that name and then puts it in its place, so that a failure leaves the older one as it was.
// Pipes and devices are written to directly.
func writePage(path string, write func(io.Writer) error) error {
	part := path + ".part"
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		part = path
	} else if at, err := filepath.EvalSymlinks(path); err == nil { // a link stays, and the page that it names is replaced
		path, part = at, at+".part"
	}
	f, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	err = errors.Join(write(f), f.Close())
	if err == nil && part != path {
		err = os.Rename(part, path)
	}
	if err != nil && part != path {
		_ = os.Remove(part)
	}
	return err
}

// runFigures makes one page of the figures of 2009 and ours. Each folder has the runs of one scenario.
func runFigures(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("figures", out, "Usage: proxima figures [-o FILE] DIR ...\n"+
		"Shows the figures of the thesis of 2009 beside those of our runs. Each DIR has runs of one of the scenarios bandwidth, "+
		"load, server, single and fourteen.\n", "")
	path := flags.String("o", "figures.html", "`file` of the page")
	dirs, err := parseSome(flags, args, 1, math.MaxInt, "figures needs a folder of runs for each scenario (proxima figures -h)")
	if err != nil {
		return err
	}
	if err := checkFile("-o", *path); err != nil {
		return err
	}
	var results []*compare.Result
	for _, dir := range dirs {
		r, err := compare.Read(ctx, []string{dir}, compare.Options{})
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	err = writePage(*path, func(w io.Writer) error {
		return report.Figures(w, results, node.Version(), commandLine(append([]string{"figures"}, args...)...))
	})
	if err == nil {
		fmt.Fprintln(out, "the figures are in", *path)
	}
	return err
}
