package journal

import (
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// Bounds of a string in a fetch line, in bytes before escaping.
const (
	maxURL  = 8 << 10
	maxText = 1 << 10
)

const timeForm = "2006-01-02T15:04:05.000Z"

// stamp writes the times of lines. Most lines fall into the second of the line before, whose text it keeps. Not safe for
// concurrent use; the zero value is ready.
type stamp struct {
	second int64
	text   []byte // of the second, down to the point
}

func (s *stamp) append(b []byte, t time.Time) []byte {
	if sec := t.Unix(); sec != s.second || s.text == nil {
		s.text = t.UTC().AppendFormat(s.text[:0], timeForm[:len(timeForm)-len("000Z")])
		s.second = sec
	}
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append(append(b, '"'), s.text...)
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}

// fetchKeys are the keys of a fetch line behind those of Line, each with what comes before its value: `,"url":`.
var fetchKeys = func() (keys []string) {
	t := reflect.TypeFor[Fetch]()
	for i := 1; i < t.NumField(); i++ {
		keys = append(keys, `,"`+t.Field(i).Tag.Get("json")+`":`)
	}
	return keys
}()

// append adds the keys of a fetch line behind those of Line. There is one for each page: encoding/json takes five times as long.
func (f *Fetch) append(b []byte) []byte {
	fields, most := reflect.ValueOf(f).Elem(), maxURL
	for i, key := range fetchKeys {
		b = append(b, key...)
		switch v := fields.Field(i + 1); v.Kind() {
		case reflect.String:
			b = appendString(b, clip(v.String(), most))
		case reflect.Float64:
			b = appendMs(b, v.Float())
		case reflect.Bool:
			b = strconv.AppendBool(b, v.Bool())
		case reflect.Uint64:
			b = strconv.AppendUint(b, v.Uint(), 10)
		default:
			b = strconv.AppendInt(b, v.Int(), 10)
		}
		most = maxText // the first is the URL
	}
	return b
}

// appendMs writes up to three decimals, without trailing zeros.
func appendMs(b []byte, ms float64) []byte {
	us := math.Round(ms * 1000)
	if !(math.Abs(us) < 1<<53) { // too large for an exact integer, or not a number
		if math.IsNaN(ms) || math.IsInf(ms, 0) {
			return append(b, '0')
		}
		return strconv.AppendFloat(b, ms, 'g', -1, 64)
	}
	n := int64(us)
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = strconv.AppendInt(b, n/1000, 10)
	if n %= 1000; n == 0 {
		return b
	}
	b = append(b, '.', byte('0'+n/100))
	if n %= 100; n != 0 {
		b = append(b, byte('0'+n/10))
		if n %= 10; n != 0 {
			b = append(b, byte('0'+n))
		}
	}
	return b
}

// clip is the longest beginning of s with at most n bytes that does not cut a character in two.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(s[n]) {
			break
		}
		n--
	}
	return s[:n]
}

// appendString writes s as encoding/json does without its escapes for HTML: what is not UTF-8 becomes U+FFFD, and the
// line separators of JavaScript are escaped.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(append(b, s[done:i]...), '\\')
			switch c {
			case '"', '\\':
				b = append(b, c)
			case '\b':
				b = append(b, 'b')
			case '\f':
				b = append(b, 'f')
			case '\n':
				b = append(b, 'n')
			case '\r':
				b = append(b, 'r')
			case '\t':
				b = append(b, 't')
			default:
				b = append(b, 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[done:i]...), `\ufffd`...)
			done = i + size
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[done:i]...), `\u202`...)
			b = append(b, hex[r&15])
			done = i + size
		}
		i += size
	}
	return append(append(b, s[done:]...), '"')
}
