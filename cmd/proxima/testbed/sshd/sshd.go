// Package sshd runs real SSH servers on this machine, for tests of programs that reach hosts over ssh. Each server plays one host with
// an address, a home directory and a host key of its own. It needs OpenSSH's sshd, ssh and ssh-keygen, and no root.
package sshd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/node/bell"
)

// Host is a machine that a server plays.
type Host struct {
	Addr string
	// Port is the port to listen on; 0 picks a free one.
	Port int
	// Refuses makes the server reject the user's key. Unknown makes it present a host key that the user does not know.
	Refuses, Unknown bool
}

// Config describes the servers.
type Config struct {
	// Dir receives the keys, the user's ssh_config and, in hosts/ADDR, the homes of the hosts.
	Dir   string
	Hosts []Host
	// Before is shell code that runs in the host's home before each command that a client sends.
	Before string
	// Start starts the server of Hosts[i]. Nil starts it in this process's network.
	Start func(i int, cmd *exec.Cmd) error
}

// Servers are running SSH servers.
type Servers struct {
	Hosts []Host // with their ports
	dir   string
	cmds  []*exec.Cmd
}

// Find returns the path of sshd. Its error says which program is missing.
func Find() (string, error) {
	for _, name := range []string{"ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", fmt.Errorf("%s is not installed", name)
		}
	}
	// sbin is not in the PATH of ordinary users, and sshd must be started by its absolute path.
	for _, name := range []string{"sshd", "/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", errors.New("sshd is not installed (package openssh-server)")
}

// Start makes keys and starts the servers. It returns when all of them listen. After an error nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Servers, err error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	s := &Servers{Hosts: slices.Clone(cfg.Hosts), dir: cfg.Dir}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start SSH servers: %w", err), s.Close())
		}
	}()
	if os.Getuid() == 0 { // where an sshd of root separates its privileges
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return nil, err
		}
	}
	if err := s.keys(ctx); err != nil {
		return nil, err
	}
	for i := range s.Hosts {
		if err := s.start(ctx, program, cfg, i); err != nil {
			return nil, err
		}
	}
	for _, h := range s.Hosts {
		if err := s.await(ctx, h); err != nil {
			return nil, err
		}
	}
	return s, s.configure()
}

// SSHConfig returns the path of the user's configuration of ssh.
func (s *Servers) SSHConfig() string { return filepath.Join(s.dir, "ssh_config") }

// Home returns the home directory of a host.
func (s *Servers) Home(addr string) string { return filepath.Join(s.dir, "hosts", addr) }

// Log returns the path of a server's log.
func (s *Servers) Log(addr string) string { return filepath.Join(s.Home(addr), "sshd.log") }

// Pid returns the process id of Hosts[i]'s server.
func (s *Servers) Pid(i int) int { return s.cmds[i].Process.Pid }

// Close kills the servers. It does not kill the commands that clients are running.
func (s *Servers) Close() (err error) {
	for _, c := range s.cmds {
		err = errors.Join(err, c.Process.Kill())
		_ = c.Wait() // it was killed
	}
	s.cmds = nil
	return err
}

// keys makes the host key, the user's key, and another key that takes their places where they shall not fit.
func (s *Servers) keys(ctx context.Context) error {
	for _, name := range []string{"host", "user", "other"} {
		c := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, name+".key"))
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("make key: %w: %s", err, out)
		}
	}
	return nil
}

func (s *Servers) start(ctx context.Context, program string, cfg Config, i int) error {
	h := &s.Hosts[i]
	if h.Port == 0 {
		l, err := net.Listen("tcp", net.JoinHostPort(h.Addr, "0"))
		if err != nil {
			return err
		}
		h.Port = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
	}
	home := s.Home(h.Addr)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	user, host := "user.key.pub", "host.key"
	if h.Refuses {
		user = "other.key.pub"
	}
	if h.Unknown {
		host = "other.key"
	}
	config := fmt.Sprintf("Port %d\nListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nMaxStartups 1000\nLogLevel VERBOSE\nForceCommand %s\n",
		h.Port, h.Addr, filepath.Join(s.dir, host), filepath.Join(s.dir, user), filepath.Join(home, "command"))
	command := fmt.Sprintf("#!/bin/sh\nexport HOME=%s\ncd \"$HOME\" || exit 1\n%s\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n", home, cfg.Before)
	for name, text := range map[string]string{"sshd_config": config, "command": command} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	log, err := os.Create(s.Log(h.Addr))
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", "-e", "-f", filepath.Join(home, "sshd_config")}
	// Since OpenSSH 9.8 a server ignores a client for a while after it has refused some keys. Older versions lack the option.
	forgive := []string{"-o", "PerSourcePenalties=no"}
	if exec.CommandContext(ctx, program, append([]string{"-t", "-f", args[3]}, forgive...)...).Run() == nil {
		args = append(args, forgive...)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if cfg.Start == nil {
		err = cmd.Start()
	} else {
		err = cfg.Start(i, cmd)
	}
	if err == nil {
		s.cmds = append(s.cmds, cmd)
	}
	return err
}

// await waits until the server has logged that it listens. The log is readable from outside the server's network namespace.
func (s *Servers) await(ctx context.Context, h Host) error {
	for {
		log, err := os.ReadFile(s.Log(h.Addr))
		if err != nil || bytes.Contains(log, []byte("Server listening on")) {
			return err
		}
		if err := bell.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the server at %s: %w: %s", h.Addr, err, log)
		}
	}
}

func (s *Servers) configure() error {
	key, err := os.ReadFile(filepath.Join(s.dir, "host.key.pub"))
	if err != nil {
		return err
	}
	var known strings.Builder
	for _, h := range s.Hosts {
		name := h.Addr
		if h.Port != 22 {
			name = fmt.Sprintf("[%s]:%d", h.Addr, h.Port)
		}
		fmt.Fprintf(&known, "%s %s", name, key)
	}
	config := fmt.Sprintf("IdentityFile %[1]s/user.key\nIdentitiesOnly yes\nUserKnownHostsFile %[1]s/known_hosts\n"+
		"GlobalKnownHostsFile none\nStrictHostKeyChecking yes\n", s.dir)
	return errors.Join(os.WriteFile(filepath.Join(s.dir, "known_hosts"), []byte(known.String()), 0o600),
		os.WriteFile(s.SSHConfig(), []byte(config), 0o600))
}
