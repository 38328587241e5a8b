package emulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// trial has the errors of what the probe tried; nil is what works.
type trial struct {
	space error // a network namespace with its settings
	tun   error
	veth  error
}

// surroundings are settings of the machine that can explain a refusal.
type surroundings struct {
	settings map[string]string // of /proc/sys, by their names
	seccomp  bool              // whether a filter of system calls is active
	tunThere bool
}

// Preflight finds out what this machine allows this user. It tries everything in a separate process.
func Preflight(ctx context.Context) Readiness {
	r, err := try(ctx)
	if err != nil {
		return unable(err, look())
	}
	return r
}

// unable explains why no namespaces can be created at all.
func unable(err error, s surroundings) Readiness {
	return Readiness{Portable, []string{"namespaces: " + s.forbids() + err.Error()}}
}

// try runs the probe. It returns an error if namespaces cannot be created at all.
func try(ctx context.Context) (r Readiness, err error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	var out, errs bytes.Buffer
	runtime.LockOSThread() // the probe dies with the thread that started it
	defer runtime.UnlockOSThread()
	cmd, err := startInside(func(program string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, probeCommand)
		cmd.Stdout, cmd.Stderr = &out, &errs
		return cmd
	})
	if err != nil {
		return r, err
	}
	if err = cmd.Wait(); err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	if err != nil {
		return r, fmt.Errorf("try the namespaces: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return r, nil
}

// probe tries everything that the emulation needs, in namespaces like those of the inner process, and writes what is ready. What it opens
// ends with its process.
func probe(w io.Writer) error {
	var t trial
	_, t.space = newNamespace(func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		_, err := tune()
		return err
	})
	if t.space == nil {
		_, _, t.tun = newNode(0, []netip.Addr{Prefix().Addr()}, false)
		_, _, t.veth = newNode(0, []netip.Addr{Prefix().Addr()}, true)
	}
	return json.NewEncoder(w).Encode(explain(t, look()))
}

// hindrance is a setting of /proc/sys with a value that forbids namespaces, one that allows them, and what it does.
type hindrance struct{ setting, forbids, allows, text string }

func hindrances() []hindrance {
	const user, none = "forbids user namespaces to ordinary users", "the kernel allows no namespaces"
	return []hindrance{
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "0", "AppArmor " + user}, // Ubuntu
		{"kernel/unprivileged_userns_clone", "0", "1", "the kernel " + user},           // Debian and hardened kernels
		{"user/max_user_namespaces", "0", "1000", none},
		{"user/max_net_namespaces", "0", "1000", none},
		{"user/max_pid_namespaces", "0", "1000", none},
		{"user/max_mnt_namespaces", "0", "1000", none},
	}
}

func look() surroundings {
	s := surroundings{settings: map[string]string{}}
	for _, h := range hindrances() {
		if b, err := os.ReadFile("/proc/sys/" + h.setting); err == nil {
			s.settings[h.setting] = strings.TrimSpace(string(b))
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	s.seccomp = bytes.Contains(status, []byte("Seccomp:\t2"))
	_, err := os.Stat(tunPath)
	s.tunThere = err == nil
	return s
}

func explain(t trial, s surroundings) Readiness {
	switch {
	case t.space != nil:
		return Readiness{Portable, []string{"network namespaces: " + s.forbids() + t.space.Error()}}
	case t.tun == nil:
		return Readiness{Emulation: TUN}
	}
	missing := []string{"TUN devices: " + explainTUN(t.tun, s)}
	if t.veth == nil {
		return Readiness{Veth, missing}
	}
	reason := ""
	switch {
	case errors.Is(t.veth, unix.EOPNOTSUPP):
		reason = "the kernel lacks veth devices (module veth): "
	case errors.Is(t.veth, unix.EAFNOSUPPORT):
		reason = "the kernel lacks packet sockets (module af_packet): "
	case errors.Is(t.veth, unix.EPERM), errors.Is(t.veth, unix.EACCES):
		reason = s.forbids()
	}
	return Readiness{Portable, append(missing, "veth devices: "+reason+t.veth.Error())}
}

func explainTUN(err error, s surroundings) string {
	switch {
	case !s.tunThere:
		return tunPath + " does not exist: load the module tun, or pass the device to the container"
	case errors.Is(err, unix.EACCES):
		return tunPath + " cannot be opened by this user (mode 0666 allows all users)"
	case errors.Is(err, unix.EPERM):
		return tunPath + " is forbidden by the container's list of devices or a security module: " + err.Error()
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return "the kernel lacks the module tun: " + err.Error()
	}
	return err.Error()
}

// forbids returns the settings that forbid namespaces, or "" if there are none.
func (s surroundings) forbids() string {
	text := ""
	for _, h := range hindrances() {
		if s.settings[h.setting] == h.forbids {
			text += fmt.Sprintf("%s (as root: sysctl -w %s=%s); ", h.text, strings.ReplaceAll(h.setting, "/", "."), h.allows)
		}
	}
	if s.seccomp {
		text += "a filter of system calls, as in containers, may forbid them; "
	}
	if text == "" {
		return ""
	}
	return strings.TrimSuffix(text, "; ") + ": "
}
