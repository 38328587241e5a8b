package fetch

import "strings"

// mediaType returns the one that counts of several Content-Types, as browsers choose it: the last that names a type, unless one of the same type
// before it has a charset that it lacks (Fetch standard, "extract a MIME type"). It returns "" if none names a type.
func mediaType(values []string) (best string) {
	name := func(value string) string {
		kind, _, _ := strings.Cut(value, ";")
		return strings.ToLower(strings.TrimSpace(kind))
	}
	hasCharset := func(value string) bool { return strings.Contains(strings.ToLower(value), "charset") }
	for value := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if kind := name(value); CheckTypes([]string{kind}) == nil && (kind != name(best) || hasCharset(value) || !hasCharset(best)) {
			best = strings.TrimSpace(value)
		}
	}
	return best
}
