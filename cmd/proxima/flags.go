package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"proxima/node"
	"proxima/node/strict"
)

// flagSet are the flags of a subcommand, with what help says before and after their list. Package flag says what is wrong with the
// whole help behind it; here it is one line.
type flagSet struct {
	*flag.FlagSet
	out           io.Writer
	before, after string
}

func newFlags(name string, out io.Writer, before, after string) *flagSet {
	f := &flagSet{flag.NewFlagSet("proxima "+name, flag.ContinueOnError), out, before, after}
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

func (f *flagSet) help() {
	fmt.Fprint(f.out, f.before)
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
		fmt.Fprintf(f.out, "  %-*s  %s\n", width, left(fl), usage)
	})
	fmt.Fprint(f.out, f.after)
}

// parse reads flags before, between and after arguments, which it returns. What follows "--" is no flag.
func parse(flags *flagSet, args []string) (rest []string, err error) {
	for {
		if err := parseFirst(flags, args); err != nil {
			return nil, err
		}
		read := args[:len(args)-flags.NArg()]
		if args = flags.Args(); len(args) == 0 || len(read) > 0 && read[len(read)-1] == "--" {
			return append(rest, args...), nil
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

// parseAlone is parse for a command that takes no arguments.
func parseAlone(flags *flagSet, args []string) error {
	rest, err := parse(flags, args)
	if err == nil && len(rest) > 0 {
		err = exit{exitUsage, fmt.Errorf("%s takes no arguments, got %q (%s -h lists the flags)", strings.TrimPrefix(flags.Name(), "proxima "), rest[0], flags.Name())}
	}
	return err
}

// wrong words an error of flag, with the nearest flag where there is none of that name.
func wrong(flags *flag.FlagSet, err error) string {
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

// dataOf replaces a data directory by that of a configuration, where one is named.
func dataOf(flags *flagSet, data *string, config string) error {
	if config == "" {
		return nil
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if set["data"] {
		return exit{exitUsage, fmt.Errorf("%s takes -data or -config, not both", strings.TrimPrefix(flags.Name(), "proxima "))}
	}
	cfg, err := node.Load(config)
	if err != nil {
		return exit{exitUsage, err}
	}
	*data = cfg.Node.Data
	return nil
}
