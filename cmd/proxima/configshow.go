package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"proxima/node"
)

// usual are the keys that most people set.
func usual() []string {
	return []string{
		"node.data", "crawl.fetchers", "crawl.max_pages", "crawl.max_time", "scope.seed_scope", "scope.max_depth", "politeness.min_gap",
		"politeness.own", "fetch.contact", "fetch.from", "fetch.allow_prefixes", "sink.url", "peer.secret", "peer.listen", "member.bind", "member.join",
	}
}

// showShort prints those keys of the default file that most people set, with their comments. It is a valid file, too.
func showShort(w io.Writer) {
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
					fmt.Fprintf(w, "[%s]\n", section)
					shown = section
				}
				fmt.Fprint(w, strings.Join(comment, ""), line)
			}
			comment = nil
		}
	}
}

// showDiff prints what a file sets otherwise than the defaults, with the default behind it.
func showDiff(w io.Writer, c node.Config) error {
	was, err := flat(node.Default().Text())
	if err != nil {
		return err
	}
	is, err := flat(c.Text())
	if err != nil {
		return err
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(is)) {
		list, isList := is[key].([]any)
		if _, had := was[key]; reflect.DeepEqual(is[key], was[key]) || !had && isList && len(list) == 0 {
			continue // TOML writes no list for none
		}
		n++
		if list, ok := is[key].([]map[string]any); ok {
			fmt.Fprintf(w, "# %d entries of [[%s]]; default none\n", len(list), key)
			continue
		}
		old := "none"
		if v, ok := was[key]; ok {
			old = value(v)
		}
		fmt.Fprintf(w, "%s = %s # default %s\n", key, value(is[key]), old)
	}
	if n == 0 {
		fmt.Fprintln(w, "# nothing differs from the defaults")
	}
	return nil
}

// flat are the values of a configuration by dotted key.
func flat(text string) (map[string]any, error) {
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	out := map[string]any{}
	var walk func(prefix string, t map[string]any)
	walk = func(prefix string, t map[string]any) {
		for k, v := range t {
			if strings.ContainsAny(k, ".:/ ") {
				k = strconv.Quote(k)
			}
			if table, ok := v.(map[string]any); ok {
				walk(prefix+k+".", table)
			} else {
				out[prefix+k] = v
			}
		}
	}
	walk("", tree)
	return out, nil
}

// value writes a value as TOML does.
func value(v any) string {
	var b strings.Builder
	if err := toml.NewEncoder(&b).Encode(map[string]any{"v": v}); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(strings.TrimPrefix(b.String(), "v = "))
}
