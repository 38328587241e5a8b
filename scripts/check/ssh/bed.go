//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kinds of a machine.
const (
	kindGood    = "good"
	kindRefuses = "refuses" // knows another key than ours
	kindUnknown = "unknown" // its own key is not the one that is known
	kindSilent  = "silent"  // there is nobody
)

// machine is one host of the list.
type machine struct {
	name  string // as in results
	kind  string
	addr  string
	port  int
	load  string // what its /proc/loadavg begins with; "" is that of this machine
	home  string
	entry string // its line in the list
	sshd  *exec.Cmd
}

// path is a file below its directory of the node.
func (m *machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.home, "proxima"}, parts...)...)
}

// bed is all machines, the site, and what the scripts need here.
type bed struct {
	s        settings
	dir      string
	machines []*machine
	web      *web
	made     bool // sshdRun was not there before
	faults   []string
}

// sshdRun is a directory that an sshd of root wants.
const sshdRun = "/run/sshd"

// The least loaded six of the seven good ones make two sets of three.
var loads = [...]string{"0.10", "5.00", "0.20", "0.30", "0.40", "0.50", "0.60"}

func newBed(ctx context.Context, s settings) (*bed, error) {
	b := &bed{s: s, dir: s.dir}
	for _, d := range []string{"tmp", "hosts"} {
		if err := os.Mkdir(filepath.Join(b.dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	kinds := []string{kindRefuses, kindUnknown, kindSilent}
	for range loads {
		kinds = append(kinds, kindGood)
	}
	good := 0
	for i, kind := range kinds {
		m := &machine{kind: kind, addr: fmt.Sprintf("198.18.0.%d", 11+i), port: 22, name: fmt.Sprintf("198.18.0.%d", 11+i)}
		if s.loopback {
			m.addr = fmt.Sprintf("127.0.1.%d", 11+i)
			port, err := freePort(m.addr)
			if err != nil {
				return nil, err
			}
			m.port, m.name = port, fmt.Sprintf("%s_%d", m.addr, port)
			m.entry = fmt.Sprintf("%s:%d", m.addr, m.port)
		} else {
			m.entry = m.addr
		}
		if kind == kindGood {
			if !s.loopback {
				m.load = loads[good]
			}
			good++
			// The list may state the address for peers; ssh tells it otherwise.
			if good%2 == 0 {
				m.entry += "\t" + m.addr + " # stated"
			}
		}
		m.home = filepath.Join(b.dir, "hosts", m.addr)
		b.machines = append(b.machines, m)
	}
	if !s.loopback {
		if err := network(ctx, b.machines); err != nil {
			return nil, err
		}
	} else if os.Getuid() == 0 {
		switch err := os.Mkdir(sshdRun, 0o755); {
		case err == nil:
			b.made = true
		case !errors.Is(err, os.ErrExist):
			return b, fmt.Errorf("make directory of sshd: %w", err)
		}
	}
	if err := b.keys(ctx); err != nil {
		return b, err
	}
	for _, m := range b.machines {
		if m.kind == kindSilent {
			continue
		}
		if err := b.serve(ctx, m); err != nil {
			return b, err
		}
	}
	var err error
	b.web, err = newWeb(s.loopback)
	return b, err
}

func freePort(addr string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// network joins a network for each machine by a bridge in this one, which is where the scripts and the site are.
func network(ctx context.Context, machines []*machine) error {
	lines := []string{"link set lo up", "link add " + prefix + " type bridge", "addr add 198.18.0.1/16 dev " + prefix,
		"link set " + prefix + " up", "route add local " + subnet + ".0/24 dev lo"}
	for i, m := range machines {
		if m.kind == kindSilent {
			continue
		}
		ns, link := prefix+strconv.Itoa(i), prefix+strconv.Itoa(i)
		lines = append(lines, "netns add "+ns, fmt.Sprintf("link add %s type veth peer name eth0 netns %s", link, ns),
			fmt.Sprintf("link set %s master %s up", link, prefix))
	}
	for _, l := range lines {
		if err := ip(ctx, strings.Fields(l)...); err != nil {
			return err
		}
	}
	for i, m := range machines {
		if m.kind == kindSilent {
			continue
		}
		for _, l := range []string{"link set lo up", "addr add " + m.addr + "/16 dev eth0", "link set eth0 up"} {
			if err := ip(ctx, append([]string{"-n", prefix + strconv.Itoa(i)}, strings.Fields(l)...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// keys makes the keys of hosts and of the user, and the user's configuration of ssh.
func (b *bed) keys(ctx context.Context) error {
	for _, name := range []string{"host", "other", "user"} {
		c := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(b.dir, name+".key"))
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("make key: %w: %s", err, out)
		}
	}
	host, err := os.ReadFile(filepath.Join(b.dir, "host.key.pub"))
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	var known strings.Builder
	for _, m := range b.machines {
		if m.port == 22 {
			fmt.Fprintf(&known, "%s %s", m.addr, host)
		} else {
			fmt.Fprintf(&known, "[%s]:%d %s", m.addr, m.port, host)
		}
	}
	config := fmt.Sprintf("IdentityFile %[1]s/user.key\nIdentitiesOnly yes\nUserKnownHostsFile %[1]s/known_hosts\n"+
		"GlobalKnownHostsFile none\nStrictHostKeyChecking yes\n", b.dir)
	for name, text := range map[string]string{"known_hosts": known.String(), "ssh_config": config} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// The command that stands in for each one sent: it writes down what was sent, gives the host a home of its own, and cuts
// the answer short where the file cut says after how many bytes.
const stand = `#!/bin/sh
export HOME=%[1]s
cd "$HOME" || exit 1
printf '%%s\n' "$SSH_ORIGINAL_COMMAND" >>%[1]s/commands
if [ -s cut ]; then
	bytes=$(cat cut); rm cut
	sh -c "$SSH_ORIGINAL_COMMAND" | head -c "$bytes"
	exit 1
fi
exec sh -c "$SSH_ORIGINAL_COMMAND"
`

// serve starts the sshd of a machine.
func (b *bed) serve(ctx context.Context, m *machine) error {
	if err := os.Mkdir(m.home, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	user, host := "user.key.pub", "host.key"
	switch m.kind {
	case kindRefuses:
		user = "other.key.pub"
	case kindUnknown:
		host = "other.key"
	}
	config := fmt.Sprintf("Port %d\nListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nMaxStartups 1000\nLogLevel VERBOSE\nForceCommand %s\n",
		m.port, m.addr, filepath.Join(b.dir, host), filepath.Join(b.dir, user), filepath.Join(m.home, "stand"))
	for name, text := range map[string]string{"sshd_config": config, "stand": fmt.Sprintf(stand, m.home),
		"loadavg": m.load + " 0.00 0.00 1/100 1\n"} {
		if err := os.WriteFile(filepath.Join(m.home, name), []byte(text), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	log, err := os.Create(filepath.Join(m.home, "sshd.log"))
	if err != nil {
		return fmt.Errorf("write log of sshd: %w", err)
	}
	defer log.Close()
	args := []string{sshdPath(), "-D", "-e", "-f", filepath.Join(m.home, "sshd_config")}
	// Since OpenSSH 9.8 a host does not answer for a while whose key it refused some times. Older ones do not know the option.
	forgive := []string{"-o", "PerSourcePenalties=no"}
	if exec.CommandContext(ctx, args[0], append([]string{"-t", "-f", args[4]}, forgive...)...).Run() == nil {
		args = append(args, forgive...)
	}
	if !b.s.loopback {
		// ip gives the process mounts of its own: the load is this host's alone.
		mount := fmt.Sprintf("mount --bind %s /proc/loadavg && exec \"$@\"", filepath.Join(m.home, "loadavg"))
		if m.load == "" {
			mount = `exec "$@"`
		}
		last := b.index(m)
		args = append([]string{"ip", "netns", "exec", prefix + strconv.Itoa(last), "sh", "-c", mount, "sh"}, args...)
	}
	m.sshd = exec.Command(args[0], args[1:]...)
	m.sshd.Stdout, m.sshd.Stderr = log, log
	// The thread that starts it lives as long as this program: it is the main one or is kept.
	if err := m.sshd.Start(); err != nil {
		return fmt.Errorf("start sshd: %w", err)
	}
	return b.listening(ctx, m)
}

func (b *bed) index(m *machine) int {
	for i, o := range b.machines {
		if o == m {
			return i
		}
	}
	return -1
}

// listening waits until sshd answers.
func (b *bed) listening(ctx context.Context, m *machine) error {
	for {
		dialer := net.Dialer{Timeout: time.Second}
		c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(m.addr, strconv.Itoa(m.port)))
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(m.home, "sshd.log"))
			return fmt.Errorf("wait for sshd of %s: %w: %s", m.name, ctx.Err(), log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// close ends all that was started. In namespaces the kernel ends the rest; on loopback nodes are looked for.
func (b *bed) close() error {
	var err error
	for _, p := range nodesOf(b.dir) {
		if e := syscall.Kill(p.pid, syscall.SIGKILL); !errors.Is(e, syscall.ESRCH) { // it may have ended meanwhile
			err = errors.Join(err, e)
		}
	}
	for _, m := range b.machines {
		if m.sshd != nil && m.sshd.Process != nil {
			err = errors.Join(err, m.sshd.Process.Kill())
			_ = m.sshd.Wait() // it was killed
		}
	}
	for _, p := range processesOf(b.dir) { // sessions that were still open
		if p.pid != os.Getppid() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	if b.web != nil {
		err = errors.Join(err, b.web.close())
	}
	if b.made {
		err = errors.Join(err, os.Remove(sshdRun))
	}
	return err
}

// expect notes a fault where something does not hold.
func (b *bed) expect(ok bool, format string, args ...any) {
	if !ok {
		fault := fmt.Sprintf(format, args...)
		fmt.Println("FAIL:", fault)
		b.faults = append(b.faults, fault)
	}
}
