package page

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWords puts every byte at every place of texts around the eight bytes that are looked at together.
func TestWords(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := bytes.Repeat([]byte("z"), n)
				b[at] = byte(c)
				if got, want := isPlain(b), c > ' ' && c < 0x7f && c != '&'; got != want {
					t.Fatalf("isPlain(%q) = %v, want %v", b, got, want)
				}
				if got, want := isASCII(b), c < 0x80; got != want {
					t.Fatalf("isASCII(%q) = %v, want %v", b, got, want)
				}
				want := 0
				if c < 0x20 && !strings.ContainsRune("\t\n\f\r\x1b", rune(c)) {
					want = 1
				}
				if got := controls(b); got != want {
					t.Fatalf("controls(%q) = %d, want %d", b, got, want)
				}
			}
		}
	}
	// Neighbours that could carry or borrow into each other.
	for _, pair := range []string{"\x00\x01", "\x7f\x80", "\xff\x00", "\x1f\x20", "&'", "%&", "\x21\x20"} {
		b := []byte("zzz" + pair + "zzz")
		plain, ascii := true, true
		for _, c := range b {
			plain = plain && c > ' ' && c < 0x7f && c != '&'
			ascii = ascii && c < 0x80
		}
		if isPlain(b) != plain || isASCII(b) != ascii {
			t.Errorf("%q: plain %v, ASCII %v; want %v, %v", b, isPlain(b), isASCII(b), plain, ascii)
		}
	}
}

func TestHasToken(t *testing.T) {
	for list, want := range map[string]bool{
		"next": true, "NeXt": true, " \tprev\nnext ": true, "next\fx": true, "x next": true,
		"": false, " ": false, "nex": false, "nextx": false, "xnext": false, "ne xt": false, "n\u00a0next": false,
	} {
		if hasToken(list, "next") != want || hasToken([]byte(list), "next") != want {
			t.Errorf("hasToken(%q, next) is not %v", list, want)
		}
	}
}

// TestOrder mixes the links that are taken on the spot with those that go through the tree: they come in the order of the
// document, and the limit cuts them there.
func TestOrder(t *testing.T) {
	const in = `<a href=/1><link rel=next href=/2><meta http-equiv=refresh content="1;url=/3"><meta name=robots content=noindex>` +
		`<meta http-equiv=refresh content=60><area href=/4><a href=/5><iframe src=/6></iframe><base href=/b><frame src=/7>` +
		`<link rel=canonical href=/8><a href=/9><meta http-equiv=refresh content="1;url=mailto:x"><a href=/10>`
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("/%d", i+1))
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		cfg := Default()
		cfg.MaxLinks = limit
		p := New(cfg).Parse([]byte(in), htmlUTF8, nil)
		var got []string
		for _, l := range p.Links {
			got = append(got, string(l.Ref))
		}
		kept := min(limit, len(want))
		if !slices.Equal(got, want[:kept]) || p.LinksDropped != len(want)-kept {
			t.Errorf("at most %d links: %v and %d dropped, want %v and %d", limit, got, p.LinksDropped, want[:kept], len(want)-kept)
		}
		if p.Base != "/b" || !p.NoIndex {
			t.Errorf("at most %d links: base %q, noindex %v", limit, p.Base, p.NoIndex)
		}
	}
}

// TestPagesAreApart reads many pages with one parser: none leaves anything to the next, or touches what was given out.
func TestPagesAreApart(t *testing.T) {
	type reading struct {
		in, contentType string
		page            Page
	}
	var readings []reading
	parser := New(Default())
	for i := range 400 {
		in := fmt.Sprintf("<a href=/p%d><a href=http://h%d.example/><a href='?q=%d&amp;\xe9'>", i, i, i) + strings.Repeat("<a href=sub/x>", i%7*20)
		switch i % 5 {
		case 1:
			in = "<base href=/base><link rel=next href=next>" + in
		case 2:
			in = "<p>none"
		case 3:
			in = "\xef\xbb\xbf<meta name=robots content=none>" + in // overrules the header
		}
		contentType := []string{"text/html; charset=iso-8859-1", htmlUTF8, "text/html", ""}[i/2%4]
		readings = append(readings, reading{in, contentType, parser.Parse([]byte(in), contentType, nil)})
	}
	for i, r := range readings {
		if d := cmp.Diff(New(Default()).Parse([]byte(r.in), r.contentType, nil), r.page); d != "" {
			t.Fatalf("page %d, %s: (-alone +among others)\n%s", i, r.contentType, d)
		}
	}
}

// TestMemoryIsTaken reads pages into the memory of those before: their links are as if it were new.
func TestMemoryIsTaken(t *testing.T) {
	parser := New(Default())
	var memory []Link
	for i := range 40 {
		in := []byte(strings.Repeat(fmt.Sprintf("<a href=/p%d>", i), i*7%20) + strings.Repeat("<iframe src=x>", i%3))
		p := parser.Parse(in, htmlUTF8, memory)
		if d := cmp.Diff(show(parser.Parse(in, htmlUTF8, nil)), show(p)); d != "" {
			t.Fatalf("page %d: %s", i, d)
		}
		if cap(memory) >= len(p.Links) && len(p.Links) > 0 && &memory[:1][0] != &p.Links[0] {
			t.Fatalf("page %d did not take the memory", i)
		}
		memory = p.Links
	}
}
