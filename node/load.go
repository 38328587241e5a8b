package node

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/BurntSushi/toml"
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
	c := Default()
	meta, err := toml.Decode(text, &c)
	if err != nil {
		return Config{}, placed(path, text, err)
	}
	lines := keyLines(text)
	var errs []error
	for _, key := range meta.Undecoded() {
		name := key.String()
		errs = append(errs, fmt.Errorf("%s:%d: %s: unknown key%s", path, lines.find(name), name, hint(name, lines)))
	}
	for _, err := range c.Validate() {
		name, _, _ := strings.Cut(err.Error(), ": ")
		name, _, _ = strings.Cut(name, "[")
		errs = append(errs, fmt.Errorf("%s:%d: %w", path, lines.find(name), err))
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	return c, nil
}

// placed gives an error of the parser its file, line and key.
func placed(path, text string, err error) error {
	var p toml.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("%s: %w", path, err)
	}
	what := p.Message
	if what == "" {
		// Wrong types carry their message only in the text of the error: "toml: line 3 (last key "a.b"): what".
		if _, rest, ok := strings.Cut(p.Error(), "): "); ok {
			what = rest
		} else {
			what = p.Error()
		}
	}
	key := p.LastKey
	if key == "" {
		key = "syntax"
	}
	return fmt.Errorf("%s:%d: %s: %s", path, p.Position.Line, key, what)
}

// keyPlaces maps dotted keys to the lines where they are set.
type keyPlaces map[string]int

// keyLines finds the lines of keys: the parser tells them for syntax and types only. It reads what people write, one
// key a line below a [section]; of keys in inline tables it finds the table.
func keyLines(text string) keyPlaces {
	places := keyPlaces{}
	section := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(strings.SplitN(line, "]", 2)[0], "[ ")
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
		i := strings.LastIndex(key, ".")
		if i < 0 {
			break
		}
		key = key[:i]
	}
	return 1
}

// hint adds what may have been meant, where the key exists in another section.
func hint(name string, _ keyPlaces) string {
	last := name[strings.LastIndex(name, ".")+1:]
	for known := range keyLines(DefaultFile) {
		if strings.HasSuffix(known, "."+last) {
			return fmt.Sprintf(" (there is %s)", known)
		}
	}
	return ""
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
