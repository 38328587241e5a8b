package page

import (
	"encoding/binary"
	"strings"
)

const asciiSpace = " \t\n\f\r"

// Eight bytes at once: a byte of ones is 1, one of tops the bit that ASCII does not use. The tests of a word for a byte
// below, above or equal to another are exact for the word, though not for which byte it is. (Bit Twiddling Hacks,
// "Determine if a word has a byte less than n" and following.)
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// isPlain reports that a value means what it says: visible ASCII without a character reference.
func isPlain(raw []byte) bool {
	if len(raw) < 8 {
		for _, c := range raw {
			if c <= ' ' || c == '&' || c >= 0x7f {
				return false
			}
		}
		return true
	}
	for i := 0; i < len(raw); i += 8 {
		w := binary.LittleEndian.Uint64(raw[min(i, len(raw)-8):]) // the last eight overlap
		and := w ^ ones*'&'
		if below, above, equal := (w-ones*'!')&^w, (w+ones)|w, (and-ones)&^and; (below|above|equal)&tops != 0 {
			return false
		}
	}
	return true
}

// controls counts the control characters of a text that text does not have: the binary data bytes of WHATWG MIME
// Sniffing, section 3.
func controls(text []byte) (n int) {
	count := func(b []byte) {
		for _, c := range b {
			if c < 0x20 && c != '\t' && c != '\n' && c != '\f' && c != '\r' && c != 0x1b {
				n++
			}
		}
	}
	for ; len(text) >= 8; text = text[8:] {
		if w := binary.LittleEndian.Uint64(text); (w-ones*' ')&^w&tops != 0 {
			count(text[:8])
		}
	}
	count(text)
	return n
}

func isASCII(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b)&tops != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c&0x80 != 0 {
			return false
		}
	}
	return true
}

// hasToken reports whether a list of words separated by ASCII white space holds the word, which is in ASCII, without
// regard to case.
func hasToken[T string | []byte](list T, word string) bool {
	for i := 0; i < len(list); i++ {
		from := i
		for i < len(list) && !space[list[i]] {
			i++
		}
		if i-from == len(word) && strings.EqualFold(string(list[from:i]), word) {
			return true
		}
	}
	return false
}
