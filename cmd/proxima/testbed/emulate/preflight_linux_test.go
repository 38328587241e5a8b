package emulate

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExplanations(t *testing.T) {
	no := func(e unix.Errno) error { return fmt.Errorf("try: %w", e) }
	here := surroundings{tunThere: true}
	with := func(setting, value string) surroundings {
		return surroundings{tunThere: true, settings: map[string]string{setting: value}}
	}
	check := func(name string, got Readiness, want string, says ...string) {
		if got.Emulation != want || len(got.Missing) == 0 != (want == TUN) {
			t.Errorf("%s: %q", name, got)
		}
		for _, s := range says {
			if !strings.Contains(strings.Join(got.Missing, "\n"), s) {
				t.Errorf("%s: %q does not say %q", name, got.Missing, s)
			}
		}
	}
	for _, c := range []struct {
		name string
		t    trial
		s    surroundings
		want string
		says []string
	}{
		{"all is there", trial{}, here, TUN, nil},
		{"nothing is needed of veth", trial{veth: no(unix.EOPNOTSUPP)}, here, TUN, nil},
		{"no device", trial{tun: no(unix.ENOENT)}, surroundings{}, Veth, []string{"TUN devices: /dev/net/tun does not exist"}},
		{"closed", trial{tun: no(unix.EACCES)}, here, Veth, []string{"cannot be opened by this user"}},
		{"forbidden", trial{tun: no(unix.EPERM)}, here, Veth, []string{"the container's list of devices"}},
		{"neither", trial{tun: no(unix.ENODEV), veth: no(unix.EOPNOTSUPP)}, here, Portable, []string{"module tun", "module veth"}},
		{"no sockets", trial{tun: no(unix.EACCES), veth: no(unix.EAFNOSUPPORT)}, here, Portable, []string{"cannot be opened", "af_packet"}},
		{"Ubuntu", trial{space: no(unix.EPERM)}, with("kernel/apparmor_restrict_unprivileged_userns", "1"), Portable,
			[]string{"AppArmor forbids user namespaces to ordinary users (as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"}},
	} {
		check(c.name, explain(c.t, c.s), c.want, c.says...)
	}
	check("hardened", unable(unix.EPERM, with("kernel/unprivileged_userns_clone", "0")), Portable, "sysctl -w kernel.unprivileged_userns_clone=1")
	check("none allowed", unable(unix.ENOSPC, with("user/max_user_namespaces", "0")), Portable, "sysctl -w user.max_user_namespaces=1000")
	check("Docker", unable(unix.EPERM, surroundings{seccomp: true}), Portable, "filter of system calls", "operation not permitted")
	check("unknown", unable(unix.EINVAL, with("user/max_user_namespaces", "5000")), Portable, "namespaces: invalid argument")
}
