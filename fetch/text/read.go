package text

import (
	"bytes"
	"cmp"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// block is a run of text that no block element interrupts.
type block struct {
	start, end int // in reading.text
	words      int
	linked     int  // words in short links
	dropped    bool // below the label of an advertisement
}

// reading is the state while one page is read.
type reading struct {
	byName bool // drop elements by their class or id

	heading []byte // the first h1

	text   []byte // of all blocks, with white space collapsed
	blocks []block
	start  int // of the current block
	linked int
	link   int // where the current link's text starts, -1 outside of links

	skip      atom.Atom // the element that is being left out, 0 for none
	skipDepth int
	skipNamed bool
	named     int // words left out by name
	kept      int // words of the blocks

	around     []int // for each open element that holds blocks: the number of blocks before it
	label      int   // the depth in around of the advertisement that is being left out, 0 for none
	labelWords int   // how many more words may be dropped as that advertisement
}

// shortLink is the number of words up to which a link counts as navigation rather than as a headline.
const shortLink = 4

// maxAround bounds the length of reading.around.
const maxAround = 1000

// If a page keeps fewer than fewWords, and elements with more than manyWords were left out by name, it is read again with
// those elements.
const (
	fewWords  = 50
	manyWords = 200
)

// maxTag is the longest tag, in bytes, behind which the same tokenizer reads on. It keeps a map as large as the most attributes that a tag has
// had, and clears it for each tag: two million tags behind one with a million attributes took a minute.
const maxTag = 64 << 10

func read(body []byte, byName, xml bool) *reading {
	r := &reading{byName: byName, link: -1}
	in := bytes.NewReader(body)
	z := html.NewTokenizer(in)
	for long, raw := false, false; len(r.text) < maxText; {
		if long && !raw { // behind a tag such as script a new one would not know that text follows
			in = bytes.NewReader(body[len(body)-in.Len()-len(z.Buffered()):])
			z, long = html.NewTokenizer(in), false
		}
		kind := z.Next()
		raw = false
		switch kind {
		case html.ErrorToken:
			r.flush()
			return r
		case html.TextToken:
			r.addText(z)
		case html.StartTagToken, html.SelfClosingTagToken:
			word, more := z.TagName()
			name := atom.Lookup(word)
			closed := kind == html.SelfClosingTagToken
			if long, raw = long || len(z.Raw()) > maxTag, holdsRawText(name); xml && closed {
				z.NextIsNotRawText()
				raw = false
				if r.skip != 0 {
					continue
				}
			}
			r.open(z, name, more, closed)
			if xml && closed {
				r.close(name)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			r.close(atom.Lookup(name))
		}
	}
	r.flush()
	return r
}

func (r *reading) addText(z *html.Tokenizer) {
	switch {
	case r.skip == 0:
		r.text = appendCollapsed(r.text, z.Text(), r.start)
	case r.skipNamed:
		r.named += countWords(z.Text())
	}
}

// appendCollapsed appends text. It makes each run of white space one space, and drops it at the start of the block.
func appendCollapsed(to, text []byte, start int) []byte {
	for _, c := range text {
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' {
			if len(to) > start && to[len(to)-1] != ' ' {
				to = append(to, ' ')
			}
			continue
		}
		to = append(to, c)
	}
	return to
}

// open handles a start tag. more means that it has attributes.
func (r *reading) open(z *html.Tokenizer, name atom.Atom, more, selfClosing bool) {
	if r.skip != 0 {
		if name == r.skip && !selfClosing {
			r.skipDepth++
		}
		return
	}
	var attrs attributes
	if more && name != atom.A {
		attrs = readAttributes(z)
	}
	switch name {
	case atom.Html, atom.Body, atom.Meta:
		return
	case atom.A:
		r.endLink()
		r.link = len(r.text)
		return
	case atom.Br, atom.Hr, atom.Img, atom.Input, atom.Wbr:
		if name != atom.Wbr {
			r.text = appendCollapsed(r.text, []byte{' '}, r.start)
		}
		if name == atom.Hr {
			r.flush()
		}
		return
	}
	if left, named := r.leftOut(name, attrs); left {
		if holdsBlocks(name) {
			r.flush()
		}
		if selfClosing && name == atom.Svg {
			return
		}
		r.skip, r.skipDepth, r.skipNamed = name, 1, named
		return
	}
	if isBlock(name) {
		r.flush()
		if holdsBlocks(name) && len(r.around) < maxAround {
			r.around = append(r.around, len(r.blocks))
		}
	}
}

func (r *reading) close(name atom.Atom) {
	if r.skip != 0 {
		if name == r.skip {
			if r.skipDepth--; r.skipDepth == 0 {
				r.skip = 0
			}
		} else if name == atom.Body || name == atom.Head {
			r.skip = 0 // it was never closed
		}
		return
	}
	switch {
	case name == atom.A:
		r.endLink()
	case isHeading(name):
		r.endLink()
		r.linked = 0 // many are links to themselves, or to the story below
		if name == atom.H1 && r.heading == nil {
			r.heading = bytes.Clone(r.text[r.start:])
		}
		r.flush()
	case isBlock(name):
		labelled := r.flush()
		if n := len(r.around); holdsBlocks(name) && n > 0 {
			r.around = r.around[:n-1]
			if n <= r.label {
				r.label = 0
			}
			if labelled {
				r.dropAfterLabel()
			}
		}
	}
}

// dropAfterLabel leaves out what follows the label of an advertisement, up to the end of the element around it. It does so
// only if the label is the first block of that element.
func (r *reading) dropAfterLabel() {
	if n := len(r.around); n > 0 && r.around[n-1] == len(r.blocks)-1 {
		r.label, r.labelWords = n, maxLabelled
	}
}

// endLink ends the current link, if there is one.
func (r *reading) endLink() {
	if r.link < 0 {
		return
	}
	if n := countWords(r.text[min(r.link, len(r.text)):]); n <= shortLink {
		r.linked += n
	}
	r.link = -1
}

// flush ends the current block. It reports whether that was the label of an advertisement.
func (r *reading) flush() (labelled bool) {
	inLink := r.link >= 0
	r.endLink()
	text := bytes.TrimRight(r.text[r.start:], " ")
	if words := countWords(text); words > 0 {
		b := block{start: r.start, end: r.start + len(text), words: words, linked: r.linked}
		labelled = words <= shortLink && isLabel(text)
		switch {
		case labelled:
			b.dropped, r.label = true, 0
		case r.label > 0 && words <= r.labelWords:
			b.dropped = true
			r.labelWords -= words
		default:
			r.label = 0
		}
		r.blocks = append(r.blocks, b)
		if labelled {
			r.dropAfterLabel()
		}
		r.kept += words
		r.text = append(r.text[:b.end], '\n')
	} else {
		r.text = r.text[:r.start]
	}
	r.start, r.linked = len(r.text), 0
	if inLink {
		r.link = r.start // a link around several blocks
	}
	return labelled
}

func (r *reading) document(h head) Document {
	d := Document{Title: cmp.Or(h.title, h.ogTitle, clean(r.heading, maxTitle)), Language: h.language}
	var text []byte
	for _, b := range r.choose() {
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, r.text[b.start:b.end]...)
		d.Words += b.words
	}
	d.Text = string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	d.Fingerprint = fingerprint(d.Title, d.Text)
	if d.Language == "" {
		d.Language = guess(d.Text)
	}
	return d
}

// choose returns the blocks of the main text: those that are not mostly short links. If most of the page is in such
// blocks, its links are its content, and choose returns them too.
func (r *reading) choose() []block {
	text, links := 0, 0
	for _, b := range r.blocks {
		switch {
		case b.dropped:
		case b.linkDense():
			links += b.words
		default:
			text += b.words
		}
	}
	hub := links > 3*text
	chosen := make([]block, 0, len(r.blocks))
	for _, b := range r.blocks {
		if !b.dropped && (hub || !b.linkDense()) {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

// linkDense reports whether more than a third of a block's words are in short links (Kohlschütter's threshold) and at most
// one is not. A line such as "Map for Set, since 2" in a reference is content.
func (b block) linkDense() bool { return 3*b.linked > b.words && b.words-b.linked < 2 }
