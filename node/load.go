package node

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"proxima/node/site"
)

// DefaultFile is the complete default configuration, every key with its unit, meaning and trade-off. It is written
// from the fields of Config and their comments by go generate.
//
//go:generate go run ../scripts/generate/config -o default.toml
//go:embed default.toml
var DefaultFile string

// Load reads a configuration file over the defaults. Every error of the file names file, line and key; all that can be
// found in one reading are returned together.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, string(text))
}

// Parse is Load of a text; path is only for errors.
func Parse(path, text string) (Config, error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	c := Default()
	var raw map[string]any
	if _, err := toml.Decode(text, &raw); err != nil {
		return Config{}, placed(path, err)
	}
	lines := keyLines(text)
	faults := map[int][]error{}
	faulty := map[string]bool{}
	report := func(key, place, what string) {
		line := lines.find(place)
		faulty[place] = true
		faults[line] = append(faults[line], fmt.Errorf("%s:%d: %s: %s", path, line, key, what))
	}
	if member, ok := raw["member"].(map[string]any); ok {
		switch by := member["faster"].(type) {
		case float64:
			c.Hasten(by)
		case int64:
			c.Hasten(float64(by))
		}
	}
	// The parser forgives what an operator would not want forgiven: a duration without a unit, which it takes for
	// nanoseconds, and keys in another case.
	checkTable("", raw, reflect.TypeFor[Config](), func(key, what string) { report(key, key, what) })
	if _, err := toml.Decode(text, &c); err != nil && len(faults) == 0 {
		return Config{}, placed(path, err)
	}
	for _, err := range c.Validate() {
		key := leadingKey.FindString(err.Error())
		if !faulty[strings.TrimSuffix(key, lastIndex.FindString(key))] {
			report(key, key, strings.TrimLeft(strings.TrimPrefix(err.Error(), key), ": "))
		}
	}
	if len(faults) > 0 {
		var errs []error
		for _, line := range slices.Sorted(maps.Keys(faults)) {
			errs = append(errs, faults[line]...)
		}
		return Config{}, errors.Join(errs...)
	}
	return c, nil
}

var (
	// leadingKey is the key that an error of a section begins with, indexes included.
	leadingKey = regexp.MustCompile(`^[a-z0-9_]+(\[\d+\])?(\.[a-z0-9_]+(\[\d+\])?)*`)
	// lastIndex is the place in a list that a key ends with.
	lastIndex = regexp.MustCompile(`\[\d+\]$`)
)

// checkTable reports what a table of the file holds that the struct does not, or in another type.
func checkTable(name string, table map[string]any, t reflect.Type, report func(key, what string)) {
	fields := tomlFields(t)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		full := strings.TrimPrefix(name+"."+key, ".")
		field, known := fields[key]
		_, isTable := table[key].(map[string]any)
		switch {
		case known:
			checkValue(full, table[key], field, report)
		case isTable:
			report(full, "unknown section"+hint(full))
		default:
			report(full, "unknown key"+hint(full))
		}
	}
}

// checkValue reports a value that does not have the type of its field.
func checkValue(key string, value any, t reflect.Type, report func(key, what string)) {
	want, ok := "", false
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[toml.Unmarshaler]()):
		err := reflect.New(t).Interface().(toml.Unmarshaler).UnmarshalTOML(value)
		if ok = err == nil; !ok {
			want = strings.TrimPrefix(err.Error(), "want ")
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		var tables []map[string]any
		if tables, ok = value.([]map[string]any); ok {
			for i, table := range tables {
				checkTable(fmt.Sprintf("%s[%d]", key, i), table, t.Elem(), report)
			}
		}
		want = "sections in two brackets: [[" + key + "]]"
	case t == reflect.TypeFor[time.Duration]():
		text, isText := value.(string)
		_, err := time.ParseDuration(text)
		want, ok = `a duration in quotes with its unit, like "250ms" or "1h30m"`, isText && err == nil
	case t.Kind() == reflect.Struct:
		var table map[string]any
		if table, ok = value.(map[string]any); ok {
			checkTable(key, table, t, report)
		}
		want = "a section"
	case t.Kind() == reflect.Map:
		var table map[string]any
		if table, ok = value.(map[string]any); ok {
			for _, k := range slices.Sorted(maps.Keys(table)) {
				checkValue(key+"."+k, table[k], t.Elem(), report)
			}
		}
		want = "a section"
	case t.Kind() == reflect.Slice:
		var list []any
		if list, ok = value.([]any); ok {
			for _, v := range list {
				checkValue(key, v, t.Elem(), report)
			}
		}
		want = "a list in brackets"
	case t.Kind() == reflect.String:
		_, ok = value.(string)
		want = "a text in quotes"
	case t.Kind() == reflect.Bool:
		_, ok = value.(bool)
		want = "true or false"
	case t.Kind() == reflect.Float64:
		_, ok = value.(float64)
		if !ok {
			_, ok = value.(int64)
		}
		want = "a number"
	default:
		_, ok = value.(int64)
		want = "a whole number"
	}
	if !ok {
		report(key, fmt.Sprintf("want %s, got %s", want, shown(value)))
	}
}

// shown is a value of the file as an error quotes it.
func shown(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "a section"
	case []map[string]any:
		return "a list of sections"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("%.100q", v)
	}
	return fmt.Sprint(value)
}

// tomlFields are the types of a struct's fields by key, those of embedded structs included.
func tomlFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous:
			maps.Copy(fields, tomlFields(f.Type))
		case f.Tag.Get("toml") != "" && f.Tag.Get("toml") != "-":
			fields[f.Tag.Get("toml")] = f.Type
		}
	}
	return fields
}

// placed gives an error of the parser its file, line and key.
func placed(path string, err error) error {
	var p toml.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", path, err)
	}
	key := p.LastKey
	if key == "" {
		key = "syntax"
	}
	return fmt.Errorf("%s:%d: %s: %s", path, p.Position.Line, key, p.Message)
}

// keyPlaces maps dotted keys to the lines where they are set.
type keyPlaces map[string]int

// keyLines finds the lines of keys: the parser tells them for syntax and types only. It reads what people write, one
// key a line below a [section]; of keys in inline tables it finds the table.
func keyLines(text string) keyPlaces {
	places := keyPlaces{}
	section := ""
	lists := map[string]int{} // sections in two brackets, by name
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(strings.SplitN(line, "]", 2)[0], "[ ")
			list, rest, _ := strings.Cut(section, ".")
			if strings.HasPrefix(line, "[[") {
				if lists[section]++; lists[section] == 1 {
					places[section] = n
				}
			}
			if count := lists[list]; count > 0 {
				section = strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", list, count-1, rest), ".")
			}
			if _, ok := places[section]; !ok {
				places[section] = n
			}
			continue
		}
		key, _, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		key = strings.Trim(strings.TrimSpace(key), `"'`)
		if section != "" {
			key = section + "." + key
		}
		if _, ok := places[key]; !ok {
			places[key] = n
		}
	}
	return places
}

// find returns the line of a key, or of the nearest table that holds it; 1 where the file says nothing of it.
func (p keyPlaces) find(key string) int {
	for key != "" {
		if line, ok := p[key]; ok {
			return line
		}
		if at := lastIndex.FindString(key); at != "" {
			key = strings.TrimSuffix(key, at)
			continue
		}
		i := strings.LastIndex(key, ".")
		if i < 0 {
			break
		}
		key = key[:i]
	}
	return 1
}

// hint adds what may have been meant, where the name exists in other sections.
func hint(name string) string {
	last := strings.ToLower(name[strings.LastIndex(name, ".")+1:])
	var known []string
	for key := range keyLines(DefaultFile) {
		if strings.HasSuffix("."+key, "."+last) {
			known = append(known, key)
		}
	}
	if _, ok := tomlFields(reflect.TypeFor[site.Entry]())[last]; ok {
		known = append(known, "site."+last)
	}
	if len(known) == 0 {
		return ""
	}
	slices.Sort(known)
	return fmt.Sprintf(" (there is %s)", strings.Join(known, ", "))
}

// Text is the configuration as a file of its own, without comments.
func (c Config) Text() string {
	var b strings.Builder
	e := toml.NewEncoder(&b)
	e.Indent = ""
	if err := e.Encode(c); err != nil {
		return "cannot be shown: " + err.Error()
	}
	return b.String()
}
