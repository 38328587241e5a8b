// Package strict reads TOML without ignoring mistakes. Unknown keys, values of a wrong type and durations without a unit are errors, and every
// error has file, line and key. The parser alone ignores unknown keys and takes numbers for nanoseconds.
// Set changes a key in a text of TOML, Text writes one, and HostPort reads an address.
package strict

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// File is a text that is being read, and its errors.
type File struct {
	// Raw has the values of the text by their keys.
	Raw map[string]any
	// Hint, if set, adds a suggestion to the error about an unknown key. Otherwise the error lists the known keys.
	Hint func(key string) string

	path, text string
	places     Places
	faults     map[int][]error
	faulty     map[string]bool
}

// Text returns a value as a file without comments.
func Text(v any) string {
	var b strings.Builder
	e := toml.NewEncoder(&b)
	e.Indent = ""
	if err := e.Encode(v); err != nil {
		return "# cannot be shown: " + err.Error()
	}
	return b.String()
}

// Parse reads a text. It uses path only in errors.
func Parse(path, text string) (*File, error) {
	f := &File{path: path, text: strings.TrimPrefix(text, "\uFEFF"), faults: map[int][]error{}, faulty: map[string]bool{}}
	if _, err := toml.Decode(f.text, &f.Raw); err != nil {
		return nil, f.placed(err)
	}
	f.places = Lines(f.text)
	return f, nil
}

// Flat returns the values of a text by dotted key, such as node.data. It quotes parts of keys that are not plain words.
func Flat(text string) (map[string]any, error) {
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	values := map[string]any{}
	var walk func(prefix string, table map[string]any)
	walk = func(prefix string, table map[string]any) {
		for key, v := range table {
			if strings.ContainsAny(key, ".:/ ") {
				key = strconv.Quote(key)
			}
			if inner, ok := v.(map[string]any); ok {
				walk(prefix+key+".", inner)
			} else {
				values[prefix+key] = v
			}
		}
	}
	walk("", tree)
	return values, nil
}

// Decode fills a struct. Fields whose key is missing in the text keep their values, and so do those whose value does not fit. Err says why.
func (f *File) Decode(to any) error {
	f.checkTable("", f.Raw, reflect.TypeOf(to).Elem())
	text := f.text
	if len(f.faults) > 0 {
		// The parser would stop at the first fault, and what comes after it would be reported as missing.
		if fit, err := toml.Marshal(f.Raw); err == nil {
			text = string(fit)
		}
	}
	if _, err := toml.Decode(text, to); err != nil && len(f.faults) == 0 {
		return f.placed(err)
	}
	return nil
}

// Has reports whether the text has a key in a line of its own.
func (f *File) Has(key string) bool {
	_, ok := f.places[key]
	return ok
}

// Report adds an error about a key, like "nodes[1].count", unless there already is one about it or something in it.
func (f *File) Report(key, what string) {
	list := key
	if strings.HasSuffix(key, "]") {
		list = key[:strings.LastIndexByte(key, '[')]
	}
	for faulty := range f.faulty {
		if faulty == key || faulty == list || strings.HasPrefix(faulty, key+".") {
			return
		}
	}
	f.report(key, what)
}

func (f *File) report(key, what string) {
	f.faulty[key] = true
	line := f.places.Find(key)
	f.faults[line] = append(f.faults[line], fmt.Errorf("%s:%d: %s: %s", f.path, line, key, what))
}

// Err returns all errors, by line.
func (f *File) Err() error {
	var errs []error
	for _, line := range slices.Sorted(maps.Keys(f.faults)) {
		errs = append(errs, f.faults[line]...)
	}
	return errors.Join(errs...)
}

// placed adds file, line and key to an error of the parser.
func (f *File) placed(err error) error {
	var p toml.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	key := p.LastKey
	if key == "" {
		key = "syntax"
	}
	return fmt.Errorf("%s:%d: %s: %s", f.path, p.Position.Line, key, p.Message)
}

// checkTable reports keys of a table that the struct does not have, and those that it has with another type, which it removes.
func (f *File) checkTable(name string, table map[string]any, t reflect.Type) {
	fields := Fields(t)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		full := strings.TrimPrefix(name+"."+key, ".")
		field, known := fields[key]
		if known {
			f.checkKey(full, table, key, field)
			continue
		}
		what := "unknown key"
		if _, isTable := table[key].(map[string]any); isTable {
			what = "unknown section"
		}
		if f.Hint != nil {
			what += f.Hint(full)
		} else {
			what += "; known are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
		}
		f.report(full, what)
	}
}

// checkKey reports a value of a table that has not the type of its field, and removes it.
func (f *File) checkKey(full string, table map[string]any, key string, t reflect.Type) {
	if f.checkValue(full, table[key], t); f.faulty[full] {
		delete(table, key)
	}
}

// checkValue reports a value that has not the type of its field.
func (f *File) checkValue(key string, value any, t reflect.Type) {
	want, ok := "", false
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[toml.Unmarshaler]()):
		err := reflect.New(t).Interface().(toml.Unmarshaler).UnmarshalTOML(value)
		if ok = err == nil; !ok {
			want = strings.TrimPrefix(err.Error(), "want ")
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Map:
		_, ok = value.([]map[string]any) // the reader of the field checks the keys
		want = "sections in two brackets: [[" + key + "]]"
	case t == reflect.TypeFor[time.Duration]():
		text, isText := value.(string)
		_, err := time.ParseDuration(text)
		want, ok = `a duration in quotes with its unit, like "250ms" or "1h30m"`, isText && err == nil
	case kind == reflect.Interface:
		return // the reader of the field checks it
	case kind == reflect.Struct || kind == reflect.Map:
		var table map[string]any
		table, ok = value.(map[string]any)
		want = "a section"
		if kind == reflect.Struct {
			f.checkTable(key, table, t)
			break
		}
		for _, k := range slices.Sorted(maps.Keys(table)) {
			f.checkKey(key+"."+k, table, k, t.Elem())
		}
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		var tables []map[string]any
		tables, ok = value.([]map[string]any)
		want = "sections in two brackets: [[" + key + "]]"
		for i, table := range tables {
			f.checkTable(fmt.Sprintf("%s[%d]", key, i), table, t.Elem())
		}
	case kind == reflect.Slice:
		var list []any
		list, ok = value.([]any)
		want = "a list in brackets"
		for _, v := range list {
			f.checkValue(key, v, t.Elem())
		}
	case kind == reflect.String:
		_, ok = value.(string)
		want = "a text in quotes"
	case kind == reflect.Bool:
		_, ok = value.(bool)
		want = "true or false"
	case kind == reflect.Float64:
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
		f.report(key, fmt.Sprintf("want %s, got %s", want, shown(value)))
	}
}

// shown returns a value as an error quotes it.
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

// Fields returns the types of a struct's fields by key, including those of embedded structs.
func Fields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("toml"); key != "" && key != "-" {
			fields[key] = f.Type
		}
	}
	return fields
}

// Places maps dotted keys to the lines where they are set.
type Places map[string]int

// Lines returns the lines of keys and sections. The parser gives them only for errors of syntax and type. Lines expects one key per line below
// a [section] or [[section]]; the third [[section]] is section[2]. For keys in inline tables it returns the line of the table.
func Lines(text string) Places {
	places, lists := Places{}, map[string]int{} // lists counts the [[sections]] by name
	section, n := "", 0
	note := func(key string) {
		if _, ok := places[key]; !ok {
			places[key] = n
		}
	}
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(strings.SplitN(line, "]", 2)[0], "[ ")
			if strings.HasPrefix(line, "[[") {
				lists[section]++
				note(section)
			}
			for list, count := range lists { // the name may be [[a.b]] or below it
				if rest, ok := strings.CutPrefix(section+".", list+"."); ok {
					section = strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", list, count-1, rest), ".")
				}
			}
			note(section)
			continue
		}
		key, _, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		note(strings.TrimPrefix(section+"."+strings.Trim(strings.TrimSpace(key), `"'`), "."))
	}
	return places
}

// Find returns the line of a key, or else of the list or table that has it, or else 1.
func (p Places) Find(key string) int {
	for key != "" {
		if line, ok := p[key]; ok {
			return line
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 1
}
