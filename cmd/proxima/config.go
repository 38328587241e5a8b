package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"proxima/node"
	"proxima/node/strict"
)

func runConfig(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("config", out, "Usage: proxima config [-short | -check FILE | -diff FILE | -for URL [-config FILE]]\nPrints the complete default configuration.\n", "")
	check := flags.String("check", "", "check this `file` instead of printing the defaults")
	short := flags.Bool("short", false, "print only the keys that most people set")
	diff := flags.String("diff", "", "print where this `file` differs from the defaults")
	url := flags.String("for", "", "print the settings for a `URL`, and where each comes from")
	file := flags.String("config", "", "configuration `file` for -for")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	// By name: an empty value is a mistake, and asks for something all the same.
	kinds := slices.DeleteFunc([]string{"short", "check", "diff", "for"}, func(name string) bool { return !given(flags.FlagSet, name) })
	switch kind := strings.Join(kinds, " "); {
	case len(kinds) > 1:
		return exit{exitUsage, errors.New("config takes one of -short, -check, -diff and -for")}
	case kind != "for" && given(flags.FlagSet, "config"):
		return exit{exitUsage, errors.New("-config needs -for URL; -check FILE checks a file")}
	case kind == "for":
		u, err := argument(*url)
		if err != nil {
			return exit{exitUsage, fmt.Errorf("-for: %w", err)}
		}
		text, err := untilStopped(ctx, func() (string, error) { return node.Explain(*file, u) })
		if err != nil {
			return exit{exitUsage, err}
		}
		fmt.Fprintf(out, "# %s\n%s", u, text)
		return nil
	case kind == "check":
		if _, err := load(ctx, *check); err != nil {
			return exit{exitUsage, err}
		}
		fmt.Fprintln(out, *check, "is valid")
		return nil
	case kind == "diff":
		c, err := load(ctx, *diff)
		if err != nil {
			return exit{exitUsage, err}
		}
		return showDiff(out, c)
	case *short:
		showShort(out)
		return nil
	}
	fmt.Fprint(out, node.DefaultFile)
	return nil
}

// usual lists the keys that most people set.
func usual() []string {
	return []string{
		"node.data", "crawl.fetchers", "crawl.max_pages", "crawl.max_time", "scope.seed_scope", "scope.max_depth", "politeness.min_gap",
		"politeness.own", "fetch.contact", "fetch.from", "fetch.allow_prefixes", "sink.url", "sink.formats", "peer.secret", "peer.listen", "member.bind", "member.join",
	}
}

// showShort prints those keys of the default file with their comments. The output is a valid file.
func showShort(out io.Writer) {
	wanted := usual()
	section, shown := "", ""
	var comment []string
	for line := range strings.Lines(node.DefaultFile) {
		switch {
		case strings.HasPrefix(line, "["):
			section, comment = strings.Trim(strings.TrimSpace(line), "[]"), nil
		case strings.HasPrefix(line, "#"):
			comment = append(comment, line)
		default:
			key, _, _ := strings.Cut(line, " = ")
			if slices.Contains(wanted, section+"."+key) {
				if section != shown {
					fmt.Fprintf(out, "[%s]\n", section)
					shown = section
				}
				fmt.Fprint(out, strings.Join(comment, ""), line)
			}
			comment = nil
		}
	}
}

// showDiff prints where a configuration differs from the defaults, each with its default.
func showDiff(out io.Writer, c node.Config) error {
	was, err := strict.Flat(node.Default().Text())
	if err != nil {
		return err
	}
	is, err := strict.Flat(c.Text())
	if err != nil {
		return err
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(is)) {
		list, isList := is[key].([]any)
		if _, had := was[key]; reflect.DeepEqual(is[key], was[key]) || !had && isList && len(list) == 0 {
			continue // TOML leaves out an empty list
		}
		n++
		if list, ok := is[key].([]map[string]any); ok {
			fmt.Fprintf(out, "# %d entries of [[%s]]; default none\n", len(list), key)
			continue
		}
		old := "none"
		if v, ok := was[key]; ok {
			old = value(v)
		}
		fmt.Fprintf(out, "%s = %s # default %s\n", key, value(is[key]), old)
	}
	if n == 0 {
		fmt.Fprintln(out, "# nothing differs from the defaults")
	}
	return nil
}

// value formats a value as TOML.
func value(v any) string {
	var b strings.Builder
	if err := toml.NewEncoder(&b).Encode(map[string]any{"v": v}); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(strings.TrimPrefix(b.String(), "v = "))
}
