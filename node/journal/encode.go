package journal

import (
	"math"
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

// append adds the keys of a fetch line behind those of Line.
func (f *Fetch) append(b []byte) []byte {
	b = appendString(append(b, `,"`+KeyURL+`":`...), clip(f.URL, maxURL))
	b = appendString(append(b, `,"`+KeyHost+`":`...), clip(f.Host, maxText))
	b = appendString(append(b, `,"`+KeyServer+`":`...), clip(f.Server, maxText))
	b = appendString(append(b, `,"`+KeyKind+`":`...), clip(f.Kind, maxText))
	b = strconv.AppendInt(append(b, `,"`+KeyStatus+`":`...), int64(f.Status), 10)
	b = appendString(append(b, `,"`+KeyError+`":`...), clip(f.Error, maxText))
	b = appendString(append(b, `,"`+KeyReason+`":`...), clip(f.Reason, maxText))
	b = strconv.AppendInt(append(b, `,"`+KeyBytes+`":`...), f.Bytes, 10)
	b = strconv.AppendInt(append(b, `,"`+KeyBodyBytes+`":`...), f.BodyBytes, 10)
	b = appendString(append(b, `,"`+KeyType+`":`...), clip(f.Type, maxText))
	b = appendMs(append(b, `,"`+KeyDNSMs+`":`...), f.DNSMs)
	b = appendMs(append(b, `,"`+KeyConnectMs+`":`...), f.ConnectMs)
	b = appendMs(append(b, `,"`+KeyTLSMs+`":`...), f.TLSMs)
	b = appendMs(append(b, `,"`+KeyRequestMs+`":`...), f.RequestMs)
	b = appendMs(append(b, `,"`+KeyFirstByteMs+`":`...), f.FirstByteMs)
	b = appendMs(append(b, `,"`+KeyLastByteMs+`":`...), f.LastByteMs)
	b = appendMs(append(b, `,"`+KeyTotalMs+`":`...), f.TotalMs)
	b = strconv.AppendBool(append(b, `,"`+KeyFresh+`":`...), f.Fresh)
	b = appendString(append(b, `,"`+KeyProtocol+`":`...), clip(f.Protocol, maxText))
	b = appendMs(append(b, `,"`+KeyWaitedMs+`":`...), f.WaitedMs)
	b = appendString(append(b, `,"`+KeyOrigin+`":`...), clip(f.Origin, maxText))
	b = appendString(append(b, `,"`+KeyLabel+`":`...), clip(f.Label, maxText))
	b = appendString(append(b, `,"`+KeyBatch+`":`...), clip(f.Batch, maxText))
	b = appendString(append(b, `,"`+KeyHome+`":`...), clip(f.Home, maxText))
	b = strconv.AppendUint(append(b, `,"`+KeyEpoch+`":`...), f.Epoch, 10)
	b = strconv.AppendInt(append(b, `,"`+KeyAttempt+`":`...), int64(f.Attempt), 10)
	b = strconv.AppendInt(append(b, `,"`+KeyDepth+`":`...), int64(f.Depth), 10)
	b = strconv.AppendInt(append(b, `,"`+KeyHops+`":`...), int64(f.Hops), 10)
	b = strconv.AppendInt(append(b, `,"`+KeyLinks+`":`...), int64(f.Links), 10)
	return strconv.AppendInt(append(b, `,"`+KeyAccepted+`":`...), int64(f.Accepted), 10)
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
