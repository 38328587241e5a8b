package robots

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"
)

// file is what a robots.txt says to one agent.
type file struct {
	named     said // in groups that name the agent
	everybody said // in groups for `*`
	sitemaps  []string
}

// said is what all groups for one agent say together: several groups count as one (RFC 9309 section 2.2.1).
type said struct {
	seen  bool
	rules []rule
	delay time.Duration
}

// read parses a robots.txt. It knows the keys in any case, with the usual misspellings. Only Allow and Disallow end a run of
// User-agent lines (section 2.2.4): rules are for all agents of that run. A Crawl-delay is only for those just above it.
func read(body []byte, agent string) file {
	var f file
	var group, above []*said // whom the next rule and the next Crawl-delay concern
	var ruled, delayed bool  // a rule, or a Crawl-delay, was read since the last User-agent line
	for body = head(body); len(body) > 0; {
		var line []byte
		line, body = cutLine(body)
		key, value := cutField(line)
		key = key[:min(len(key), maxKey)]
		switch name := strings.ToLower(string(key)); name {
		case "user-agent", "useragent", "user agent":
			switch {
			case ruled:
				group, above = nil, nil
			case delayed:
				above = nil
			}
			ruled, delayed = false, false
			var to *said
			if isEverybody(value) {
				to = &f.everybody
			} else if names(value, agent) {
				to = &f.named
			} else {
				continue
			}
			to.seen = true
			group, above = with(group, to), with(above, to)
		case "allow", "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
			ruled = true
			for _, to := range group {
				to.addRule(value, name == "allow")
			}
		case "crawl-delay", "crawldelay", "crawl delay":
			delayed = true
			for _, to := range above {
				to.delay = max(to.delay, parseDelay(string(value)))
			}
		case "sitemap", "site-map":
			if len(value) > 0 && len(f.sitemaps) < MaxSitemaps {
				f.sitemaps = append(f.sitemaps, string(value))
			}
		}
	}
	return f
}

// with adds to unless the list has it.
func with(list []*said, to *said) []*said {
	if slices.Contains(list, to) {
		return list
	}
	return append(list, to)
}

// addRule adds a rule and the one that it implies. An empty path is no rule.
func (s *said) addRule(path []byte, allow bool) {
	if len(path) == 0 {
		return
	}
	l := newRule(string(path), allow)
	s.rules = append(s.rules, l)
	if dir, ok := l.directory(); ok {
		s.rules = append(s.rules, dir)
	}
}

// head returns the whole lines within the first MaxBytes of body in UTF-8, without a byte order mark, of which a broken editor may have
// left only the first octets. It drops the line that MaxBytes cuts, since half an Allow would allow too much.
func head(body []byte) []byte {
	if wide := body[:min(len(body), MaxBytes)]; bytes.HasPrefix(wide, []byte("\xff\xfe")) || bytes.HasPrefix(wide, []byte("\xfe\xff")) {
		text, _ := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(wide) // it reads anything
		if len(body) > MaxBytes {
			text = text[:bytes.LastIndexAny(text, "\r\n")+1]
		}
		return text
	}
	if len(body) > MaxBytes {
		next := body[MaxBytes]
		body = body[:MaxBytes]
		if next != '\n' && next != '\r' {
			body = body[:bytes.LastIndexAny(body, "\r\n")+1]
		}
	}
	for _, mark := range []byte("\xef\xbb\xbf") {
		if len(body) == 0 || body[0] != mark {
			break
		}
		body = body[1:]
	}
	return body
}

// cutLine splits off the first line. CR, LF and CR LF end a line; after CR LF an empty line follows.
func cutLine(body []byte) (line, rest []byte) {
	if i := bytes.IndexAny(body, "\r\n"); i >= 0 {
		return body[:i], body[i+1:]
	}
	return body, nil
}

// cutField returns key and value of a line without its comment. White space between two words may stand for the colon.
func cutField(line []byte) (key, value []byte) {
	line, _, _ = bytes.Cut(line, []byte("#"))
	key, value, found := bytes.Cut(line, []byte(":"))
	if !found {
		words := bytes.Fields(line)
		if len(words) != 2 {
			return nil, nil
		}
		return words[0], words[1]
	}
	return trim(key), trim(value)
}

// trim drops only ASCII white space, since other octets may be part of a path in an unknown encoding.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\v\f") }

// maxKey is longer than the longest known key; it bounds what is copied of others.
const maxKey = len("crawl-delay") + 1

// isEverybody reports whether the value of a User-agent line is `*`, alone or before white space.
func isEverybody(value []byte) bool {
	return len(value) > 0 && value[0] == '*' && (len(value) == 1 || value[1] == ' ' || value[1] == '\t')
}

// names reports whether the value of a User-agent line names the agent, without regard to case. The product token ends at the
// first octet that cannot be part of one ("foobot/2.1", "Foobot beta"). RFC 9309 allows letters, `-` and `_`; digits and dots count
// here as well, since whoever writes "foo2" does not mean "foo".
func names(value []byte, agent string) bool {
	end := 0
	for end < len(value) && isTokenOctet(value[end]) {
		end++
	}
	return end > 0 && strings.EqualFold(string(value[:end]), agent)
}

func isTokenOctet(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// parseDelay reads seconds with fractions, also with a comma or a unit ("0,5", "10s"). Anything but a positive finite number is no delay.
func parseDelay(value string) time.Duration {
	number, _, _ := strings.Cut(strings.Replace(strings.ToLower(value), ",", ".", 1), " ")
	seconds, err := strconv.ParseFloat(strings.TrimRight(number, "second"), 64)
	if err != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, MaxCrawlDelay.Seconds()) * float64(time.Second))
}
