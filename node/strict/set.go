package strict

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Set changes one key in a text of TOML, such as "length=3h" or "node.batch.candidate.theta-15.window=20". Elements of lists are identified by
// their name or their number.
func Set(text, setting string) (string, error) {
	key, value, ok := strings.Cut(setting, "=")
	if !ok || key == "" {
		return "", fmt.Errorf("set %q: it does not have the form key=value", setting)
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
				return "", fmt.Errorf("set %q: a key of %s is missing", setting, strings.Join(path, "."))
			}
			if at = element(next, path[i]); at == nil {
				return "", fmt.Errorf("set %q: there is no %s", setting, strings.Join(path[:i+1], "."))
			}
		default:
			return "", fmt.Errorf("set %q: %s is not a table", setting, strings.Join(path[:i+1], "."))
		}
	}
	at[path[len(path)-1]] = parsed(value)
	var b strings.Builder
	if err := toml.NewEncoder(&b).Encode(tree); err != nil {
		return "", fmt.Errorf("set %q: %w", setting, err)
	}
	return b.String(), nil
}

// element returns the element with a name or a number, or nil.
func element(list []map[string]any, which string) map[string]any {
	for i, one := range list {
		if one["name"] == which || strconv.Itoa(i) == which {
			return one
		}
	}
	return nil
}

// parsed reads a value as TOML. What is not valid TOML, such as 3h or nearest, is a string.
func parsed(value string) any {
	var v struct{ V any }
	if _, err := toml.Decode("V = "+value, &v); err != nil {
		return value
	}
	return v.V
}
