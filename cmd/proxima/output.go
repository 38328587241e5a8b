package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// output is where a command prints. It remembers the first error, so that no command needs to look at each line. Safe for concurrent use.
type output struct {
	io.Writer
	unread func() // called when nobody reads it any more

	mu  sync.Mutex
	err error // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
		if errors.Is(err, syscall.EPIPE) {
			o.unread()
		}
	}
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Stat says whether a terminal shows what is printed.
func (o *output) Stat() (fs.FileInfo, error) {
	if f, ok := o.Writer.(*os.File); ok {
		return f.Stat()
	}
	return nil, fs.ErrInvalid
}
