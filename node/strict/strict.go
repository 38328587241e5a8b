// Package strict reads TOML as a person who wrote it would want it read: keys that nobody knows, values of another type and
// durations without a unit are errors, and every error has its file, line and key. The parser by itself passes over the one, and takes
// the other for nanoseconds.
package strict

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

// File is a text that is being read, and what is wrong with it.
type File struct {
	// Raw is what the text holds, whatever is to be made of it.
	Raw map[string]any
	// Hint, if set, says more about a key that nobody knows; else the error lists those that are known beside it.
	Hint func(key string) string

	path, text string
	places     Places
	faults     map[int][]error
	faulty     map[string]bool
}

// Parse reads a text; path is only for errors.
func Parse(path, text string) (*File, error) {
	f := &File{path: path, text: strings.TrimPrefix(text, "\uFEFF"), faults: map[int][]error{}, faulty: map[string]bool{}}
	if _, err := toml.Decode(f.text, &f.Raw); err != nil {
		return nil, f.placed(err)
	}
	f.places = Lines(f.text)
	return f, nil
}

// Decode fills a struct, whose fields without a key in the text keep what they hold. Where the text does not fit, the struct may be filled in
// part, and Err says why.
func (f *File) Decode(to any) error {
	f.checkTable("", f.Raw, reflect.TypeOf(to).Elem())
	if _, err := toml.Decode(f.text, to); err != nil && len(f.faults) == 0 {
		return f.placed(err)
	}
	return nil
}

// Report notes what is wrong with a key, "nodes[1].count". Of a key that is wrong already nothing more is noted.
func (f *File) Report(key, what string) {
	list := key
	if strings.HasSuffix(key, "]") {
		list = key[:strings.LastIndexByte(key, '[')]
	}
	if !f.faulty[key] && !f.faulty[list] {
		f.report(key, what)
	}
}

func (f *File) report(key, what string) {
	f.faulty[key] = true
	line := f.places.Find(key)
	f.faults[line] = append(f.faults[line], fmt.Errorf("%s:%d: %s: %s", f.path, line, key, what))
}

// Err is all that is wrong, by lines.
func (f *File) Err() error {
	var errs []error
	for _, line := range slices.Sorted(maps.Keys(f.faults)) {
		errs = append(errs, f.faults[line]...)
	}
	return errors.Join(errs...)
}

// placed gives an error of the parser its file, line and key.
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

// checkTable reports what a table of the text holds that the struct does not, or in another type.
func (f *File) checkTable(name string, table map[string]any, t reflect.Type) {
	fields := Fields(t)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		full := strings.TrimPrefix(name+"."+key, ".")
		field, known := fields[key]
		if known {
			f.checkValue(full, table[key], field)
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

// checkValue reports a value that does not have the type of its field.
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
		_, ok = value.([]map[string]any) // what it is for knows the keys
		want = "sections in two brackets: [[" + key + "]]"
	case t == reflect.TypeFor[time.Duration]():
		text, isText := value.(string)
		_, err := time.ParseDuration(text)
		want, ok = `a duration in quotes with its unit, like "250ms" or "1h30m"`, isText && err == nil
	case kind == reflect.Interface:
		return // whoever takes it judges it
	case kind == reflect.Struct || kind == reflect.Map:
		var table map[string]any
		table, ok = value.(map[string]any)
		want = "a section"
		if kind == reflect.Struct {
			f.checkTable(key, table, t)
			break
		}
		for _, k := range slices.Sorted(maps.Keys(table)) {
			f.checkValue(key+"."+k, table[k], t.Elem())
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

// shown is a value of the text as an error quotes it.
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

// Fields are the types of a struct's fields by key, those of embedded structs included.
func Fields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		switch key := f.Tag.Get("toml"); {
		case f.Anonymous:
			maps.Copy(fields, Fields(f.Type))
		case key != "" && key != "-":
			fields[key] = f.Type
		}
	}
	return fields
}

// Places maps dotted keys to the lines where they are set.
type Places map[string]int

// Lines finds the lines of keys and sections, which the parser tells for syntax and types only. It reads what people write,
// one key a line below a [section] or [[section]], of which the third is section[2]; of keys in inline tables it finds the table.
func Lines(text string) Places {
	places, lists := Places{}, map[string]int{} // sections in two brackets, by name
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
			for list, count := range lists { // of [[a.b]] and what stands below it
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

// Find returns the line of a key, or of the nearest list or table that holds it; 1 where the text says nothing of it.
func (p Places) Find(key string) int {
	for key != "" {
		if line, ok := p[key]; ok {
			return line
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 1
}
