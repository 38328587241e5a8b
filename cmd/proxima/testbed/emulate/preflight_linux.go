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

// trial is the result of the probe, a process in namespaces like those of the inner process.
type trial struct {
	Space *refusal `json:"space,omitempty"` // a network namespace with its settings
	Wait  *refusal `json:"wait,omitempty"`  // exact waiting
	Tun   *refusal `json:"tun,omitempty"`
	Veth  *refusal `json:"veth,omitempty"`
}

// refusal is an error of the kernel, in a form that can be sent to another process.
type refusal struct {
	Text  string     `json:"text"`
	Errno unix.Errno `json:"errno"`
}

// refused converts an error; nil stays nil.
func refused(err error) *refusal {
	if err == nil {
		return nil
	}
	r := &refusal{Text: err.Error()}
	errors.As(err, &r.Errno)
	return r
}

// surroundings are settings of the machine that can explain a refusal.
type surroundings struct {
	settings map[string]string // of /proc/sys, by their names
	seccomp  bool              // whether a filter of system calls is active
	tunThere bool
}

// Preflight finds out what this machine allows this user. It tries everything in a separate process.
func Preflight(ctx context.Context) Readiness {
	t, err := try(ctx)
	return explain(t, err, look())
}

// try runs the probe. It returns an error if namespaces cannot be created at all.
func try(ctx context.Context) (trial, error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	var out, errs bytes.Buffer
	var t trial
	runtime.LockOSThread() // the probe dies with the thread that started it
	defer runtime.UnlockOSThread()
	cmd, err := startInside(func(program string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, probeCommand)
		cmd.Stdout, cmd.Stderr = &out, &errs
		return cmd
	})
	if err != nil {
		return t, err
	}
	if err := cmd.Wait(); err != nil {
		return t, fmt.Errorf("try the namespaces: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &t); err != nil {
		return t, fmt.Errorf("try the namespaces: %w", err)
	}
	return t, nil
}

// probe tries everything that the emulation needs and writes the results. What it opens ends with its process.
func probe(w io.Writer) error {
	var t trial
	if _, err := epollWait(-1, make([]unix.EpollEvent, 1), 0); !errors.Is(err, unix.EBADF) { // it would find the descriptor wrong
		t.Wait = refused(err)
	}
	_, err := newNamespace(func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		_, err := tune()
		return err
	})
	if t.Space = refused(err); err == nil {
		try := func(veth bool) *refusal {
			_, _, err := newNode(0, []netip.Addr{Prefix().Addr()}, veth)
			return refused(err)
		}
		t.Tun, t.Veth = try(false), try(true)
	}
	return json.NewEncoder(w).Encode(t)
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

func explain(t trial, failed error, s surroundings) Readiness {
	portable := func(text string) Readiness { return Readiness{Portable, []string{text}} }
	switch {
	case failed != nil:
		return portable("namespaces: " + s.forbids() + failed.Error())
	case t.Space != nil:
		return portable("network namespaces: " + s.forbids() + t.Space.Text)
	case t.Wait != nil:
		return portable("exact waiting: the kernel is older than Linux 5.11, or a filter forbids epoll_pwait2: " + t.Wait.Text)
	case t.Tun == nil:
		return Readiness{Emulation: TUN}
	}
	missing := []string{"TUN devices: " + explainTUN(*t.Tun, s)}
	if t.Veth == nil {
		return Readiness{Veth, missing}
	}
	reason := ""
	switch t.Veth.Errno {
	case unix.EOPNOTSUPP:
		reason = "the kernel lacks veth devices (module veth): "
	case unix.EAFNOSUPPORT:
		reason = "the kernel lacks packet sockets (module af_packet): "
	case unix.EPERM, unix.EACCES:
		reason = s.forbids()
	}
	return Readiness{Portable, append(missing, "veth devices: "+reason+t.Veth.Text)}
}

func explainTUN(r refusal, s surroundings) string {
	switch {
	case !s.tunThere:
		return tunPath + " does not exist: load the module tun, or pass the device to the container"
	case r.Errno == unix.EACCES:
		return tunPath + " cannot be opened by this user (mode 0666 allows all users)"
	case r.Errno == unix.EPERM:
		return tunPath + " is forbidden by the container's list of devices or a security module: " + r.Text
	case r.Errno == unix.ENODEV || r.Errno == unix.ENXIO:
		return "the kernel lacks the module tun: " + r.Text
	}
	return r.Text
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
