package warc

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small is a complete file of one exchange, its name, and the ends of its members, found with compress/gzip.
func small(t testing.TB) (b []byte, name string, ends []int) {
	t.Helper()
	dir := t.TempDir()
	w := open(t, testConfig(dir))
	write(t, w, exchange("http://example.org/", "hello"))
	closeWriter(t, w)
	path := archive(t, dir)[0]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for end := 0; end < len(b); ends = append(ends, end) {
		n := memberLength(b[end:])
		if n == 0 {
			t.Fatalf("no member at byte %d", end)
		}
		end += n
	}
	return b, filepath.Base(path), ends
}

// memberLength is the length of the whole gzip member that b begins with, 0 without one, found with compress/gzip.
func memberLength(b []byte) int {
	rest := bytes.NewReader(b)
	src := bufio.NewReader(rest)
	z, err := gzip.NewReader(src)
	if err != nil {
		return 0
	}
	z.Multistream(false)
	if _, err := io.Copy(io.Discard, z); err != nil {
		return 0
	}
	return len(b) - rest.Len() - src.Buffered()
}

// lastWhole is how many bytes of the first n are whole members.
func lastWhole(ends []int, n int) (whole int) {
	for _, e := range ends {
		if e <= n {
			whole = e
		}
	}
	return whole
}

func TestKilledAtEveryByte(t *testing.T) {
	b, name, ends := small(t)
	if len(ends) != 3 {
		t.Fatalf("%d members", len(ends))
	}
	for n := range len(b) + 1 {
		reopen(t, b, name, ends, b[:n])
	}
	for _, end := range append(ends, 0) {
		for n := max(0, end-4); n <= min(end+4, len(b)); n++ {
			for _, tail := range []string{"\x00\x00\x00\x00\x00\x00", "\x1f\x8b\x08", strings.Repeat("\xff", 20)} {
				reopen(t, b, name, ends, append(bytes.Clone(b[:n]), tail...))
			}
		}
	}
}

// reopen has Open complete a file of which left is left, and checks that the whole members of b are there, nothing else.
func reopen(t *testing.T, b []byte, name string, ends []int, left []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".open"), left, 0o644); err != nil {
		t.Fatal(err)
	}
	closeWriter(t, open(t, testConfig(dir)))
	same := 0 // a tail may be just the bytes that are missing
	for same < min(len(left), len(b)) && left[same] == b[same] {
		same++
	}
	whole := lastWhole(ends, same)
	if whole == 0 {
		if names := archive(t, dir); len(names) != 0 {
			t.Fatalf("%d bytes: files %v", len(left), names)
		}
		return
	}
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !bytes.Equal(got, b[:whole]) {
		t.Fatalf("%d bytes: %d bytes are left, want %d (%v)", len(left), len(got), whole, err)
	}
	readAll(t, dir)
}

func TestOpenLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	b, name, _ := small(t)
	other := strings.Replace(name, "proxima-", "proxima-2-", 1) + ".open"
	for _, n := range []string{name, other, "proxima-notes.warc.gz.open"} {
		if err := os.WriteFile(filepath.Join(dir, n), b[:len(b)-1], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := open(t, testConfig(dir))
	closeWriter(t, w)
	for _, n := range []string{name, other, "proxima-notes.warc.gz.open"} {
		if got, err := os.ReadFile(filepath.Join(dir, n)); err != nil || len(got) != len(b)-1 {
			t.Errorf("%s: %d bytes, %v", n, len(got), err)
		}
	}
}

// A file that goes on after an unreadable sector must not be cut there.
func TestReadErrorIsNotATear(t *testing.T) {
	b, _, ends := small(t)
	broken := errors.New("broken disk")
	r := io.MultiReader(bytes.NewReader(b[:ends[1]+5]), errReader{broken})
	if n, err := wholeMembers(r); !errors.Is(err, broken) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// A write that fails leaves nothing behind, and the next one goes on where the last whole record ended.
func TestFailedWrite(t *testing.T) {
	b, _, ends := small(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.warc.gz"+openSuffix)
	if err := os.WriteFile(path, b[:ends[1]+7], 0o644); err != nil { // what a full disk took of the next record
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &openFile{File: file, name: "x.warc.gz", size: int64(ends[1]), torn: true}
	if err := f.append(b[ends[1]:ends[2]]); err != nil {
		t.Fatal(err)
	}
	if err := f.finish(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "x.warc.gz")); err != nil || !bytes.Equal(got, b[:ends[2]]) {
		t.Errorf("%d bytes, want %d (%v)", len(got), ends[2], err)
	}

	readOnly, err := os.Open(filepath.Join(dir, "x.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	f = &openFile{File: readOnly, name: "x.warc.gz", size: 10}
	for range 2 {
		if err := f.append([]byte("abc")); err == nil || f.size != 10 || !f.torn {
			t.Errorf("a failed write: %v, size %d, torn %v", err, f.size, f.torn)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := testConfig("d").Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	for field, change := range map[string]func(*Config){
		"dir":             func(c *Config) { c.Dir = "" },
		"max_file_bytes":  func(c *Config) { c.MaxFileBytes = 0 },
		"prefix":          func(c *Config) { c.Prefix = "../a" },
		"software":        func(c *Config) { c.Software = "a\r\nb: c" },
		"operator":        func(c *Config) { c.Operator = "a\nb" },
		"robots":          func(c *Config) { c.Robots = "\x00" },
		"level":           func(c *Config) { c.Level = 0 },
		"digest":          func(c *Config) { c.Digest = "md5" },
		"revisit_entries": func(c *Config) { c.RevisitEntries = -1 },
	} {
		c := testConfig("d")
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), " "+field+": ") {
			t.Errorf("%s: error %v", field, err)
		}
		if _, err := Open(c, testDeps()); err == nil {
			t.Errorf("%s: Open accepted it", field)
		}
	}
	if _, err := Open(testConfig(t.TempDir()), Deps{}); err == nil {
		t.Error("Open accepted no clock and no random source")
	}
}
