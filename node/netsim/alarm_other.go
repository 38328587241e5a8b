//go:build !linux

package netsim

import (
	"errors"
	"time"
)

// alarm is a timer more exact than Go's. This system has none.
type alarm struct{}

func newAlarm() (*alarm, error)  { return nil, errors.ErrUnsupported }
func (*alarm) set(time.Duration) {}
func (*alarm) wait() error       { return errors.ErrUnsupported }
func (*alarm) close() error      { return nil }
