package lab

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"proxima/node/runlog"
)

// Lines reads each line of a node's log into e, oldest first, and calls visit. It returns how many lines could not be read.
func Lines(dir, log string, e runlog.Entry, visit func()) (torn int, err error) {
	files, err := runlog.Files(dir, log)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		n, err := linesOf(path, e, visit)
		if torn += n; err != nil {
			return torn, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return torn, nil
}

func linesOf(path string, e runlog.Entry, visit func()) (torn int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return 0, err
		}
	}
	r := runlog.NewReader(in)
	for err = r.Next(e); err == nil; err = r.Next(e) {
		visit()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return r.Skipped(), err
}
