package text

import (
	"strings"
	"testing"
)

// A text is of the language of more than half of its letters, or of a tenth for Japanese, or of its frequent words: at least five, half as
// many again as of any other language, and one in twenty of the first 400 words.
func TestHowSureAGuessIs(t *testing.T) {
	const german, english = "der ", "the "
	words := func(n int, word string) string { return strings.Repeat(word, n) }
	for _, c := range []struct{ text, want string }{
		{words(5, german), "de"}, {words(4, german), ""},
		{words(6, german) + words(4, english), "de"}, {words(5, german) + words(4, english), ""}, {words(5, english) + words(5, german), ""},
		{words(5, german) + words(95, "zzz "), "de"}, {words(5, german) + words(96, "zzz "), ""},
		{words(20, german) + words(1000, "zzz "), "de"}, {words(19, german) + words(1000, "zzz "), ""},
		{words(380, "zzz ") + words(20, german), "de"}, {words(381, "zzz ") + words(20, german), ""},
		{"Ελλάς", "el"}, {"Ελλά", ""}, {"Ελλάς abcd", "el"}, {"Ελλάς abcde", ""},
		{"これはです " + words(4, "zzzzzzzzzzz "), "ja"}, {"これはです " + words(9, "zzzzz "), ""},
	} {
		if got := guess(c.text); got != c.want {
			t.Errorf("%.40q of %d bytes: %q, want %q", c.text, len(c.text), got, c.want)
		}
	}
	for tag, want := range map[string]string{"az": "az", "ZAA": "zaa", "abcd": "", "a": "", "a`": "", "a{": "", "@a": "", "en_GB": "en", "en,de": "en", " en ": "en", "-en": "", "12": ""} {
		if got := primary(tag); got != want {
			t.Errorf("%q: %q, want %q", tag, got, want)
		}
	}
}

func TestCountWords(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a z A Z 0 9": 6, "a,b": 2, "`{@[/:": 0, "it's": 1, "it’s": 1, "'a 'b": 2, "’a": 1, "e\u0301te\u0301": 1, "été": 1, "a-b": 2,
		"漢": 1, "漢字": 1, "漢字か": 2, "a漢b": 3, "\u0e01\u0e02": 1, "x”y": 2, "٣": 1,
	} {
		if got := countWords([]byte(text)); got != want {
			t.Errorf("%q: %d words, want %d", text, got, want)
		}
	}
}

// Words that a machine made count as numbers, and numbers beside a currency as money.
func TestKindsOfWords(t *testing.T) {
	for line, want := range map[string][]kind{
		"a1b2c3d": {plain}, "a1b2c3d4": {number}, "xyzxyz12": {number}, "xyzxyzx1": {plain}, "abcdefa1": {number}, "abcdef1": {plain},
		"abcdefab": {plain}, "abcdefabcde": {plain}, "abcdefabcdef": {number}, "gbcdefabcdef": {plain},
		"$5": {money}, "$ 5": {money}, "5$": {money}, "5 €": {money}, "5 € 3": {number, money}, "$x": {plain}, "20 euros": {money, plain}, "euros 20": {plain, number},
		"5 days": {number, unit}, "May 5": {month, number}, "Monday": {weekday}, "today": {relative}, "ago": {ago}, "of": {joiner}, "10:30": {number}, "1.x": {number, plain},
		"3rd": {number}, "5漢": {number, plain},
	} {
		s := scanner{text: line}
		s.line()
		got := make([]kind, len(s.words))
		for i, w := range s.words {
			got[i] = w.kind
		}
		if string(kindsOf(got)) != string(kindsOf(want)) {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
	stem := func(word string) uint64 {
		s := scanner{text: word}
		s.line()
		return s.words[0].stem
	}
	for word, singular := range map[string]string{"cats": "cat", "it's": "its", "CATS": "cat"} {
		if stem(word) != stem(singular) {
			t.Errorf("%s is not the plural of %s", word, singular)
		}
	}
	if stem("gas") == stem("ga") {
		t.Error("gas is no plural")
	}
}

func kindsOf(kinds []kind) (b []byte) {
	for _, k := range kinds {
		b = append(b, byte(k))
	}
	return b
}

// What is left of a page depends on how many words its parts have.
func TestPartsAtTheirBounds(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	link := func(n int) string { return "<p><a href=x>" + words(n) + "</a></p>" }
	for name, c := range map[string]struct {
		page string
		want int // words
	}{
		"a link of four words":         {"<p>one two</p>" + link(4), 2},
		"a link of five words":         {"<p>one two</p>" + link(5), 7},
		"three times as many links":    {"<p>one two</p>" + link(3) + link(3), 2},
		"more links":                   {"<p>one two</p>" + link(3) + link(4), 9},
		"one word beside a link":       {"<p>one two three</p><p><a href=x>a b</a> c</p>", 3},
		"two words beside a link":      {"<p>one two three</p><p><a href=x>a b</a> c d</p>", 7},
		"a labelled advertisement":     {"<div><p>Sponsored</p><p>" + words(60) + "</p></div><p>one two</p>", 2},
		"a longer text under a label":  {"<div><p>Sponsored</p><p>" + words(61) + "</p></div><p>one two</p>", 63},
		"two texts under a label":      {"<div><p>Sponsored</p><p>" + words(30) + "</p><p>" + words(30) + "</p><p>more</p></div><p>one two</p>", 3},
		"a named wrapper of 200 words": {"<div class=sidebar><p>" + words(200) + "</p></div><p>" + words(49) + "</p>", 49},
		"a named wrapper of 201 words": {"<div class=sidebar><p>" + words(201) + "</p></div><p>" + words(49) + "</p>", 250},
		"fifty words beside it":        {"<div class=sidebar><p>" + words(201) + "</p></div><p>" + words(50) + "</p>", 50},
	} {
		if got := Extract([]byte(c.page), "utf-8", false).Words; got != c.want {
			t.Errorf("%s: %d words, want %d", name, got, c.want)
		}
	}
	for text, want := range map[string]bool{"ad" + strings.Repeat(" ", 62): true, "ad" + strings.Repeat(" ", 63): false, "(Anzeige)": true, "adverb": false, "": false} {
		if isLabel([]byte(text)) != want {
			t.Errorf("%q of %d bytes is a label: %v", text, len(text), !want)
		}
	}
}

// The newest 2,048 pages that have a part of their simhash in common are compared.
func TestHowManyAreCompared(t *testing.T) {
	for newer, want := range map[uint64]bool{2047: true, 2048: false} {
		index := NewNear(5000)
		index.Put(0, 7)
		for i := range newer {
			index.Put(mix(i+1)<<16, 8)
		}
		if key, found := index.Find(1<<16 | 1<<32 | 1<<48); found != want || found && key != 7 {
			t.Errorf("behind %d pages: found %v, page %d", newer, found, key)
		}
	}
}
