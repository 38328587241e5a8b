package text

import (
	"strings"
	"testing"
)

// What a page says of itself stands in its head. Without a title there, the rest of the page is searched.
func TestHead(t *testing.T) {
	for _, c := range []struct {
		name, page string
		want       head
	}{
		{"the first title", "<title>a</title><title>b</title>", head{title: "a"}},
		{"entities and white space", "<title> a &amp;\n b </title>", head{title: "a & b"}},
		{"a title in a drawing or a template", "<svg><title>a</title></svg><template><title>b</title></template><title>c</title>", head{title: "c"}},
		{"no title", "<p>a", head{}},
		{"a title in the body", "<body lang=de><title>a</title><meta property=og:title content=b>", head{title: "a", ogTitle: "b", language: "de"}},
		{"nothing below a body", "<title>a</title><BODY lang=de><meta property=og:title content=b>", head{title: "a", language: "de"}},
		{"a body tag that does not end", "<title>a</title><body lang=de", head{title: "a"}},
		{"og's title", "<title>a</title><meta property=og:title content=b>", head{title: "a", ogTitle: "b"}},
		{"the last title of og", "<meta name=OG:Title content=b><meta property=og:title content=' c  d '>", head{ogTitle: "c d"}},
		{"an empty title of og", "<meta property=og:title content=b><meta property=og:title content=''>", head{ogTitle: "b"}},
		{"the language of the root", "<html lang=de-AT><title>a</title><meta http-equiv=Content-Language content=fr><body lang=it>", head{title: "a", language: "de"}},
		{"the language of a meta element", "<title>a</title><meta http-equiv=Content-Language content=fr><body lang=it>", head{title: "a", language: "fr"}},
	} {
		if got := readHead([]byte(c.page), false); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// However deep a page is nested, its head, heading and text are found, those of a long head only in its first part. Attributes of more than 64
// roots are not.
func TestHeadOfUnusualPages(t *testing.T) {
	deep := "<meta property=og:title content=b><title>a</title>" + strings.Repeat("<div>", 600) + "<h1>c</h1>d"
	if got := Extract([]byte(deep), "utf-8", false); got.Title != "a" || got.Text != "c\nd" {
		t.Errorf("deep: %+v", got)
	}
	hidden := strings.Repeat("<template>", 600) + "<title>a</title></template><h1>c</h1>d"
	if got := Extract([]byte(hidden), "utf-8", false); got.Title != "" {
		t.Errorf("in many templates: %+v", got)
	}
	const title = "<title>a</title>"
	for size, want := range map[int]string{maxHead - len(title): "a", maxHead: ""} {
		if got := Extract([]byte("<style>"+strings.Repeat("x", size-len("<style></style>"))+"</style>"+title+"<p>b"), "utf-8", false); got.Title != want || got.Text != "b" {
			t.Errorf("behind %d bytes of style: %+v", size, got)
		}
	}
	for tags, want := range map[string]string{strings.Repeat("<html a></html>", 63): "de", strings.Repeat("<HTML a>", 64): "", strings.Repeat("<body a><html>", 32): ""} {
		if got := readHead([]byte(tags+"<html lang=de>"+title), false); got != (head{title: "a", language: want}) {
			t.Errorf("behind %d bytes of root tags: %+v", len(tags), got)
		}
	}
}

// What follows a very long tag is read as behind a short one: the text of a script or a title is none of the page.
func TestTextBehindLongTags(t *testing.T) {
	const behind = "</>a <b>b</b></script></title></textarea></style></noscript></iframe></xmp><p>c &amp; d</>e</p><script>x</script>f"
	for _, tag := range []string{"p", "SCRIPT", "style", "Title", "textarea", "noscript", "iframe", "xmp", "b", "unknown"} {
		for _, closed := range []string{"", "/"} {
			short, long := "<p>0</><"+tag+" a=x"+closed+">"+behind, "<p>0</><"+tag+" a="+strings.Repeat("x", 2*maxTag)+closed+">"+behind
			want := Extract([]byte(strings.Repeat(short, 3)), "utf-8", false).Text
			if got := Extract([]byte(strings.Repeat(long, 3)), "utf-8", false).Text; got != want || got == "" {
				t.Errorf("<%s%s>: %q, want %q", tag, closed, got, want)
			}
		}
	}
}
