package text

import (
	"unicode"
	"unicode/utf8"
)

// kind says what a word is to somebody who looks for changes.
type kind uint8

const (
	plain    kind = iota
	number        // digits, with what joins them: 1,234 and 12:30 and 2026-11-22
	money         // a number that a price is: it counts as it stands
	month         // names that are of a date where a number stands beside them
	joiner        // words inside of dates: "3 de marzo"
	unit          // of time, where a number stands before it
	ago           // what follows or precedes such a time
	weekday       // of a date beside a number, and alone in a short line
	relative      // "today": in a short line
)

// word is one word of a line.
type word struct {
	kind kind
	hash uint64
	stem uint64 // of the word without an s at its end: "1 visitor", "2 visitors"
}

// shortLine is the most words of a line that is a label, a counter or a date rather than a sentence.
const shortLine = 8

// significant passes the words of a text on without what changes by itself: numbers, dates, times of day and "5 minutes
// ago" are all the same word, however many there are in a row. Amounts of money count as they are. Case, punctuation
// and what separates lines count for nothing.
func significant(text string, pass func(hash uint64)) {
	s := scanner{text: text}
	for s.line() {
		words := s.words
		for i := range words {
			if words[i].kind == joiner {
				words[i].kind = plain
				if i > 0 && i+1 < len(words) && dated(words[i-1].kind) && dated(words[i+1].kind) {
					words[i].kind = month
				}
			}
		}
		short := len(words) <= shortLine
		inNumber := false
		for i, w := range words {
			beside := inNumber || i+1 < len(words) && (words[i+1].kind == number || words[i+1].kind == month)
			var trivial bool
			switch w.kind {
			case number:
				trivial = true
			case month:
				trivial = beside
			case weekday:
				trivial = beside || short
			case relative:
				trivial = short
			case unit, ago:
				trivial = inNumber
			}
			switch {
			case trivial && !inNumber:
				pass(golden)
			case trivial:
			case inNumber && w.kind == plain:
				pass(w.stem)
			default:
				pass(w.hash)
			}
			inNumber = trivial
		}
	}
}

func dated(k kind) bool { return k == number || k == month }

// scanner takes lines apart.
type scanner struct {
	text  string
	words []word
}

// line reads the words of the next line that has any.
func (s *scanner) line() bool {
	s.words = s.words[:0]
	for len(s.text) > 0 {
		r, size := utf8.DecodeRuneInString(s.text)
		switch {
		case r == '\n':
			s.text = s.text[size:]
			if len(s.words) > 0 {
				return true
			}
		case unicode.IsDigit(r):
			s.number(false)
		case unspaced(r):
			s.words = append(s.words, word{hash: mix(uint64(r)), stem: mix(uint64(r))})
			s.text = s.text[size:]
		case unicode.IsLetter(r):
			s.letters()
		case unicode.Is(unicode.Sc, r):
			s.text = s.text[size:]
			s.currency()
		default:
			s.text = s.text[size:]
		}
	}
	return len(s.words) > 0
}

// FNV-1a, by which words are hashed while they are read.
const (
	fnvBasis uint64 = 14695981039346656037
	fnvPrime uint64 = 1099511628211
)

// number reads a number with what is joined to it, such as 12:30, 3rd or 5pm.
func (s *scanner) number(priced bool) {
	hash, i := fnvBasis, 0
	for i < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) || unspaced(r) {
			if i+size >= len(s.text) || !joins(r) {
				break
			}
			if next := s.text[i+size]; next < '0' || next > '9' {
				break
			}
		}
		hash = (hash ^ uint64(r)) * fnvPrime
		i += size
	}
	s.text = s.text[max(i, 1):]
	w := word{kind: number, hash: mix(hash), stem: mix(hash)}
	if priced {
		w.kind = money
	}
	s.words = append(s.words, w)
}

// joins says whether a character between two digits makes one number of them.
func joins(r rune) bool {
	switch r {
	case '.', ',', ':', '/', '-', '\'', '’', '\u00a0', '\u202f':
		return true
	}
	return false
}

// currency makes a price of the number beside the sign that was read.
func (s *scanner) currency() {
	rest := s.text
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if r, _ := utf8.DecodeRuneInString(rest); unicode.IsDigit(r) {
		s.text = rest
		s.number(true)
		return
	}
	if n := len(s.words); n > 0 && s.words[n-1].kind == number {
		s.words[n-1].kind = money
	}
}

// letters reads a word. Digits in it are all alike, and one of letters and several digits, or of hexadecimal ones
// alone, is a key made by a machine.
func (s *scanner) letters() {
	var lower [24]byte // as much as the longest word of a table
	buf := lower[:0]
	hash, without := fnvBasis, fnvBasis
	length, digits, hexadecimal, i := 0, 0, 0, 0
	for i < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[i:])
		switch {
		case unspaced(r):
			size = 0
		case r == '\'' || r == '’':
			r = 0
		case unicode.IsDigit(r):
			r = '0'
			digits++
		case unicode.IsLetter(r) || unicode.IsMark(r):
			if r < utf8.RuneSelf {
				r |= 0x20
			} else {
				r = unicode.ToLower(r)
			}
		default:
			size = 0
		}
		if size == 0 {
			break
		}
		i += size
		if r == 0 {
			continue
		}
		length++
		if r >= 'a' && r <= 'f' || r == '0' {
			hexadecimal++
		}
		if len(buf)+utf8.UTFMax <= cap(buf) {
			buf = utf8.AppendRune(buf, r)
		} else {
			buf = buf[:0:0] // longer than any word of a table
		}
		without = hash
		hash = (hash ^ uint64(r)) * fnvPrime
		if r != 's' || length < 4 {
			without = hash
		}
	}
	s.text = s.text[max(i, 1):]
	w := word{hash: mix(hash), stem: mix(without)}
	switch {
	case length >= 8 && digits >= 2, length >= 8 && hexadecimal == length && digits > 0, length >= 12 && hexadecimal == length:
		w.kind = number
	default:
		w.kind = kindOf(buf)
	}
	if n := len(s.words); w.kind == money {
		w.kind = plain
		if n > 0 && s.words[n-1].kind == number {
			s.words[n-1].kind = money
		}
	}
	s.words = append(s.words, w)
}
