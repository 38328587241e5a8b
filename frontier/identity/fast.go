package identity

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// What happens to a byte of a path or a query.
const (
	refuse = iota // left to the parser: controls, backslash, and the characters that end the part
	keep          // kept
	encode        // percent-encoded
	dot           // kept, but may begin a dot segment
)

// The tables follow the path and the special-query percent-encode sets of the standard. The caret is left to the parser, because
// versions of the standard differ on it.
var (
	pathClass  = classes("!$&'()*+,-/:;=@[]_|~", " \"<>`{}", ".%")
	queryClass = classes("!$%&()*+,-./:;=?@[\\]_`{|}~", " \"'<>", "")
)

func classes(kept, encoded, dots string) (table [256]uint8) {
	for c := range table {
		switch b := byte(c); {
		case 'a' <= b|0x20 && b|0x20 <= 'z', '0' <= b && b <= '9', strings.IndexByte(kept, b) >= 0:
			table[c] = keep
		case c >= utf8.RuneSelf, strings.IndexByte(encoded, b) >= 0:
			table[c] = encode
		case strings.IndexByte(dots, b) >= 0:
			table[c] = dot
		}
	}
	return table
}

// fast resolves a trimmed link by cutting strings, without the parser. If it is not certain of the result, ok is false. The base is an
// identity or zero.
func fast(base URL, ref string) (u URL, reason Reason, ok bool) {
	if at := schemeEnd(ref); at > 0 {
		scheme := ref[:at]
		if scheme != "http" && scheme != "https" || !strings.HasPrefix(ref[at:], "://") {
			return URL{}, "", false
		}
		return fastAuthority(scheme, "", ref, at+3)
	}
	if base.Host == "" {
		return URL{}, "", false
	}
	if ref == "" {
		return base, Accepted, true
	}
	u = URL{Host: base.Host}
	path, _, _ := strings.Cut(base.Path, "?")
	switch ref[0] {
	case '/':
		if strings.HasPrefix(ref, "//") {
			scheme := base.Scheme()
			return fastAuthority(scheme, scheme+":", ref, 2)
		}
		u.Path, ok = fastPath("", ref)
	case '?':
		u.Path, ok = fastPath(path, ref)
	default:
		dir, rest := climb(path[:strings.LastIndexByte(path, '/')+1], ref)
		u.Path, ok = fastPath(dir, rest)
	}
	return u, Accepted, ok
}

// schemeEnd returns the position of the colon after the scheme of a link; 0 if it has no scheme.
func schemeEnd(ref string) int {
	for i := range len(ref) {
		switch c := ref[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':':
			return i
		default:
			return 0
		}
	}
	return 0
}

// fastAuthority resolves a URL whose authority begins at ref[at]. The host is lead, and then ref from its beginning.
func fastAuthority(scheme, lead, ref string, at int) (URL, Reason, bool) {
	s := ref[at:]
	end := nameEnd(s)
	if end == 0 {
		return URL{}, "", false
	}
	host := end
	if end < len(s) && s[end] == ':' {
		start, port := end+1, 0
		for end = start; end < len(s) && '0' <= s[end] && s[end] <= '9' && port <= 0xffff; end++ {
			port = port*10 + int(s[end]-'0')
		}
		switch {
		case end == start:
			// A colon without a port is dropped.
		case s[start] == '0' || port > 0xffff:
			return URL{}, "", false
		case scheme == "http" && port != 80, scheme == "https" && port != 443:
			host = end
		}
	}
	u := URL{Host: lead + ref[:at+host]}
	rest, ok := s[end:], true
	switch {
	case rest == "":
		u.Path = "/"
	case rest[0] == '/':
		u.Path, ok = fastPath("", rest)
	case rest[0] == '?':
		u.Path, ok = fastPath("/", rest)
	default:
		return URL{}, "", false
	}
	return u, Accepted, ok
}

// nameEnd returns the length of the name or IPv4 address in normal form that s begins with. It returns 0 if there is none, or one that
// the parser must judge: Punycode, addresses in unusual forms, labels with unusual hyphens.
func nameEnd(s string) int {
	label, end := 0, 0
	for end < len(s) {
		c := s[end]
		if c == '.' {
			if !plainLabel(s[label:end]) {
				return 0
			}
			label = end + 1
		} else if ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' {
			break
		}
		end++
	}
	if end > 253 || !plainLabel(s[label:end]) {
		return 0
	}
	if c := s[label]; c <= '9' {
		if ip, err := netip.ParseAddr(s[:end]); err != nil || !ip.Is4() {
			return 0
		}
	}
	return end
}

func plainLabel(label string) bool {
	n := len(label)
	return n > 0 && n <= 63 && label[0] != '-' && label[n-1] != '-' && (n < 4 || label[2:4] != "--")
}

// climb follows the dot segments at the beginning of a relative link. It returns the directory they lead to and the rest.
func climb(dir, ref string) (string, string) {
	for ref != "" && ref[0] == '.' {
		dots := 1
		if len(ref) > 1 && ref[1] == '.' {
			dots = 2
		}
		ends := len(ref) == dots || ref[dots] == '?'
		if !ends && ref[dots] != '/' {
			break
		}
		if dots == 2 && len(dir) > 1 {
			dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
		}
		ref = ref[dots:]
		if ends {
			break
		}
		ref = ref[1:]
	}
	return dir, ref
}

// fastPath brings a path with its query, or a part of one, into normal form and appends it to dir, which is already in normal form. If it
// has dot segments or bytes that the parser must judge, ok is false.
func fastPath(dir, s string) (path string, ok bool) {
	query, encoding, ok := scan(s)
	if !ok {
		return "", false
	}
	if query == len(s)-1 {
		s = s[:query]
	}
	if !encoding {
		return dir + s, true
	}
	// Text that is not UTF-8 is left to the parser.
	if !utf8.ValidString(s) {
		return "", false
	}
	const hex = "0123456789ABCDEF"
	var stack [512]byte
	b := append(stack[:0], dir...)
	class := &pathClass
	for i := range len(s) {
		if i == query {
			class = &queryClass
		}
		if c := s[i]; class[c] == encode {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b), true
}

// scan looks through a path with its query. It returns the position of the question mark or of the end, and whether bytes need encoding.
func scan(s string) (query int, encoding, ok bool) {
path:
	for query < len(s) {
		switch pathClass[s[query]] {
		case refuse:
			if s[query] == '?' {
				break path
			}
			return 0, false, false
		case encode:
			encoding = true
		case dot:
			if (query == 0 || s[query-1] == '/') && dotSegment(s[query:]) {
				return 0, false, false
			}
		}
		query++
	}
	for i := query; i < len(s); i++ {
		if class := queryClass[s[i]]; class != keep {
			if class == refuse {
				return 0, false, false
			}
			encoding = true
		}
	}
	return query, encoding, true
}

// dotSegment says whether the first segment of s is one or two dots, each written as itself or as %2e.
func dotSegment(s string) bool {
	dots := 0
	for s != "" && s[0] != '/' && s[0] != '?' {
		switch {
		case s[0] == '.':
			s = s[1:]
		case len(s) >= 3 && s[0] == '%' && s[1] == '2' && s[2]|0x20 == 'e':
			s = s[3:]
		default:
			return false
		}
		dots++
	}
	return dots == 1 || dots == 2
}
