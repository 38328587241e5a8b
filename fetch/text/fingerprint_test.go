package text

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

func of(page string) Fingerprint { return Extract([]byte(page), "utf-8", false).Fingerprint }

func TestTrivialChanges(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"counter", "<p>You are visitor number 999", "<p>You are visitor number 1,000"},
		{"counter of one", "<p>1 visitor online", "<p>12 visitors online"},
		{"date", "<p>Today is Monday, 2 March 2026", "<p>Today is Tuesday, 3 March 2026"},
		{"month", "<p>Updated on 28 February 2026 at 23:59", "<p>Updated on 1 March 2026 at 0:10"},
		{"American date", "<p>March 3rd, 2026 11:59 PM", "<p>April 12th, 2026 1:05 AM"},
		{"date of a machine", "<p>Thu Jan  1 00:50:00 UTC 2026", "<p>Sun Dec 27 01:58:28 UTC 2026"},
		{"ISO date", "<p>2026-03-03T10:00:00Z", "<p>2026-11-22T09:59:59Z"},
		{"Spanish date", "<p>El 3 de marzo de 2026 llegamos", "<p>El 12 de abril de 2026 llegamos"},
		{"German date", "<p>Stand: Montag, 2. März 2026, 8 Uhr", "<p>Stand: Freitag, 13. November 2026, 17:30 Uhr"},
		{"weekday alone", "<p>Monday", "<p>Friday"},
		{"age", "<p>Posted 5 minutes ago by Bob", "<p>Posted 1 hour ago by Bob"},
		{"time of making", "<p>Page generated in 0.032 seconds", "<p>Page generated in 1.2 seconds"},
		{"session", "<p>Your session is a81f2c3d9e0b", "<p>Your session is 7d31bb0aa2f4"},
		{"session with one digit", "<p>Session 385019fdce68a68e", "<p>Session dfefbdaff2dfdddc"},
		{"session without a digit", "<p>Session 385019fdce68a68e", "<p>Session dfefbdafffdfdddc"},
		{"case and marks", "<p>Hello, World", "<h2>HELLO WORLD!</h2>"},
		{"markup", "<p>Hello <b>world</b></p>", "<div class=new><span>Hello</span> world</div>"},
		{"script", "<script>t=1</script><p>a", "<script>t=2</script><p>a"},
		{"comment", "<!-- 1 --><p>a", "<!-- 2 --><p>a"},
		{"advertisement by name", `<div class=ad-box><p>Buy shoes now for a good price</div><p>a`, `<div class=ad-box><p>See the islands of the south</div><p>a`},
		{"advertisement by label", `<div><div>Advertisement</div><p>Buy shoes now for a good price</div><p>a`, `<div><div>Advertisement</div><p>See the islands</div><p>a`},
		{"advertisement by element", `<ins class="adsbygoogle">x y z</ins><p>a`, `<ins class="adsbygoogle"></ins><p>a`},
		{"links beside", `<p>One two three four five.<ul><li><a href=1>A b</a><li><a href=2>C</a></ul>`, `<p>One two three four five.<ul><li><a href=3>D e</a></ul>`},
		{"title's counter", "<title>(3) Inbox</title><p>a", "<title>(14) Inbox</title><p>a"},
	} {
		if a, b := of(c.before), of(c.after); b.Changed(a) {
			t.Errorf("%s: a change", c.name)
		}
	}
}

func TestRealChanges(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"sentence", "<p>The bridge is closed.", "<p>The bridge is closed. It will open soon."},
		{"word", "<p>The bridge is closed.", "<p>The bridge is open."},
		{"order", "<p>Man bites dog", "<p>Dog bites man"},
		{"price", "<p>Only $19.99", "<p>Only $24.99"},
		{"price after", "<p>Nur 19,99 €", "<p>Nur 24,99 €"},
		{"price in words", "<p>It costs 20 euros", "<p>It costs 25 euros"},
		{"number that comes", "<p>visitors", "<p>5 visitors"},
		{"after a label without an advertisement", "<div><p>a</p><div>Advertisement</div><p>The bridge is closed.</p></div>",
			"<div><p>a</p><div>Advertisement</div><p>The bridge is open.</p></div>"},
		{"after a labelled advertisement", "<div><p>Sponsored</p><p>Buy it</p></div><p>closed", "<div><p>Sponsored</p><p>Buy it</p></div><p>open"},
		{"title", "<title>a</title><p>c", "<title>b</title><p>c"},
		{"headline", "<ul><li><a href=1>Storm damages the roofs of forty houses</a></ul>", "<ul><li><a href=1>Storm spares the roofs of forty houses</a></ul>"},
		{"Japanese", "<p>これは日本語です", "<p>これは日本酒です"},
		{"Greek", "<p>Η γέφυρα είναι κλειστή", "<p>Η γέφυρα είναι ανοιχτή"},
		{"verb like a month", "<p>They may come to the old town", "<p>They will come to the old town"},
		{"the sun", "<p>The sun shines", "<p>The moon shines"},
		{"no words", "<img src=a>", "<img src=b>"},
	} {
		if a, b := of(c.before), of(c.after); !b.Changed(a) {
			t.Errorf("%s: no change", c.name)
		}
	}
}

// article is a text of random words.
func article(rnd *rand.Rand, words int) []string {
	text := make([]string, words)
	for i := range text {
		text[i] = vocabulary[rnd.IntN(len(vocabulary))]
	}
	return text
}

var vocabulary = func() []string {
	rnd := rand.New(rand.NewPCG(7, 7))
	words := make([]string, 5000)
	for i := range words {
		for range 2 + rnd.IntN(4) {
			words[i] += string("bcdfglmnprstv"[rnd.IntN(13)]) + string("aeiou"[rnd.IntN(5)])
		}
	}
	return words
}()

// TestSimhashOfSimilarTexts checks that near-duplicates are within nearBits, and that other pages are not.
func TestSimhashOfSimilarTexts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 13))
	near, far := 0, 64
	const n = 200
	for range n {
		text := article(rnd, 1000)
		other := append(append([]string{}, text[:500]...), text[502:]...)
		a, b := of("<p>"+strings.Join(text, " ")), of("<p>"+strings.Join(other, " "))
		if a.Distance(b) <= nearBits {
			near++
		}
		far = min(far, a.Distance(of("<p>"+strings.Join(article(rnd, 1000), " "))))
	}
	if near < n*8/10 || far < 10 {
		t.Errorf("two words less: %d of %d are near; others: %d bits at least", near, n, far)
	}
}

// TestNearAgainstAll compares the index with a search through all pages that it holds.
func TestNearAgainstAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 5))
	const size = 500
	index := NewNear(size)
	var put []uint64
	for i := range 5000 {
		h := rnd.Uint64()
		if i > 0 && rnd.IntN(3) == 0 {
			h = put[rnd.IntN(len(put))]
			for range rnd.IntN(6) {
				h ^= 1 << rnd.IntN(64)
			}
		}
		want := nearBits + 1
		for _, p := range put[max(0, len(put)-size):] {
			want = min(want, Fingerprint{Simhash: h}.Distance(Fingerprint{Simhash: p}))
		}
		key, found := index.Find(h)
		if found != (want <= nearBits) {
			t.Fatalf("found %v, the nearest has %d", found, want)
		}
		if found {
			if got := (Fingerprint{Simhash: h}).Distance(Fingerprint{Simhash: put[key]}); got != want {
				t.Fatalf("found one in %d bits, the nearest has %d", got, want)
			}
		}
		put = append(put, h)
		index.Put(h, uint64(i))
	}
}

func TestNearOfOneBlock(t *testing.T) {
	index := NewNear(100_000)
	for i := range uint64(100_000) {
		index.Put(mix(i)<<16, i)
	}
	if _, found := index.Find(mix(99_999) << 16); !found {
		t.Error("the newest is not found among many with one block")
	}
}

func FuzzExtract(f *testing.F) {
	f.Add([]byte(newsPage), "utf-8")
	f.Add([]byte(oldPage), "windows-1252")
	f.Add([]byte("<a><div><a><p>x</a></div><title><nav><b>"), "utf-16le")
	f.Add([]byte("<p>$5 5$ 5 € € 3 de de 5 a1b2c3d4 minutes ago ago"), "")
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		d := Extract(body, encoding, false)
		for _, s := range []string{d.Title, d.Language, d.Text} {
			if strings.ToValidUTF8(s, "") != s {
				t.Fatalf("%q is no UTF-8", s)
			}
		}
		if len(d.Title) > maxTitle || d.Words < 0 || d.Fingerprint.Digest == 0 {
			t.Fatalf("%+v", d)
		}
		if again := Extract(body, encoding, false); again != d {
			t.Fatalf("%+v, and again %+v", d, again)
		}
	})
}

// However a page is built, reading it allocates at most a hundred times its size, garbage included.
func TestHostilePages(t *testing.T) {
	const size = 1 << 20
	unclosed := "<p>"
	for i := range 300 {
		unclosed += fmt.Sprintf("<b %d>", i) // a browser repeats them in each paragraph
	}
	for _, unit := range []string{"<div>", "<a href=x>y ", "<p class=ad>", "<div class=ad>x", "</div>", "<nav>", "<b><i>x", "<svg/>", "<title>", "<!--", "<",
		"&amp;", "a ", "1 ", "1,", "$", "a1", "<table><tr><td>x", "<div class='" + strings.Repeat("a-", 2000) + "'>x</div>", "<span>Advertisement</span>x ", "\xff",
		"<br>", "<select><option>x", "漢", "<script>", "</script>", "<p " + strings.Repeat("a=b ", 200) + ">x", "<meta a>", "<title></title>", "<svg><title></title>",
		unclosed + strings.Repeat("<p>x", 5000)} {
		page := []byte(strings.Repeat(unit, size/len(unit)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := Extract(page, "utf-8", false)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 100*size {
			t.Errorf("%.20q: %d MiB allocated", unit, got>>20)
		}
		if d.Fingerprint.Digest == 0 || len(d.Text) > 3*size+maxText {
			t.Errorf("%.20q: %d bytes of text", unit, len(d.Text))
		}
	}
}

func BenchmarkExtract(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	page := strings.Replace(newsPage, "</article>", "<p>"+strings.Join(article(rnd, 500), " ")+"</p></article>", 1)
	page += strings.Repeat("<div class='menu'><ul><li><a href=/x>Menu item</a></li></ul></div><script>"+strings.Repeat("var x = 1; ", 40)+"</script>", 40)
	body := []byte(page)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		Extract(body, "utf-8", false)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}

func BenchmarkNear(b *testing.B) {
	index := NewNear(1_000_000)
	for i := range uint64(1_000_000) {
		index.Put(mix(i), i)
	}
	found, i := 0, uint64(1_000_000)
	for b.Loop() {
		if _, ok := index.Find(mix(i)); ok {
			found++
		}
		index.Put(mix(i), i)
		i++
	}
	if found > b.N/100+10 {
		b.Error(fmt.Sprint(found, " found among random ones"))
	}
}

func TestOfBytes(t *testing.T) {
	if f := OfBytes([]byte("a")); f.Digest == 0 || f.Simhash == 0 || notZero(0) != 1 || notZero(7) != 7 {
		t.Errorf("%+v", f)
	}
}
