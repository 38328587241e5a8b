package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

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
