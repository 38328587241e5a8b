//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sshd"
	"proxima/scripts/lab"
)

// Kinds of machines, named as proxima fleet names the trouble with them.
const (
	kindGood    = "ok"
	kindRefused = "refused" // the machine does not know our key
	kindUnknown = "unknown" // we do not know the machine's key
	kindSilent  = "silent"  // no SSH server
)

type machine struct {
	sshd.Host
	name  string // in results
	kind  string
	load  string // in its /proc/loadavg; "" is the load of this machine
	home  string
	entry string // its line in the list
	pid   int    // of its SSH server
}

// path returns a file below the node's directory on the machine.
func (m *machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.home, "proxima"}, parts...)...)
}

// bed is the machines, the site, and the network between them.
type bed struct {
	settings
	machines []*machine
	servers  *sshd.Servers
	web      *web
	net      *emulate.Net // nil on loopback
	end      func() error // of net
	faults   []string
}

// here is the namespace of the commands and of the site. On loopback nothing has a namespace.
const here = "here"

// The six least loaded of the seven good machines make two sets of three.
var loads = [...]string{"0.10", "5.00", "0.20", "0.30", "0.40", "0.50", "0.60"}

// before logs each command that a client sends, and cuts the answer short if the file "cut" says after how many bytes.
const before = `printf '%s\n' "$SSH_ORIGINAL_COMMAND" >>commands
if [ -s cut ]; then
	bytes=$(cat cut); rm cut
	trap 'exit 1' TERM
	sh -c "$SSH_ORIGINAL_COMMAND" | { dd bs=1 count="$bytes" 2>/dev/null; kill 0; } # head would hold back
fi`

// newBed builds everything. Close the bed even after an error.
func newBed(ctx context.Context, s settings) (b *bed, err error) {
	b = &bed{settings: s}
	if err := os.Mkdir(filepath.Join(b.Dir, "tmp"), 0o755); err != nil {
		return b, fmt.Errorf("make directory: %w", err)
	}
	prefix := "198.18.0."
	if s.loopback {
		prefix = "127.0.1."
	}
	kinds := append([]string{kindRefused, kindUnknown, kindSilent}, slices.Repeat([]string{kindGood}, len(loads))...)
	for i, kind := range kinds {
		m := &machine{kind: kind, Host: sshd.Host{Addr: prefix + strconv.Itoa(11+i), Port: 22, Refuses: kind == kindRefused, Unknown: kind == kindUnknown}}
		if s.loopback {
			m.Port = 0
		} else if kind == kindGood {
			m.load = loads[i-(len(kinds)-len(loads))]
		}
		b.machines = append(b.machines, m)
	}
	if !s.loopback {
		if err := b.connect(ctx); err != nil {
			return b, err
		}
	}
	if err := b.serve(ctx); err != nil {
		return b, err
	}
	return b, b.at(here, func() (err error) {
		b.web, err = newWeb(s.loopback)
		return err
	})
}

func (b *bed) bad() []*machine {
	return slices.DeleteFunc(slices.Clone(b.machines), func(m *machine) bool { return m.kind == kindGood })
}

// connect gives each machine a network of its own, and one to the commands and the site.
func (b *bed) connect(ctx context.Context) (err error) {
	cfg := emulate.Config{Path: func(int, int) emulate.Path { return emulate.Path{} }}
	add := func(addr, namespace string) {
		cfg.Endpoints = append(cfg.Endpoints, emulate.Endpoint{Addr: netip.MustParseAddr(addr), Namespace: namespace})
	}
	add("198.18.0.1", here)
	for _, m := range b.machines {
		add(m.Addr, m.Addr)
	}
	for i := range ringHosts + lateHosts {
		add(fmt.Sprintf("%s.%d", subnet, firstHost+i), here)
	}
	if b.net, err = emulate.New(cfg); err != nil {
		return err
	}
	b.end = lab.Beside(context.WithoutCancel(ctx), b.net.Run)
	return nil
}

func (b *bed) at(namespace string, f func() error) error {
	if b.net == nil {
		return f()
	}
	return b.net.Do(namespace, f)
}

func (b *bed) start(namespace string, cmd *exec.Cmd) error {
	if b.net == nil {
		return cmd.Start()
	}
	return b.net.Start(namespace, cmd)
}

// serve starts the SSH servers of all machines that have one.
func (b *bed) serve(ctx context.Context) (err error) {
	var with []*machine
	cfg := sshd.Config{Dir: b.Dir, Before: before}
	for _, m := range b.machines {
		if m.kind != kindSilent {
			with, cfg.Hosts = append(with, m), append(cfg.Hosts, m.Host)
		}
	}
	cfg.Start = func(i int, cmd *exec.Cmd) error {
		if m := with[i]; m.load != "" {
			if err := b.loaded(m, cmd); err != nil {
				return err
			}
		}
		return b.start(with[i].Addr, cmd)
	}
	if b.servers, err = sshd.Start(ctx, cfg); err != nil {
		return err
	}
	for i, m := range with {
		m.Port, m.home, m.pid = b.servers.Hosts[i].Port, b.servers.Home(m.Addr), b.servers.Pid(i)
	}
	for i, m := range b.machines {
		m.name, m.entry = m.Addr, m.Addr
		if b.loopback {
			if m.kind == kindSilent {
				m.Port = 9 // discard: nobody listens
			}
			m.name, m.entry = fmt.Sprintf("%s_%d", m.Addr, m.Port), fmt.Sprintf("%s:%d", m.Addr, m.Port)
		}
		if m.kind == kindGood && i%2 == 0 { // some lines state the address for peers; ssh finds out the others
			m.entry += "\t" + m.Addr + " # stated"
		}
	}
	return nil
}

// loaded gives a command a mount namespace in which /proc/loadavg shows the machine's load.
func (b *bed) loaded(m *machine, cmd *exec.Cmd) error {
	file := filepath.Join(b.Dir, "hosts", m.Addr, "loadavg")
	if err := os.WriteFile(file, []byte(m.load+" 0.00 0.00 1/100 1\n"), 0o644); err != nil {
		return fmt.Errorf("write load: %w", err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	cmd.Args = append([]string{"sh", "-c", "mount --bind " + file + ` /proc/loadavg && exec "$@"`, "sh"}, cmd.Args...)
	cmd.Path, cmd.SysProcAttr = shell, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	return nil
}

// close ends everything that was started, including nodes and sessions that outlive the SSH servers.
func (b *bed) close() error {
	var errs []error
	if b.servers != nil {
		errs = append(errs, b.servers.Close())
	}
	for _, p := range lab.ProcessesOf(b.Dir) {
		_ = syscall.Kill(p.Pid, syscall.SIGKILL) // it may have ended meanwhile
	}
	if b.web != nil {
		errs = append(errs, b.web.close())
	}
	if b.net != nil {
		errs = append(errs, b.end())
	}
	return errors.Join(errs...)
}

func (b *bed) expect(ok bool, format string, args ...any) {
	if !ok {
		fault := fmt.Sprintf(format, args...)
		fmt.Println("FAIL:", fault)
		b.faults = append(b.faults, fault)
	}
}

func nodesOf(dir string) []lab.Other {
	return slices.DeleteFunc(lab.ProcessesOf(dir), func(p lab.Other) bool {
		return filepath.Base(strings.TrimSuffix(p.Exe, " (deleted)")) != "proxima"
	})
}

// leftovers lists the processes and the temporary files of a folder.
func leftovers(dir string) (left []string) {
	for _, p := range lab.ProcessesOf(dir) {
		left = append(left, fmt.Sprintf("process %d (%.100s)", p.Pid, strings.Join(p.Args, " ")))
	}
	files, _ := os.ReadDir(filepath.Join(dir, "tmp"))
	for _, f := range files {
		left = append(left, filepath.Join(dir, "tmp", f.Name()))
	}
	return left
}
