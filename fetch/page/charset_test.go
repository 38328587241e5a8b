package page

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

func TestCharset(t *testing.T) {
	enc := func(e encoding.Encoding, s string) string {
		out, err := e.NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	padding := strings.Repeat("<p>x</p>", 200)
	tests := []struct{ name, contentType, in, charset, ref string }{
		{"header", "text/html; charset=ISO-8859-1", "<a href=/\xe9>", "windows-1252", "/é"},
		{"header over meta", "text/html; charset=utf-8", "<meta charset=iso-8859-2><a href=/é>", "utf-8", "/é"},
		{"byte order mark over header", "text/html; charset=iso-8859-1", "\xef\xbb\xbf<a href=/é>", "utf-8", "/é"},
		{"meta", "text/html", "<meta charset=windows-1251><a href=/\xe9>", "windows-1251", "/й"},
		{"meta content", "text/html", `<meta http-equiv=content-type content="text/html; charset=koi8-r"><a href=/` + "\xc1>", "koi8-r", "/а"},
		{"meta that cannot be", "text/html", "<meta charset=utf-16><a href=/é>", "utf-8", "/é"},
		{"unknown label, UTF-8", "text/html; charset=klingon", "<a href=/é>", "utf-8", "/é"},
		{"unknown label, not UTF-8", "text/html; charset=klingon", "<a href=/\xe9>", "windows-1252", "/é"},
		{"unknown label, meta", "text/html; charset=klingon", "<meta charset=iso-8859-7><a href=/\xe1>", "iso-8859-7", "/α"},
		{"broken header", `text/html; charset="`, "<a href=/é>", "utf-8", "/é"},
		{"header with two labels", "text/html; charset=windows-1251; charset=utf-8", "<a href=/\xe9>", "windows-1251", "/й"},
		{"header with odd parameters", "text/html; level; charset = 'Windows-1251';; x=\"", "<a href=/\xe9>", "windows-1251", "/й"},
		{"header with a quotation mark", "text/html; charset='windows-1251", "<meta charset=koi8-r><a href=/\xc1>", "koi8-r", "/а"},
		{"none", "", "<!doctype html><a href=/x>", "utf-8", "/x"},
		{"none, late UTF-8", "text/html", padding + "<a href=/é>", "utf-8", "/é"},
		{"none, late windows-1252", "text/html", padding + "<a href=/\xe9>", "windows-1252", "/é"},
		{"late meta", "text/html", padding + "<meta charset=klingon><meta charset=' Windows-1251 '><meta charset=gbk><a href=/\xe9>", "windows-1251", "/й"},
		{"late meta content", "text/html", padding + "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'><a href=/\xc1>", "koi8-r", "/а"},
		{"late meta with little content", "text/html", padding + "<meta http-equiv=Content-Type content='charset=koi8-r'><a href=/\xc1>", "koi8-r", "/а"},
		{"late meta with both", "text/html", padding + "<meta charset=windows-1251 http-equiv=content-type content='text/html; charset=gbk'><a href=/\xe9>", "windows-1251", "/й"},
		{"late meta that cannot be", "text/html", padding + "<meta charset=utf-16><a href=/é>\xff", "utf-8", "/é"},
		{"late meta, cut UTF-8", "text/html", padding + "<meta charset=utf-8><a href=/é>\xc3", "utf-8", "/é"},
		{"late meta in a comment", "text/html", padding + "<!-- <meta charset=windows-1251> --><a href=/\xe9>", "windows-1252", "/é"},
		{"late meta below a header", "text/html; charset=iso-8859-1", padding + "<meta charset=windows-1251><a href=/\xe9>", "windows-1252", "/é"},
		{"XML declaration", "text/html", "<?xml version='1.0' encoding = \"windows-1251\"?><a href=/\xe9>", "windows-1251", "/й"},
		{"XML declaration of XHTML", "application/xhtml+xml", "<?xml version='1.0' encoding='ISO-8859-2'?><meta name=x><a href=/\xbb />", "iso-8859-2", "/ť"},
		{"meta over XML declaration", "text/html", "<?xml version='1.0' encoding='gbk'?><meta charset=windows-1251><a href=/\xe9>", "windows-1251", "/й"},
		{"XML declaration that cannot be", "text/html", "<?xml version='1.0' encoding='utf-16'?><a href=/é>\xff", "utf-8", "/é"},
		{"XML declaration without an encoding", "text/html", "<?xml version='1.0'?><a title=encoding=gbk href=/\xe9>", "windows-1252", "/é"},
		{"early meta over a late one", "text/html", "<meta charset=windows-1251>" + padding + "<meta charset=koi8-r><a href=/\xe9>", "windows-1251", "/й"},
		{"UTF-8 mislabelled by the editor", "text/html", "<meta charset=iso-8859-1><a href=/é>", "utf-8", "/é"},
		{"ASCII", "text/html; charset=gbk", "<a href=/x>", "gbk", "/x"},
		{"Shift JIS", "text/html; charset=shift_jis", enc(japanese.ShiftJIS, "<a href=/表>"), "shift_jis", "/表"},
		{"ISO-2022-JP", "text/html; charset=iso-2022-jp", enc(japanese.ISO2022JP, "<a href=/表>"), "iso-2022-jp", "/表"},
		{"UTF-16", "text/html", "\xff\xfe" + enc(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "<a href=/é>"), "utf-16le", "/é"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Default().Parse([]byte(tt.in), tt.contentType, nil)
			if p.NotHTML != "" || p.Charset != tt.charset || len(p.Links) != 1 || string(p.Links[0].Ref) != tt.ref {
				t.Errorf("got %+v, want charset %q, ref %q", p, tt.charset, tt.ref)
			}
		})
	}
}

// A query is in the encoding of its page, and nothing else of a link is (URL standard). Old programs look up what they find there.
func TestQueriesInTheEncodingOfThePage(t *testing.T) {
	for _, tt := range []struct{ charset, ref, want string }{
		{"gbk", "3.asp?DengJh=洪1700718", "3.asp?DengJh=%BA%E91700718"},
		{"gbk", "?a=é&amp;b=&eacute;\u20bf&c=\"%20<'>", "?a=%A8%A6&b=%A8%A6%26%238383%3B&c=\"%20<'>"},
		{"windows-1251", "/й?й=й #?й", "/й?%E9=%E9 #?й"},
		{"windows-1251", "/й#?й", "/й#?й"},
		{"shift_jis", "?ソ=表", "?%83\\=%95\\"},
		{"iso-2022-jp", "?a=表b表", "?a=%1B$BI=%1B(Bb%1B$BI=%1B(B"},
		{"utf-8", "?é", "?é"},
	} {
		enc, _ := charset.Lookup(tt.charset)
		body, err := enc.NewEncoder().String("<a href='" + strings.ReplaceAll(tt.ref, "'", "&#39;") + "'>")
		if err != nil {
			t.Fatal(err)
		}
		p := Default().Parse([]byte(body), "text/html; charset="+tt.charset, nil)
		if len(p.Links) != 1 || string(p.Links[0].Ref) != tt.want {
			t.Errorf("%s, %q: %q, want %q", tt.charset, tt.ref, show(p), tt.want)
		}
	}
	in := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	body, err := in.NewEncoder().String("<a href=?é>")
	if p := Default().Parse([]byte(body), "text/html", nil); err != nil || len(p.Links) != 1 || string(p.Links[0].Ref) != "?é" {
		t.Errorf("UTF-16: %q, %v", show(p), err)
	}
}

func TestDecodeDoesNotCopy(t *testing.T) {
	for contentType, in := range map[string]string{
		"text/html; charset=utf-8":        "<a href=/é>\xff",
		"text/html; charset=iso-8859-1":   "<a href=/x>",
		"text/html; charset=windows-1251": "<a href=/x>",
		"text/html":                       "<a href=/é>",
	} {
		body := []byte(in)
		if text, name := decode(body, contentType); &text[0] != &body[0] {
			t.Errorf("%s, %q: copied from %s", contentType, in, name)
		}
	}
}

const xhtmlRoot = `<html lang="en" xmlns="http://www.w3.org/1999/xhtml">`

func TestIsHTML(t *testing.T) {
	inUTF16, err := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String("<?xml version='1.0'?>" + xhtmlRoot)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		contentType, in string
		want            bool
	}{
		{"text/html", "anything", true},
		{" Text/HTML ;charset=x", "", true},
		{"application/xhtml+xml; q", "", true},
		{"text/plain", "<html>", false},
		{"image/png", "<html>", false},
		{"application/pdf", "", false},
		{"application/xml", "<html>", false},
		{"application/xml", xhtmlRoot, true},
		{"Text/XML; charset=x", "<?xml version='1.1'?>\n<?a b?><!-- <rss> " + strings.Repeat("x", 2000) + "--> " + xhtmlRoot, true},
		{"application/xml", `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd"><html>`, true},
		{"application/xml", "\xff\xfe" + inUTF16, true},
		{"application/xml; charset=UTF-16LE", inUTF16, true},
		{"application/xml", "<!DOCTYPE html><html>", false},
		{"application/xml", "<rss>" + xhtmlRoot, false},
		{"image/svg+xml", xhtmlRoot, false},
		{"nonsense", "<html>", true},
		{"text/html charset=utf-8", "<html>", true},
		{"text/html,text/html", "<html>", true},
		{"text/html charset=utf-8", "plain words", false},
		{"/html", "<html>", true},
		{"text/", "<html>", true},
		{"", "<!DOCTYPE html><p>", true},
		{"", "\n\t <HTML>", true},
		{"", "\xef\xbb\xbf<!-- x --><html>", true},
		{"*/*", "<p >", true},
		{"", `<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">`, true},
		{"", `<?xml version="1.0"?><rss>`, false},
		{"", "", false},
		{"", "plain words", false},
		{"", "%PDF-1.4 <html>", false},
		{"", "\x89PNG\r\n\x1a\n", false},
		{"", strings.Repeat(" ", 2000) + "<html>", false},
	}
	for _, tt := range tests {
		if got := IsHTML(tt.contentType, []byte(tt.in)); got != tt.want {
			t.Errorf("IsHTML(%q, %.40q) = %v, want %v", tt.contentType, tt.in, got, tt.want)
		}
	}
}

// XHTML that is sent as XML is read as XHTML is.
func TestXHTMLSentAsXML(t *testing.T) {
	p := Default().Parse([]byte("<?xml version='1.0' encoding='ISO-8859-2'?>"+xhtmlRoot+"<script src='/s.js'/><a href='/\xbb'>x</a></html>"), "application/xml", nil)
	if len(p.Links) != 1 || string(p.Links[0].Ref) != "/ť" || !p.XML || p.NotHTML != "" {
		t.Errorf("%+v", p)
	}
}

func TestNotHTML(t *testing.T) {
	noise := make([]byte, 4096)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	link := []byte("<a href=/x>")
	tests := []struct {
		contentType string
		in          []byte
		want        string
	}{
		{"text/css", link, NotHTMLType},
		{"text/html", append(noise, link...), NotHTMLData},
		{"text/html", append(make([]byte, 1024), link...), NotHTMLData},
		{"text/html", append(bytes.Repeat([]byte("words "), 200), link...), ""},
		{"text/html", append([]byte("\x00 a stray byte in a page is borne, for browsers bear it too"), link...), ""},
		{"text/html", append([]byte("%PDF-1.4\n%\xe2\xe3\n1 0 obj\n<< /Linearized 1 >>\nendobj\nxref\n"+strings.Repeat("0000000016 00000 n\n", 60)), link...), NotHTMLData},
		{"text/html", append([]byte("<p>%PDF-1.4"), link...), ""},
		{"text/html", nil, ""},
		{"text/html", append([]byte("\x01"), strings.Repeat("x", 31)...), ""},
		{"text/html", append([]byte("\x01"), strings.Repeat("x", 30)...), NotHTMLData},
		{"text/html", []byte("\t\n\f\r\x1b text of control characters that texts have"), ""},
		{"text/html", append(bytes.Repeat([]byte("x"), 1024), make([]byte, 1024)...), ""},
		{"text/html", append(bytes.Repeat([]byte("x"), 1024-33), make([]byte, 1024)...), NotHTMLData},
		{"text/html", append(bytes.Repeat([]byte("x"), 1024-32), make([]byte, 1024)...), ""},
	}
	for _, tt := range tests {
		p := Default().Parse(tt.in, tt.contentType, nil)
		if p.NotHTML != tt.want {
			t.Errorf("%s %.30q: reason %q, want %q", tt.contentType, tt.in, p.NotHTML, tt.want)
		}
		if p.NotHTML != "" && (p.Links != nil || p.Charset != "") {
			t.Errorf("%s %.30q: not read, but says %+v", tt.contentType, tt.in, p)
		}
	}
}
