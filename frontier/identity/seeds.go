package identity

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxSeedLine is the longest line of a seeds file in bytes: the longest URL, and a comment.
const maxSeedLine = 2 * maxRawBytes

// maxSeedErrors is how many errors of a seeds file are kept; the others are counted.
const maxSeedErrors = 20

// Seeds are the contents of a seeds file.
type Seeds struct {
	// URLs are the seeds in the order of the file, duplicates included.
	URLs []URL
	// Errors say what is wrong with the first 20 lines that are no URL, each with its number. One more counts the others.
	Errors []error
	bad    int // lines
}

// ReadSeeds reads a list of seeds with one URL on each line. It ignores blank lines, and comments: a # at the start of a line or after
// a blank, and what follows. A line without a scheme gets http, because sites redirect from http to https. Lines that are above 16 KiB,
// no URL or more than one word are counted and skipped. An error is that of the reader; the seeds read before it are returned with it.
func ReadSeeds(r io.Reader) (Seeds, error) {
	var seeds Seeds
	in := bufio.NewReaderSize(r, maxSeedLine)
	for line := 1; ; line++ {
		raw, err := in.ReadSlice('\n')
		text := string(raw)
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if line == 1 {
			text = strings.TrimPrefix(text, "\uFEFF")
		}
		text = uncomment(text)
		switch {
		case text == "":
		case long:
			seeds.refuse(line, fmt.Errorf("above %d bytes", maxSeedLine))
		case strings.ContainsAny(text, " \t\r"): // as one URL, it would be a page that nobody has
			seeds.refuse(line, errors.New("more than one word, where one URL belongs"))
		default:
			u, bad := Parse(withScheme(text))
			if bad != nil {
				seeds.refuse(line, bad)
			} else {
				seeds.URLs = append(seeds.URLs, u)
			}
		}
		if errors.Is(err, io.EOF) {
			return seeds, nil
		}
		if err != nil {
			return seeds, fmt.Errorf("read seeds, line %d: %w", line, err)
		}
	}
}

func (s *Seeds) refuse(line int, err error) {
	err = fmt.Errorf("line %d: %w", line, err)
	if s.bad++; s.bad > maxSeedErrors {
		err = fmt.Errorf("and %d more", s.bad-maxSeedErrors)
	}
	s.Errors = append(s.Errors[:min(len(s.Errors), maxSeedErrors)], err)
}

// uncomment removes a comment and the blanks around a line.
func uncomment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}
