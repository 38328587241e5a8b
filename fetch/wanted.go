package fetch

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// CheckAgent reports what is no product token, nor product/version.
func CheckAgent(agent string) error {
	product, version, _ := strings.Cut(agent, "/")
	if !httpguts.ValidHeaderFieldName(product) || version != "" && !httpguts.ValidHeaderFieldName(version) {
		return fmt.Errorf("%q: want a product token, or product/version", agent)
	}
	return nil
}

// CheckTypes reports what is neither a media type like "text/html" nor a range of them like "text/*".
func CheckTypes(types []string) error {
	for _, t := range types {
		main, sub, ok := strings.Cut(t, "/")
		if !ok || !httpguts.ValidHeaderFieldName(main) || !httpguts.ValidHeaderFieldName(sub) || main == "*" {
			return fmt.Errorf("%q is no media type", t)
		}
	}
	return nil
}
