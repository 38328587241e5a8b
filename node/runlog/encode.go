package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a string in a fetch line, in bytes before escaping.
const (
	maxURL  = 8 << 10
	maxText = 1 << 10
)

// pairs encodes the keys of a line other than those of Line: `"key":value,…`.
func pairs(e Entry) ([]byte, error) {
	*e.line() = Line{}
	all, err := encode(e)
	if err != nil {
		return nil, err
	}
	_, rest, _ := bytes.Cut(all, []byte(`"`+KeyTime+`":"0001-01-01T00:00:00Z",`)) // the last key of Line
	return bytes.TrimSuffix(rest, []byte("}")), nil
}

// encode encodes a value as JSON without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// fetchKeys are the keys of a fetch line other than those of Line, each with what stands before its value: `,"url":`.
var fetchKeys = func() (keys []string) {
	t := reflect.TypeFor[Fetch]()
	for i := 1; i < t.NumField(); i++ {
		keys = append(keys, `,"`+t.Field(i).Tag.Get("json")+`":`)
	}
	return keys
}()

// pairs encodes the line into b as the function pairs would, after it has cut long strings and rounded durations to microseconds. Durations
// that are not numbers become 0. There is a line for each page; BenchmarkEncode shows what this saves beside encoding/json.
func (f *Fetch) pairs(b []byte) []byte {
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
		most = maxText // the first string is the URL
	}
	return b[1:]
}

func appendMs(b []byte, ms float64) []byte {
	ms = math.Round(ms*1000) / 1000
	if ms == 0 || math.IsNaN(ms) || math.IsInf(ms, 0) {
		return append(b, '0')
	}
	return strconv.AppendFloat(b, ms, 'f', -1, 64)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			text, _ := encode(s) // no string is an error
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// clip cuts s to at most n bytes without cutting a character in two.
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

// Plain makes the first bytes of a text that comes from elsewhere safe for a log or a terminal: it cannot fill it, nor break a line.
func Plain(text string, most int) string {
	text = strings.ReplaceAll(clip(text, most), "\n", "; ") // of errors that are joined
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == unicode.ReplacementChar {
			return '?'
		}
		return c
	}, clip(text, most))
}

// Innermost returns the text of the innermost error, without the URL or the path that those around it name.
func Innermost(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}
