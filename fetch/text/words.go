package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind says how a word counts when two versions of a page are compared.
type kind uint8

const (
	plain    kind = iota
	number        // digits, with what joins them: 1,234 and 12:30 and 2026-11-22
	money         // an amount of money, which counts as it stands
	month         // part of a date if a number stands beside it
	joiner        // a word inside a date: "3 de marzo"
	unit          // part of a time if a number stands before it
	ago           // follows such a time
	weekday       // part of a date if a number stands beside it, or if the line is short
	relative      // a word such as "today", part of a date if the line is short
)

type word struct {
	kind kind
	hash uint64
	stem uint64 // hash of the word without a final s: "1 visitor", "2 visitors"
}

// shortLine is the number of words up to which a line counts as a label, a counter or a date rather than as a sentence.
const shortLine = 8

// significant calls pass with the hashes of the words of a text. It replaces what changes by itself, any run of numbers,
// dates, times of day and phrases like "5 minutes ago", by one fixed word. Amounts of money are passed as they are. Case,
// punctuation and line breaks do not count.
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

// scanner splits a text into lines, and lines into words.
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

// Constants of FNV-1a, which hashes words while they are read.
const (
	fnvBasis uint64 = 14695981039346656037
	fnvPrime uint64 = 1099511628211
)

// number reads a number and what is joined to it, as in 12:30, 3rd or 5pm.
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

// joins reports whether a character between two digits makes them one number.
func joins(r rune) bool { return strings.ContainsRune(".,:/-'’\u00a0\u202f", r) }

// currency marks the number beside the currency sign that was just read as money.
func (s *scanner) currency() {
	rest := strings.TrimLeft(s.text, " ")
	if r, _ := utf8.DecodeRuneInString(rest); unicode.IsDigit(r) {
		s.text = rest
		s.number(true)
		return
	}
	if n := len(s.words); n > 0 && s.words[n-1].kind == number {
		s.words[n-1].kind = money
	}
}

// letters reads a word. All digits in it count as the same. A long word with several digits, or of hexadecimal digits
// alone, counts as a number, because a machine made it.
func (s *scanner) letters() {
	var lower [24]byte // enough for the longest word that kindOf knows
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
			buf = buf[:0:0] // longer than any word that kindOf knows
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

// kindOf returns the kind of a word in lower case, in the languages of most pages. The name of a currency has kind money.
func kindOf(word []byte) kind {
	switch string(word) {
	case "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
		"jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
		"januar", "jänner", "februar", "märz", "mai", "juni", "juli", "oktober", "dezember", "dez", "okt",
		"janvier", "février", "mars", "avril", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre",
		"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre",
		"gennaio", "febbraio", "aprile", "maggio", "giugno", "luglio", "settembre", "ottobre", "dicembre",
		"janeiro", "fevereiro", "março", "maio", "junho", "julho", "setembro", "outubro", "novembro", "dezembro",
		"januari", "februari", "maart", "mei", "augustus",
		"января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября", "октября", "ноября", "декабря",
		"stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października", "listopada", "grudnia",
		"ιανουαρίου", "φεβρουαρίου", "μαρτίου", "απριλίου", "μαΐου", "ιουνίου", "ιουλίου", "αυγούστου", "σεπτεμβρίου", "οκτωβρίου",
		"νοεμβρίου", "δεκεμβρίου",
		"mon", "tue", "tues", "wed", "thu", "thur", "thurs", "fri", "sat", "sun", // which is a word, too
		"am", "pm", "uhr", "utc", "gmt", "cet", "cest", "bst", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "eet", "eest":
		return month
	case "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
		"montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonnabend", "sonntag",
		"lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche",
		"lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo",
		"lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica",
		"segunda", "terça", "quarta", "quinta", "sexta",
		"maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag",
		"понедельник", "вторник", "среда", "четверг", "пятница", "суббота", "воскресенье",
		"poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela",
		"δευτέρα", "τρίτη", "τετάρτη", "πέμπτη", "παρασκευή", "σάββατο", "κυριακή":
		return weekday
	case "of", "de", "del", "the":
		return joiner
	case "second", "seconds", "sec", "secs", "minute", "minutes", "min", "mins", "hour", "hours", "hr", "hrs", "day", "days", "week", "weeks",
		"month", "months", "year", "years", "ms",
		"sekunde", "sekunden", "minuten", "stunde", "stunden", "tag", "tage", "tagen", "woche", "wochen", "monat", "monate", "monaten",
		"seconde", "secondes", "heure", "heures", "jour", "jours", "semaine", "semaines", "mois",
		"segundo", "segundos", "minuto", "minutos", "hora", "horas", "día", "días", "dia", "dias", "semana", "semanas", "mes", "meses",
		"secondi", "minuti", "ora", "ore", "giorno", "giorni", "settimana", "settimane", "mese", "mesi":
		return unit
	case "ago":
		return ago
	case "today", "yesterday", "tomorrow", "now", "just", "heute", "gestern", "hier", "ayer", "hoy", "oggi", "ieri", "hoje", "ontem", "σήμερα", "χθες":
		return relative
	case "usd", "eur", "gbp", "chf", "jpy", "euro", "euros", "dollar", "dollars", "pounds", "yen", "kr", "zł", "kč", "руб", "ευρώ":
		return money
	}
	return plain
}
