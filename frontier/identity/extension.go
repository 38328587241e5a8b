package identity

import (
	"fmt"
	"strings"
)

// CheckExtensions reports what is no extension of a file.
func CheckExtensions(list []string) error {
	for _, e := range list {
		if name := strings.TrimPrefix(e, "."); name == "" || len(name) > 32 || strings.ContainsAny(name, "./?*# ") {
			return fmt.Errorf("%q is no extension", e)
		}
	}
	return nil
}

// Extension is that of the last segment of a path, in lower case and without the dot; "" where there is none.
func Extension(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path = path[strings.LastIndexByte(path, '/')+1:]
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return ""
	}
	return strings.ToLower(path[i+1:])
}
