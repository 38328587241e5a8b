//go:build !linux

package emulate

import (
	"context"
	"errors"
	"runtime"
)

// Preflight reports that this system allows only the portable emulation.
func Preflight(context.Context) Readiness {
	return Readiness{Portable, []string{"network namespaces: they need Linux, and this is " + runtime.GOOS}}
}

// Child does nothing on this system.
func Child([]string) (handled bool, code int) { return false, 0 }

// Ticks fails on this system.
func Ticks() (idle, total float64, err error) {
	return 0, 0, errors.New("the load of the machine needs Linux")
}

// Inside returns false on this system.
func Inside() bool { return false }

// Reexec fails on this system.
func Reexec(context.Context, ...string) (code int, err error) {
	return 0, errors.New("network namespaces need Linux")
}
