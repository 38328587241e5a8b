package testbed

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Set is a scenario's text with one key changed, as "length=3h" or "node.batch.candidate.theta-15.window=20": an element of a list is
// meant by its name or its number.
func Set(text, setting string) (string, error) {
	key, value, ok := strings.Cut(setting, "=")
	if !ok || key == "" {
		return "", fmt.Errorf("set %q: it is not of the form key=value", setting)
	}
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		return "", fmt.Errorf("set %q: %w", setting, err)
	}
	path := strings.Split(key, ".")
	at := tree
	for i := 0; i < len(path)-1; i++ {
		switch next := at[path[i]].(type) {
		case nil:
			fresh := map[string]any{}
			at[path[i]], at = fresh, fresh
		case map[string]any:
			at = next
		case []map[string]any:
			if i++; i == len(path)-1 {
				return "", fmt.Errorf("set %q: no key of %s is named", setting, strings.Join(path, "."))
			}
			if at = element(next, path[i]); at == nil {
				return "", fmt.Errorf("set %q: there is no %s", setting, strings.Join(path[:i+1], "."))
			}
		default:
			return "", fmt.Errorf("set %q: %s is no table", setting, strings.Join(path[:i+1], "."))
		}
	}
	at[path[len(path)-1]] = parsed(value)
	var b strings.Builder
	if err := toml.NewEncoder(&b).Encode(tree); err != nil {
		return "", fmt.Errorf("set %q: %w", setting, err)
	}
	return b.String(), nil
}

// element is the one with a name or a number, nil if there is none.
func element(list []map[string]any, which string) map[string]any {
	for i, one := range list {
		if one["name"] == which || strconv.Itoa(i) == which {
			return one
		}
	}
	return nil
}

// parsed is a value as TOML reads it; what is none, such as 3h or nearest, is a text.
func parsed(value string) any {
	var v struct{ V any }
	if _, err := toml.Decode("V = "+value, &v); err != nil {
		return value
	}
	return v.V
}
