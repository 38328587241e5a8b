package warc

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// entry has the fields of a line of a CDXJ index that are known before the records are written to a file, in warcio's order and form.
type entry struct {
	URL    string `json:"url"`
	Mime   string `json:"mime,omitempty"`
	Status string `json:"status"`
	Digest string `json:"digest"`
	Length string `json:"length"`
}

// IndexLine completes a line of a CDXJ index for records at an offset of a file, newline included. Sort an index by the bytes of its
// lines.
func IndexLine(index string, offset int64, file string) string {
	return index + `,"offset":"` + strconv.FormatInt(offset, 10) + `","filename":` + quoted(file) + "}\n"
}

// indexOf starts the line of an exchange. length is that of the first record, in bytes.
func indexOf(ex *Exchange, uri, digest string, length int, revisit bool) string {
	e := entry{URL: uri, Mime: "warc/revisit", Length: strconv.Itoa(length)}
	if !revisit {
		e.Mime = contentType(ex.ResponseHead)
	}
	if words := strings.Fields(string(ex.ResponseHead[:bytes.IndexByte(ex.ResponseHead, '\r')])); len(words) > 1 {
		e.Status = words[1]
	}
	_, e.Digest, _ = strings.Cut(digest, ":")
	text := quoted(e)
	return surt(uri) + " " + ex.Time.UTC().Format("20060102150405") + " " + text[:len(text)-1]
}

// quoted encodes a value as JSON without escapes for HTML.
func quoted(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings cannot fail
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// contentType returns the value of the Content-Type header without parameters.
func contentType(head []byte) string {
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(bytes.TrimSpace(name), []byte("content-type")) {
			value, _, _ = bytes.Cut(value, []byte(";"))
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// surt returns the sort key of a URL in an index: "http://www.example.org/b?y&x" becomes "org,example)/b?x&y". For http and https it is
// what warcio makes of the URL; any other URL is its own key.
func surt(uri string) string {
	// The path and the query stay as they are: their escapes need not be valid.
	rest, query, _ := strings.Cut(strings.ToLower(uri), "?")
	scheme, rest, _ := strings.Cut(rest, "://")
	authority, path, _ := strings.Cut(rest, "/")
	u, err := url.Parse(scheme + "://" + authority)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return strings.ReplaceAll(uri, " ", "%20")
	}
	host := strings.TrimSuffix(u.Host, ":"+u.Port())
	if rest, ok := strings.CutPrefix(host, "www"); ok {
		if rest, ok = strings.CutPrefix(strings.TrimLeft(rest, "0123456789"), "."); ok {
			host = rest
		}
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	key := strings.Join(labels, ",")
	if port := u.Port(); port != "" && (u.Scheme != "http" || port != "80") && (u.Scheme != "https" || port != "443") {
		key += ":" + port
	}
	key += ")/" + path
	if query != "" {
		words := strings.Split(query, "&")
		slices.Sort(words)
		key += "?" + strings.Join(words, "&")
	}
	return key
}
