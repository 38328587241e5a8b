package testbed

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// fault is something wrong with a key: "nodes[1].count".
type fault struct{ key, what string }

// decodeStrictly decodes a text; keys that the struct does not have, and values of another type, are errors with file, line and
// key. The parser by itself would pass over the one, and take a duration without a unit for nanoseconds.
func decodeStrictly(file, text string, to any) error {
	var raw map[string]any
	if _, err := toml.Decode(text, &raw); err != nil {
		return placed(file, err)
	}
	lines := keyLines(text)
	var errs []error
	for _, f := range tableFaults("", raw, reflect.TypeOf(to).Elem()) {
		errs = append(errs, fmt.Errorf("%s:%d: %s: %s", file, lines.find(f.key), f.key, f.what))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if _, err := toml.Decode(text, to); err != nil {
		return placed(file, err)
	}
	return nil
}

// placed gives an error of the parser its file and line.
func placed(file string, err error) error {
	var p toml.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s:%d: %s", file, p.Position.Line, p.Message)
}

func tableFaults(name string, table map[string]any, t reflect.Type) []fault {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("toml"); key != "" && key != "-" {
			fields[key] = t.Field(i).Type
		}
	}
	var faults []fault
	for _, key := range slices.Sorted(maps.Keys(table)) {
		full := strings.TrimPrefix(name+"."+key, ".")
		field, known := fields[key]
		if !known {
			faults = append(faults, fault{full, "unknown key; known are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")})
			continue
		}
		faults = append(faults, valueFaults(full, table[key], field)...)
	}
	return faults
}

func valueFaults(key string, value any, t reflect.Type) []fault {
	wants := func(what string) []fault { return []fault{{key, fmt.Sprintf("want %s, got %v", what, value)}} }
	switch {
	case t == reflect.TypeFor[time.Duration]():
		if text, ok := value.(string); ok {
			if _, err := time.ParseDuration(text); err == nil {
				return nil
			}
		}
		return wants(`a duration in quotes with its unit, like "90s"`)
	case t.Kind() == reflect.Map: // the parser of the node's configuration judges it
		if _, ok := value.(map[string]any); !ok {
			return wants("a section")
		}
	case t.Kind() == reflect.Struct:
		table, ok := value.(map[string]any)
		if !ok {
			return wants("a section")
		}
		return tableFaults(key, table, t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		tables, ok := value.([]map[string]any)
		if !ok {
			return wants("sections in double brackets, [[" + key + "]]")
		}
		var faults []fault
		for i, table := range tables {
			faults = append(faults, tableFaults(fmt.Sprintf("%s[%d]", key, i), table, t.Elem())...)
		}
		return faults
	case t.Kind() == reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return wants("a list in brackets")
		}
		for _, v := range list {
			if _, ok := v.(string); !ok {
				return wants("a list of texts in quotes")
			}
		}
	case t.Kind() == reflect.String:
		if _, ok := value.(string); !ok {
			return wants("a text in quotes")
		}
	case t.Kind() == reflect.Bool:
		if _, ok := value.(bool); !ok {
			return wants("true or false")
		}
	case t.Kind() == reflect.Float64:
		if _, ok := value.(float64); !ok {
			if _, ok = value.(int64); !ok {
				return wants("a number")
			}
		}
	default:
		if n, ok := value.(int64); !ok || n < 0 {
			return wants("a whole number that is not negative")
		}
	}
	return nil
}

// keyPlaces maps keys to the lines where they stand.
type keyPlaces map[string]int

// keyLines finds the lines of keys, which the parser tells for syntax only. It reads what people write: one key a line below a
// [section] or [[section]]; the third [[nodes]] is nodes[2].
func keyLines(text string) keyPlaces {
	places, counts := keyPlaces{}, map[string]int{}
	section, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "[["):
			name := strings.Trim(line, "[] ")
			section = fmt.Sprintf("%s[%d]", name, counts[name])
			counts[name]++
			places[section] = n
			continue
		case strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "[\"") && strings.Contains(line, "]"):
			section = strings.Trim(strings.SplitN(line, "]", 2)[0], "[ ")
			places[section] = n
			continue
		}
		key, _, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		places[strings.TrimPrefix(section+"."+strings.TrimSpace(key), ".")] = n
	}
	return places
}

// find is the line of a key, or of the table that holds it, or 1.
func (p keyPlaces) find(key string) int {
	for key != "" {
		if line, ok := p[key]; ok {
			return line
		}
		i := strings.LastIndex(key, ".")
		if i < 0 {
			break
		}
		key = key[:i]
	}
	return 1
}
