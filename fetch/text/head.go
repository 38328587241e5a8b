package text

import (
	"bytes"
	"strings"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxHead is how many bytes of a page are searched for its head.
const maxHead = 256 << 10

// head is what a page says of itself. What it does not say is empty.
type head struct {
	title, ogTitle string
	language       string
}

// readHead returns what a page says of itself up to its body. If that has no title, the rest of the page is searched too.
func readHead(page []byte, xml bool) head {
	page = page[:min(len(page), maxHead)]
	h := readElements(telling(page, xml, true))
	if h.title == "" {
		h = readElements(telling(page, xml, false))
	}
	return h
}

// maxRoots is how many html and body tags are given to html.Parse. Each adds its attributes to the first, in a time that grows with
// their number: 19,000 of them took half a minute.
const maxRoots = 64

// telling returns the elements of a page that say something of it, and those that hide them: up to the first body tag, or in the whole
// page. The others must not reach html.Parse: it repeats each b, i or font that is not closed in every paragraph, so that 256 KiB would
// become gigabytes.
func telling(page []byte, xml, toBody bool) (elements []byte) {
	roots, inTitle := 0, false
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		kind := z.Next()
		name, _ := z.TagName()
		tag := atom.Lookup(name)
		closed := xml && kind == html.SelfClosingTagToken
		if closed {
			z.NextIsNotRawText()
		}
		switch {
		case kind == html.ErrorToken:
			return elements
		case closed && tag != atom.Meta: // it is empty, but html.Parse does not know that
			continue
		case kind == html.TextToken && inTitle:
		case tag == atom.Html, tag == atom.Body:
			if kind == html.EndTagToken || roots == maxRoots {
				continue
			}
			roots++
		case tag == atom.Title, tag == atom.Meta, tag == atom.Svg, tag == atom.Template, tag == atom.Noscript:
			inTitle = tag == atom.Title && kind != html.EndTagToken
		default:
			continue
		}
		elements = append(elements, z.Raw()...)
		if tag == atom.Body && toBody {
			return elements
		}
	}
}

// readElements reads the title, the meta elements and the lang attributes of a page. One whose elements are nested more than 512 levels
// deep says nothing of itself, because html.Parse refuses it.
func readElements(page []byte) (h head) {
	doc, err := goquery.NewDocumentFromReader(bytes.NewReader(page))
	if err != nil {
		return head{}
	}
	h.title = clean([]byte(doc.Find("title").Not("svg title, template title").First().Text()), maxTitle)
	h.language = languageOf(doc.Find("html"))
	doc.Find("meta[content]").Each(func(_ int, meta *goquery.Selection) {
		content := meta.AttrOr("content", "")
		name := meta.AttrOr("name", meta.AttrOr("property", meta.AttrOr("http-equiv", "")))
		if content == "" {
			return
		}
		switch strings.ToLower(name) {
		case "og:title":
			h.ogTitle = clean([]byte(content), maxTitle)
		case "content-language":
			if h.language == "" {
				h.language = primary(content)
			}
		}
	})
	if h.language == "" {
		h.language = languageOf(doc.Find("body"))
	}
	return h
}

func languageOf(element *goquery.Selection) string {
	return primary(element.AttrOr("lang", element.AttrOr("xml:lang", "")))
}
