//go:build !linux

package emulate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
)

var errLinux = errors.New("emulated network: network namespaces need Linux")

// Preflight reports that this system allows only the portable emulation.
func Preflight(context.Context) Readiness {
	return Readiness{Portable, []string{"network namespaces: they need Linux, and this is " + runtime.GOOS}}
}

// Child does nothing on this system.
func Child([]string) (handled bool, code int) { return false, 0 }

// Inside returns false on this system.
func Inside() bool { return false }

// Reexec fails on this system.
func Reexec(context.Context, ...string) (code int, err error) { return 0, errLinux }

// Net does not exist on this system.
type Net struct{}

// New fails on this system.
func New(cfg Config) (*Net, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return nil, errLinux
}

// Run fails on this system.
func (*Net) Run(context.Context) error { return errLinux }

// Do fails on this system.
func (*Net) Do(string, func() error) error { return errLinux }

// Start fails on this system.
func (*Net) Start(string, *exec.Cmd) error { return errLinux }

// Listen fails on this system.
func (*Net) Listen(context.Context, string, string, string) (net.Listener, error) {
	return nil, errLinux
}

// ListenPacket fails on this system.
func (*Net) ListenPacket(context.Context, string, string, string) (net.PacketConn, error) {
	return nil, errLinux
}

// Dialer fails on this system.
func (*Net) Dialer(string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errLinux }
}

// SetBandwidth fails on this system.
func (*Net) SetBandwidth(netip.Addr, float64, float64) error { return errLinux }

// Partition fails on this system.
func (*Net) Partition(_, _ []netip.Addr) error { return errLinux }

// Heal fails on this system.
func (*Net) Heal() error { return errLinux }

// Stats fails on this system.
func (*Net) Stats() (Stats, error) { return Stats{}, errLinux }

// ShellCommand fails on this system.
func (*Net) ShellCommand(string) ([]string, error) { return nil, errLinux }
