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

const (
	maxName   = 253  // bytes of a host name
	maxLine   = 4096 // bytes of a line
	keptWrong = 10   // errors of lines kept for each source
)

// table is the content of one source. It is never changed.
type table struct {
	seed     maphash.Seed
	hosts    set
	prefixes set
	bits     [2][]int // lengths of prefixes present, longest first, of IPv4 and IPv6
	globs    []*glob
	regexes  []*regexp.Regexp
	lines    int // entries as they stand in the source
	wrong    int // lines that make no sense
	errs     []error
}

func (t *table) patterns() int { return len(t.globs) + len(t.regexes) }

// readTable reads a list of at most maxEntries entries, maxPatterns of them patterns, from maxBytes bytes. Errors of
// lines name the source.
func readTable(r io.Reader, source string, seed maphash.Seed, maxBytes int64, maxEntries, maxPatterns int) (*table, error) {
	t := &table{seed: seed}
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	in := bufio.NewReaderSize(limited, maxLine)
	var hosts, prefixes []uint64
	var present [2][129]bool
	for number := 1; ; number++ {
		line, long, readErr := readLine(in)
		if limited.N <= 0 {
			return nil, fmt.Errorf("more than %d bytes", maxBytes)
		}
		if readErr != nil && readErr != io.EOF {
			return nil, readErr
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		parsed, err := rule{}, error(nil)
		if long {
			err = fmt.Errorf("more than %d bytes", maxLine)
		} else {
			parsed, err = parseLine(string(line))
		}
		if err != nil {
			t.wrong++
			if len(t.errs) < keptWrong {
				t.errs = append(t.errs, fmt.Errorf("%s:%d: %w", source, number, err))
			}
		}
		switch {
		case parsed.prefix.IsValid():
			t.lines++
			p := parsed.prefix
			prefixes = append(prefixes, hashPrefix(seed, p))
			present[family(p.Addr())][p.Bits()] = true
		case parsed.glob != nil:
			t.lines++
			t.globs = append(t.globs, parsed.glob)
		case parsed.regex != nil:
			t.lines++
			t.regexes = append(t.regexes, parsed.regex)
		default:
			t.lines += len(parsed.hosts)
			for _, name := range parsed.hosts {
				hosts = append(hosts, maphash.String(seed, name))
			}
		}
		if t.lines > maxEntries {
			return nil, fmt.Errorf("more than %d entries left by other sources", maxEntries)
		}
		if t.patterns() > maxPatterns {
			return nil, fmt.Errorf("more than %d patterns left by other sources", maxPatterns)
		}
		if readErr == io.EOF {
			break
		}
	}
	if t.lines == 0 && t.wrong > 0 {
		return nil, fmt.Errorf("no entry in it, but %d wrong lines: %w", t.wrong, t.errs[0])
	}
	t.hosts, t.prefixes = newSet(hosts), newSet(prefixes)
	for f := range present {
		for bits := 128; bits >= 0; bits-- {
			if present[f][bits] {
				t.bits[f] = append(t.bits[f], bits)
			}
		}
	}
	return t, nil
}

// readLine returns the next line, valid until the next call, or long where it is longer than the buffer of in.
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
	if t.hosts.n == 0 {
		return "", false
	}
	for {
		if t.hosts.has(maphash.String(t.seed, name)) {
			return name, true
		}
		i := strings.IndexByte(name, '.')
		if i < 0 {
			return "", false
		}
		name = name[i+1:]
	}
}

// addr returns the longest prefix listed that contains a. There is one look for each length that occurs.
func (t *table) addr(a netip.Addr) (netip.Prefix, bool) {
	for _, bits := range t.bits[family(a)] {
		p, err := a.Prefix(bits)
		if err == nil && t.prefixes.has(hashPrefix(t.seed, p)) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// url returns the first pattern that matches u, or else the first regular expression.
func (t *table) url(u string) (string, bool) {
	if i := slices.IndexFunc(t.globs, func(g *glob) bool { return g.match(u) }); i >= 0 {
		return t.globs[i].text, true
	}
	if i := slices.IndexFunc(t.regexes, func(re *regexp.Regexp) bool { return re.MatchString(u) }); i >= 0 {
		return "/" + t.regexes[i].String() + "/", true
	}
	return "", false
}

// family is the index of the family of a in table.bits.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// hashPrefix hashes a masked prefix with its length and family.
func hashPrefix(seed maphash.Seed, p netip.Prefix) uint64 {
	var key [18]byte
	a := p.Addr().As16()
	copy(key[:], a[:])
	key[16], key[17] = byte(p.Bits()), byte(family(p.Addr()))
	return maphash.Bytes(seed, key[:])
}
