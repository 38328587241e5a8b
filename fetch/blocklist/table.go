package blocklist

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

const maxLine = 4096 // bytes of a line

// table is the content of one source. It never changes once it is read.
//
// It keeps hosts and prefixes as sorted hashes, 8 bytes each, where a map of strings would take 56 and burden the garbage
// collector. A name is mistaken for one of a million listed ones with a probability of 5·10⁻¹⁴, and nobody can search for such
// names, because the hashes have a random seed.
type table struct {
	seed     maphash.Seed
	hosts    set
	prefixes set
	bits     [2][]int // lengths of the prefixes of IPv4 and IPv6, longest first
	globs    []*glob
	regexes  []*regexp.Regexp
	lines    int   // entries in the source, including duplicates
	wrong    int   // lines that cannot be parsed
	first    error // of the first of them
}

// set holds hashes in ascending order, each once.
type set []uint64

func newSet(hashes []uint64) set {
	slices.Sort(hashes)
	return slices.Clone(slices.Compact(hashes)) // a clone has no spare capacity
}

func (s set) has(hash uint64) bool {
	_, ok := slices.BinarySearch(s, hash)
	return ok
}

func (t *table) patterns() int { return len(t.globs) + len(t.regexes) }

// readTable reads a list within limits. Errors of lines name the source.
func readTable(r io.Reader, source string, seed maphash.Seed, most limits) (*table, error) {
	t := &table{seed: seed}
	limited := &io.LimitedReader{R: r, N: most.bytes + 1}
	in := bufio.NewReaderSize(limited, maxLine)
	for number := 1; ; number++ {
		line, long, readErr := readLine(in)
		if limited.N <= 0 {
			return nil, fmt.Errorf("more than %d bytes", most.bytes)
		}
		if readErr != nil && readErr != io.EOF {
			return nil, readErr
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if t.lines == 0 && bytes.HasPrefix(bytes.TrimSpace(line), []byte("<")) {
			return nil, errors.New("a page of HTML") // such as that of a login; it may have lines of one word
		}
		parsed, err := parseLine(string(line))
		if long {
			parsed, err = rule{}, fmt.Errorf("more than %d bytes", maxLine)
		}
		if err != nil {
			if t.wrong++; t.wrong == 1 {
				t.first = fmt.Errorf("%s:%d: %w", source, number, err)
			}
		}
		t.add(parsed)
		if err := most.check(t); err != nil {
			return nil, err
		}
		if readErr == io.EOF {
			break
		}
	}
	if t.lines == 0 && t.wrong > 0 {
		return nil, fmt.Errorf("no entry in it, but %d wrong lines: %w", t.wrong, t.first)
	}
	t.sort()
	return t, nil
}

// sort makes a table searchable after its last entry.
func (t *table) sort() {
	t.hosts, t.prefixes = newSet(t.hosts), newSet(t.prefixes)
	for _, lengths := range t.bits {
		slices.SortFunc(lengths, func(a, b int) int { return b - a })
	}
}

func (t *table) add(r rule) {
	t.lines++
	switch {
	case r.prefix.IsValid():
		t.prefixes = append(t.prefixes, maphash.Comparable(t.seed, r.prefix))
		if lengths := &t.bits[family(r.prefix.Addr())]; !slices.Contains(*lengths, r.prefix.Bits()) {
			*lengths = append(*lengths, r.prefix.Bits())
		}
	case r.glob != nil:
		t.globs = append(t.globs, r.glob)
	case r.regex != nil:
		t.regexes = append(t.regexes, r.regex)
	default:
		t.lines += len(r.hosts) - 1
		for _, name := range r.hosts {
			t.hosts = append(t.hosts, maphash.String(t.seed, name))
		}
	}
}

// readLine returns the next line, valid until the next call. A line longer than the buffer of in is only reported as long.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	line, err = in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = in.ReadSlice('\n')
	}
	return line, long, err
}

// host returns the longest suffix of labels of a canonical name that is listed.
func (t *table) host(name string) (string, bool) {
	for more := len(t.hosts) > 0; more; {
		if t.hosts.has(maphash.String(t.seed, name)) {
			return name, true
		}
		_, name, more = strings.Cut(name, ".")
	}
	return "", false
}

// addr returns the longest listed prefix that contains a, with one lookup for each length that occurs.
func (t *table) addr(a netip.Addr) (netip.Prefix, bool) {
	for _, bits := range t.bits[family(a)] {
		p, err := a.Prefix(bits)
		if err == nil && t.prefixes.has(maphash.Comparable(t.seed, p)) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// url returns the first pattern that matches u, or else the first regular expression.
func (t *table) url(u string) (string, bool) {
	if i := slices.IndexFunc(t.globs, func(g *glob) bool { return Match(g.parts, u) }); i >= 0 {
		return t.globs[i].text, true
	}
	if i := slices.IndexFunc(t.regexes, func(re *regexp.Regexp) bool { return re.MatchString(u) }); i >= 0 {
		return "/" + t.regexes[i].String() + "/", true
	}
	return "", false
}

// family is the index in table.bits of the family of a.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}
