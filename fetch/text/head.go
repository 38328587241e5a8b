package text

import (
	"bytes"
	"strings"

	"github.com/PuerkitoBio/goquery"
)

// maxHead is how many bytes of a page are searched for its head. It bounds the memory of the tree, which is up to sixty times as much.
const maxHead = 256 << 10

// head is what a page says of itself. What it does not say is empty.
type head struct {
	title, ogTitle string
	description    string
	language       string
}

// readHead returns what a page says of itself up to its body. If that has no title, the rest of the page is searched too.
func readHead(page []byte) head {
	page = beforeTags(page[:min(len(page), maxHead)], maxRoots)
	before := beforeBody(page)
	h := readElements(before)
	if h.title == "" && len(before) < len(page) {
		h = readElements(page)
	}
	return h
}

// maxRoots is how many html and body tags are given to html.Parse. Each adds its attributes to the first, in a time that grows with
// their number: 19,000 of them took half a minute.
const maxRoots = 64

// beforeTags returns a page up to the html or body tag that is one too many, or all of it.
func beforeTags(page []byte, most int) []byte {
	for at, tags := 0, 0; ; at++ {
		next := bytes.IndexByte(page[at:], '<')
		if next < 0 {
			return page
		}
		at += next
		name := page[at+1 : min(at+len("<html"), len(page))]
		if !bytes.EqualFold(name, []byte("html")) && !bytes.EqualFold(name, []byte("body")) {
			continue
		}
		if tags++; tags > most {
			return page[:at]
		}
	}
}

// beforeBody returns a page up to the end of its first body tag, or all of it.
func beforeBody(page []byte) []byte {
	for at := 0; at < len(page); at++ {
		next := bytes.IndexByte(page[at:], '<')
		if next < 0 {
			break
		}
		at += next
		if !bytes.EqualFold(page[at:min(at+len("<body"), len(page))], []byte("<body")) {
			continue
		}
		if end := bytes.IndexByte(page[at:], '>'); end >= 0 {
			return page[:at+end+1]
		}
		break
	}
	return page
}

// readElements reads the title, the meta elements and the lang attributes of a page. One that is nested more than 512 levels
// deep says nothing of itself, because html.Parse refuses it.
func readElements(page []byte) (h head) {
	doc, err := goquery.NewDocumentFromReader(bytes.NewReader(page))
	if err != nil {
		return head{}
	}
	h.title = clean([]byte(doc.Find("title").Not("svg title, template title").First().Text()), maxTitle)
	h.language = languageOf(doc.Find("html"))
	ogDescription := ""
	doc.Find("meta[content]").Each(func(_ int, meta *goquery.Selection) {
		content := meta.AttrOr("content", "")
		name := meta.AttrOr("name", meta.AttrOr("property", meta.AttrOr("http-equiv", "")))
		if content == "" {
			return
		}
		switch strings.ToLower(name) {
		case "description":
			h.description = clean([]byte(content), maxDescription)
		case "og:description":
			ogDescription = clean([]byte(content), maxDescription)
		case "og:title":
			h.ogTitle = clean([]byte(content), maxTitle)
		case "content-language":
			if h.language == "" {
				h.language = primary(content)
			}
		}
	})
	if h.description == "" {
		h.description = ogDescription
	}
	if h.language == "" {
		h.language = languageOf(doc.Find("body"))
	}
	return h
}

// languageOf returns the language that an element names.
func languageOf(element *goquery.Selection) string {
	return primary(element.AttrOr("lang", element.AttrOr("xml:lang", "")))
}
