package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
)

// output is where a command prints. It remembers the first error, so that no command needs to look at each line. Safe for concurrent use.
type output struct {
	io.Writer
	unread func() // called when nobody reads it any more
	first  atomic.Pointer[error]
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.first.CompareAndSwap(nil, &err)
		if errors.Is(err, syscall.EPIPE) {
			o.unread()
		}
	}
	return n, err
}

func (o *output) failed() error {
	if first := o.first.Load(); first != nil {
		return *first
	}
	return nil
}

// Stat says whether a terminal shows what is printed.
func (o *output) Stat() (fs.FileInfo, error) {
	if f, ok := o.Writer.(*os.File); ok {
		return f.Stat()
	}
	return nil, fs.ErrInvalid
}
