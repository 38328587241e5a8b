package fetch

import (
	"bufio"
	"bytes"
	"strconv"
)

// chunks passes a body in chunks on to net/http, and lets lines that end in a bare LF end in CR LF: net/http refuses those of chunks, and browsers
// read them. It lets all else pass as it comes.
type chunks struct {
	in   *bufio.Reader
	line []byte     // is to pass before more is read
	left uint64     // bytes of the chunk that are to pass
	next chunksLine // is read after that
	bare bool       // there was a bare LF: the connection must serve no further request
}

// chunksLine is what a line of a body in chunks says.
type chunksLine int

const (
	chunkSize chunksLine = iota
	chunkEnd             // nothing
	chunksTrailer
	chunksOver // net/http reads no further
)

// Read reads the body, still in chunks.
func (c *chunks) Read(p []byte) (int, error) {
	if len(c.line) == 0 && c.left == 0 && c.next != chunksOver {
		if err := c.readLine(); err != nil && len(c.line) == 0 {
			return 0, err
		}
	}
	switch {
	case len(c.line) > 0:
		n := copy(p, c.line)
		c.line = c.line[n:]
		return n, nil
	case c.left > 0:
		n, err := c.in.Read(p[:min(uint64(len(p)), c.left)])
		c.left -= uint64(n)
		return n, err
	}
	return c.in.Read(p)
}

// readLine reads a line, or what has come of it.
func (c *chunks) readLine() error {
	line, err := c.in.ReadSlice('\n')
	c.line = line
	if err != nil {
		c.next = chunksOver // cut, or too long for net/http
		return err
	}
	text := bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
	if len(text) == len(line)-1 {
		c.line, c.bare = append(bytes.Clone(text), "\r\n"...), true
	}
	switch c.next {
	case chunkSize:
		digits, _, _ := bytes.Cut(text, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 64)
		c.left, c.next = size, chunkEnd
		if err != nil { // net/http refuses it
			c.next = chunksOver
		} else if size == 0 {
			c.next = chunksTrailer
		}
	case chunkEnd:
		c.next = chunkSize
	case chunksTrailer:
		if len(text) == 0 {
			c.next = chunksOver
		}
	}
	return nil
}
