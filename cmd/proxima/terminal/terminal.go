// Package terminal writes messages for people, wraps longer texts, and shows a progress line below them that a terminal replaces in place.
package terminal

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Printer writes messages and the progress line. Safe for concurrent use.
type Printer struct {
	Prefix   string // of each line
	w        io.Writer
	terminal bool
	mu       *sync.Mutex
	last     *time.Time // of a progress line without a terminal
}

// New returns a printer that writes to w, which may be a terminal.
func New(w io.Writer) Printer {
	now := time.Now()
	return Printer{w: w, mu: new(sync.Mutex), last: &now, terminal: Is(w)}
}

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Write writes whole lines in place of the progress line.
func (p Printer) Write(lines []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		if _, err := io.WriteString(p.w, "\r\x1b[K"); err != nil {
			return 0, err
		}
	}
	return p.w.Write(lines)
}

// Say prints a line that is not replaced.
func (p Printer) Say(format string, args ...any) {
	fmt.Fprintf(p, "%s%s\n", p.Prefix, fmt.Sprintf(format, args...))
}

// Renew replaces the progress line. A terminal cuts a line off that is too long, since a second row would stay. Without a terminal, Renew
// prints a line every ten seconds.
func (p Printer) Renew(line func() string) {
	if !p.due() {
		return
	}
	text, form := p.Prefix+line(), "%s\n"
	if p.terminal {
		form = "\r\x1b[K\x1b[?7l%s\x1b[?7h"
	}
	p.mu.Lock() // not before: who makes the line may have a message, too
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, form, text)
}

func (p Printer) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal && time.Since(*p.last) < 10*time.Second {
		return false
	}
	*p.last = time.Now()
	return true
}

// Width is how many columns tables, and texts beside or below them, have at most.
const Width = 100

// Wrap writes text in lines that fit. The first one begins with lead, the others with so many blanks.
func Wrap(w io.Writer, lead string, blanks int, text string) {
	line, width := lead, utf8.RuneCountInString(lead)
	blank := ""
	for _, word := range strings.Fields(text) {
		n := len(blank) + utf8.RuneCountInString(word)
		if width+n > Width && blank != "" {
			fmt.Fprintln(w, line)
			line, width, blank = strings.Repeat(" ", blanks), blanks, ""
			n--
		}
		line, width = line+blank+word, width+n
		blank = " "
	}
	fmt.Fprintln(w, line)
}
