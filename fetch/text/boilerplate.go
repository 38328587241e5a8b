package text

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// attributes are the attributes of one element that matter here.
type attributes struct {
	names  []byte // class and id, separated by white space
	role   string
	hidden bool
}

// maxNames is how many bytes of a name or style are looked at.
const maxNames = 1024

func readAttributes(z *html.Tokenizer) attributes {
	var a attributes
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "class", "id":
			a.names = append(append(a.names, value[:min(len(value), maxNames)]...), ' ')
		case "role":
			a.role = strings.ToLower(string(value[:min(len(value), 32)]))
		case "aria-label":
			if isLabel(value) {
				a.names = append(a.names, "advertisement "...)
			}
		case "hidden":
			a.hidden = true
		case "aria-hidden":
			a.hidden = a.hidden || string(value) == "true"
		case "style":
			style := strings.ReplaceAll(strings.ToLower(string(value[:min(len(value), maxNames)])), " ", "")
			a.hidden = a.hidden || strings.Contains(style, "display:none")
		}
	}
	return a
}

// leftOut reports whether an element is no part of the main text. named reports that only its class or id tells that.
func (r *reading) leftOut(name atom.Atom, a attributes) (left, named bool) {
	switch name {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Noembed, atom.Noframes, atom.Textarea, atom.Select,
		atom.Datalist, atom.Button, atom.Svg, atom.Canvas, atom.Audio, atom.Video, atom.Object, atom.Title,
		atom.Nav, atom.Aside, atom.Footer, atom.Menu, atom.Dialog:
		return true, false
	case atom.Div, atom.Section, atom.Ul, atom.Ol, atom.Dl, atom.Table, atom.Ins, atom.Span, atom.Form, atom.Header, atom.Figure:
		// Other elements may lack their end tag, or hold the text of a page whatever their class.
	default:
		return false, false
	}
	switch a.role {
	case "navigation", "banner", "contentinfo", "complementary", "search", "menu", "menubar", "dialog", "alertdialog":
		return true, false
	}
	if a.hidden {
		return true, false
	}
	for name := range bytes.FieldsSeq(a.names) {
		if r.byName && suspicious(name) {
			return true, true
		}
	}
	return false, false
}

// suspicious reports whether a name is usual for elements that are not content. It looks at its words: "ad-slot", "adSlot" and "ad_slot"
// have the same two. The last word decides: "post-footer" is a footer, "footer-post" is a post.
func suspicious(name []byte) bool {
	found := false
	var word [16]byte
	n := 0
	end := func() (exempt bool) {
		if n > 0 && n <= len(word) {
			switch string(word[:n]) {
			case "has", "with", "without", "no", "not", "layout", "columns":
				return true
			case "content", "main", "article", "body", "post", "entry", "story":
				found = false
			case "ad", "ads", "adv", "advert", "adverts", "advertisement", "advertising", "adsbygoogle", "adslot", "adbox", "adunit", "dfp",
				"taboola", "outbrain", "banner", "banners", "sponsor", "sponsored", "sponsors", "promo", "promoted", "promotion",
				"nav", "navbar", "navigation", "menu", "submenu", "breadcrumb", "breadcrumbs", "pagination", "pager", "paging", "toolbar",
				"sidebar", "footer", "cookie", "cookies", "consent", "gdpr", "popup", "modal", "newsletter", "subscribe",
				"share", "sharing", "social", "related", "recommended", "trending", "popular", "skyscraper", "counter", "hitcounter":
				found = true
			}
		}
		n = 0
		return false
	}
	upper := false // the character before
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && n > 0:
			upper = false
		case c >= 'A' && c <= 'Z':
			if !upper && end() {
				return false
			}
			upper = true
			c += 'a' - 'A'
		default:
			upper = false
			if end() {
				return false
			}
			continue
		}
		if n < len(word) {
			word[n] = c
		}
		n++
	}
	return !end() && found
}

// maxLabelled is how many words after its label count as the advertisement.
const maxLabelled = 60

// isLabel reports whether a text is a label that the laws of many countries require for advertisements.
func isLabel(text []byte) bool {
	if len(text) > 64 {
		return false
	}
	word := strings.ToLower(strings.TrimFunc(string(text), func(r rune) bool { return !unicode.IsLetter(r) }))
	switch word {
	case "ad", "ads", "advertisement", "advertisements", "advertising", "sponsored", "sponsored content", "sponsored by", "promoted",
		"paid content", "anzeige", "anzeigen", "werbung", "publicité", "annonce", "publicidad", "anuncio", "pubblicità", "publicidade",
		"advertentie", "reklama", "annons", "реклама", "διαφήμιση", "広告", "广告", "廣告", "광고":
		return true
	}
	return false
}

func isHeading(name atom.Atom) bool {
	switch name {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// isBlock reports whether an element begins a new block.
func isBlock(name atom.Atom) bool {
	switch name {
	case atom.P, atom.Li, atom.Dt, atom.Dd, atom.Td, atom.Th, atom.Tr, atom.Pre,
		atom.Option, atom.Caption, atom.Figcaption, atom.Legend, atom.Summary, atom.Address:
		return true
	}
	return isHeading(name) || holdsBlocks(name)
}

// holdsBlocks reports whether an element is made to hold blocks, and always has an end tag.
func holdsBlocks(name atom.Atom) bool {
	switch name {
	case atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Nav, atom.Aside, atom.Ul, atom.Ol, atom.Dl,
		atom.Table, atom.Form, atom.Fieldset, atom.Blockquote, atom.Figure, atom.Ins, atom.Center, atom.Details, atom.Menu, atom.Dialog:
		return true
	}
	return false
}

// holdsRawText reports whether the tokenizer takes what follows a tag for text, up to the end tag.
func holdsRawText(name atom.Atom) bool {
	switch name {
	case atom.Iframe, atom.Noembed, atom.Noframes, atom.Noscript, atom.Plaintext, atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Xmp:
		return true
	}
	return false
}

// countWords counts the words of a text. A word is a run of letters and digits, or two characters of a script without
// spaces.
func countWords(text []byte) int {
	words, single, in := 0, 0, false
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
			if letter && !in {
				words++
			}
			in = letter || in && c == '\''
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch {
		case unspaced(r):
			single++
			in = false
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if !in {
				words++
			}
			in = true
		default:
			in = in && r == '’'
		}
	}
	return words + (single+1)/2
}

// unspaced reports whether the script of a character has no spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
