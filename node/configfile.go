package node

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"proxima/node/site"
	"proxima/node/strict"
)

// DefaultFile is the default configuration, with every key explained. go generate writes it from the fields of Config and their comments.
//
//go:generate go run -C .. ./scripts/generate
//go:embed default.toml
var DefaultFile string

// Load reads a configuration file over the defaults. Each error has file, line and key. Load returns all errors that it finds.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, string(text))
}

// Parse is Load for a text. It uses path only in errors.
func Parse(path, text string) (Config, error) {
	c := Default()
	f, err := strict.Parse(path, text)
	if err != nil {
		return Config{}, err
	}
	f.Hint = hint
	if member, ok := f.Raw["member"].(map[string]any); ok {
		switch by := member["faster"].(type) {
		case float64:
			c.Hasten(by)
		case int64:
			c.Hasten(float64(by))
		}
	}
	if err := f.Decode(&c); err != nil {
		return Config{}, err
	}
	for _, err := range c.Validate() {
		key := leadingKey.FindString(err.Error())
		f.Report(key, strings.TrimLeft(strings.TrimPrefix(err.Error(), key), ": "))
	}
	if err := f.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// leadingKey matches the key at the beginning of an error, with its indexes.
var leadingKey = regexp.MustCompile(`^[a-z0-9_]+(\[\d+\])?(\.[a-z0-9_]+(\[\d+\])?)*`)

// hint suggests keys that an unknown key may stand for: those of the same name in other sections, or a similar one.
func hint(name string) string {
	last := strings.ToLower(name[strings.LastIndex(name, ".")+1:])
	var known []string
	for key := range strict.Lines(DefaultFile) {
		if strings.HasSuffix("."+key, "."+last) {
			known = append(known, key)
		}
	}
	if _, ok := strict.Fields(reflect.TypeFor[site.Entry]())[last]; ok {
		known = append(known, "site."+last)
	}
	known = slices.DeleteFunc(known, func(key string) bool { return key == name }) // proxima ctl set has no keys of sites
	if near := nearKey(name); near != "" && near != name && (len(known) == 0 || strings.HasPrefix(name, "site[")) {
		return " (did you mean " + near + "?)"
	}
	if len(known) == 0 {
		return ""
	}
	slices.Sort(known)
	return fmt.Sprintf(" (there is %s)", strings.Join(known, ", "))
}

// nearKey returns the key or section that is most similar to an unknown key. It returns "" if a part of the key is similar to nothing.
func nearKey(name string) string {
	t := reflect.TypeFor[Config]()
	parts := strings.Split(name, ".")
	for i, part := range parts {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return "" // there is nothing below a key
		}
		key, _, _ := strings.Cut(part, "[") // "site[0]"
		fields := strict.Fields(t)
		near := key
		if fields[key] == nil {
			near = strict.Nearest(key, slices.Sorted(maps.Keys(fields)))
		}
		if near == "" {
			return ""
		}
		parts[i], t = near+part[len(key):], fields[near]
	}
	return strings.Join(parts, ".")
}

// Text returns the configuration as a file without comments.
func (c Config) Text() string { return strict.Text(c) }
