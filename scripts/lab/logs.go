package lab

import (
	"errors"
	"fmt"
	"io"

	"proxima/cmd/proxima/world"
	"proxima/node/runlog"
)

// Lines reads each line of a node's log into e, oldest first, and calls visit. It returns how many lines could not be read.
func Lines(dir, log string, e runlog.Entry, visit func()) (torn int, err error) {
	files, err := runlog.Files(dir, log)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		if err := world.Open(path, func(in io.Reader) (err error) {
			r := runlog.NewReader(in)
			for err = r.Next(e); err == nil; err = r.Next(e) {
				visit()
			}
			torn += r.Skipped()
			return err
		}); !errors.Is(err, io.EOF) {
			return torn, fmt.Errorf("read log: %w", err)
		}
	}
	return torn, nil
}
