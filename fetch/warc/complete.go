package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// completeAll completes the files of this prefix that a crash left open.
func completeAll(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read archive directory: %w", err)
	}
	// The whole form is checked: the prefix of another Writer may begin with this one.
	form := regexp.MustCompile(`^` + regexp.QuoteMeta(prefix) + `-\d{17}-\d{5,}-[0-9a-f]{8}\.warc\.gz\.open$`)
	for _, e := range entries {
		if !e.Type().IsRegular() || !form.MatchString(e.Name()) {
			continue
		}
		if err := complete(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("complete archive file %s: %w", e.Name(), err)
		}
	}
	return nil
}

// complete cuts the file off behind its last whole gzip member and gives it its final name; a file without one is
// removed. The whole file is read, since a loss of power may have torn it anywhere: about 10 s for 1 GiB
// of pages.
func complete(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := wholeMembers(f)
	if err != nil {
		return err
	}
	if size == 0 {
		return os.Remove(path)
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(path, strings.TrimSuffix(path, openSuffix))
}

// wholeMembers is the length in bytes of the whole gzip members that r begins with. The error is r's own.
func wholeMembers(r io.Reader) (int64, error) {
	in := &countingReader{r: r}
	buffered := bufio.NewReaderSize(in, 256<<10) // an io.ByteReader: gzip reads no byte beyond a member's end
	var z gzip.Reader
	whole := int64(0)
	for {
		err := z.Reset(buffered)
		if err == nil {
			z.Multistream(false)
			_, err = io.Copy(io.Discard, &z)
		}
		if in.err != nil && !errors.Is(in.err, io.EOF) {
			return 0, in.err
		}
		if err != nil {
			return whole, nil // the end, or a member that is torn
		}
		whole = in.n - int64(buffered.Buffered())
	}
}

// countingReader counts the bytes read and keeps the reader's own error apart from those of gzip.
type countingReader struct {
	r   io.Reader
	n   int64
	err error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.err = err
	return n, err
}
