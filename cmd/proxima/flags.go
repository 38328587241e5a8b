package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"proxima/cmd/proxima/terminal"
	"proxima/node"
	"proxima/node/strict"
)

// flagSet has the flags of a subcommand, and the help before and after their list. For an error it prints a line, while package flag
// prints the whole help.
type flagSet struct {
	*flag.FlagSet
	out           io.Writer
	before, after string
	data, config  *string // of a command that asks a running node
	load          func(file string) (node.Config, error)
}

func newFlags(name string, out io.Writer, before, after string) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet("proxima "+name, flag.ContinueOnError), out: out, before: before, after: after}
	f.SetOutput(io.Discard)
	return f
}

// newAskFlags is newFlags for a command that asks a running node. The result's data is the node's directory once parsed.
func newAskFlags(ctx context.Context, name string, out io.Writer, before string) *flagSet {
	f := newFlags(name, out, before, "")
	f.data = f.String("data", node.Default().Node.Data, "data `directory` of the node")
	f.config = f.String("config", "", "configuration `file` of the node, which names its data directory")
	f.load = func(file string) (node.Config, error) { return load(ctx, file) }
	return f
}

func (f *flagSet) command() string { return strings.TrimPrefix(f.Name(), "proxima ") }

func (f *flagSet) help() {
	fit(f.out, f.before)
	width := 0
	left := func(fl *flag.Flag) string {
		value, _ := flag.UnquoteUsage(fl)
		return strings.TrimSpace("-" + fl.Name + " " + value)
	}
	f.VisitAll(func(fl *flag.Flag) { width = max(width, len(left(fl))) })
	f.VisitAll(func(fl *flag.Flag) {
		_, usage := flag.UnquoteUsage(fl)
		if d := fl.DefValue; d != "" && d != "false" && d != "0" {
			usage += " (default " + d + ")"
		}
		terminal.Wrap(f.out, fmt.Sprintf("  %-*s  ", width, left(fl)), width+4, usage)
	})
	fit(f.out, f.after)
}

// fit prints lines, and wraps those that do not fit.
func fit(out io.Writer, text string) {
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > terminal.Width+len("\n") {
			terminal.Wrap(out, "", 0, line)
		} else {
			fmt.Fprint(out, line)
		}
	}
}

// parse reads flags before, between and after arguments, and returns the arguments. After "--" there are only arguments.
func parse(flags *flagSet, args []string) (rest []string, err error) {
	for {
		if err := parseFirst(flags, args); err != nil {
			return nil, err
		}
		read := args[:len(args)-flags.NArg()]
		if args = flags.Args(); len(args) == 0 || len(read) > 0 && read[len(read)-1] == "--" {
			return append(rest, args...), flags.findData()
		}
		if strings.HasPrefix(args[0], "–") || strings.HasPrefix(args[0], "—") {
			return nil, exit{exitUsage, fmt.Errorf("%s begins with a dash that is no hyphen: flags begin with -", args[0])}
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}

// parseFirst reads the flags before the first argument.
func parseFirst(flags *flagSet, args []string) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.help()
	case err != nil:
		return exit{exitUsage, fmt.Errorf("%s (%s -h lists the flags)", wrong(flags.FlagSet, err), flags.Name())}
	}
	return err
}

// parseAlone is parse for a command without arguments.
func parseAlone(flags *flagSet, args []string) error {
	rest, err := parse(flags, args)
	if err == nil && len(rest) > 0 {
		err = exit{exitUsage, fmt.Errorf("%s takes no arguments, got %q (%s -h lists the flags)", flags.command(), rest[0], flags.Name())}
	}
	return err
}

// parseSome is parse for a command with least to most arguments. takes says so where there are others.
func parseSome(flags *flagSet, args []string, least, most int, takes string) ([]string, error) {
	rest, err := parse(flags, args)
	if err == nil && (len(rest) < least || len(rest) > most) {
		err = exit{exitUsage, errors.New(takes)}
	}
	return rest, err
}

// wrong returns the text of an error of package flag in our words. For an unknown flag it suggests the nearest one.
func wrong(flags *flag.FlagSet, err error) string {
	if rest, ok := strings.CutPrefix(err.Error(), "invalid value "); ok {
		value, rest, _ := strings.Cut(rest, " for flag -")
		name, why, _ := strings.Cut(rest, ": ")
		if text, err := strconv.Unquote(value); err == nil && (why == "parse error" || why == "value out of range") {
			why = strict.NotNumber(text) // there are no flags of durations: take reads them
		}
		return "-" + name + ": " + why
	}
	if rest, ok := strings.CutPrefix(err.Error(), "invalid boolean value "); ok {
		value, rest, _ := strings.Cut(rest, " for -")
		name, _, _ := strings.Cut(rest, ": ")
		return "-" + name + ": " + value + " is neither true nor false"
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err.Error()
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	text := "there is no flag -" + name
	if near := strict.Nearest(strings.TrimLeft(name, "-"), names); near != "" {
		text += ": did you mean -" + near + "?"
	}
	return text
}

// findData takes the data directory from the configuration, if one is given.
func (f *flagSet) findData() error {
	if f.config == nil || *f.config == "" {
		return nil
	}
	if given(f.FlagSet, "data") {
		return exit{exitUsage, fmt.Errorf("%s takes -data or -config, not both", f.command())}
	}
	cfg, err := f.load(*f.config)
	if err != nil {
		return exit{exitUsage, err}
	}
	*f.data = cfg.Node.Data
	return nil
}

func given(flags *flag.FlagSet, name string) (set bool) {
	flags.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// checkFile refuses "-" as the name of a file to write. It would mean the standard output, which has other text.
func checkFile(what, path string) error {
	if path == "-" {
		return exit{exitUsage, fmt.Errorf("%s: - names no file, and what is in it cannot be printed", what)}
	}
	return nil
}
