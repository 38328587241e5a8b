package testbed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Host is a machine that ssh reaches.
type Host struct {
	// Name is that of its results: the host, with the port where one is stated.
	Name         string
	target, port string // for ssh
	// Addresses are those that others dial; the first is that of a node.
	Addresses []netip.Addr
	entry     string // its line in the list
}

var hostForm = regexp.MustCompile(`^(([A-Za-z0-9._][A-Za-z0-9._-]*@)?(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*))(:([0-9]{1,5}))?$`)

// ReadHosts reads a list of hosts: [USER@]HOST[:PORT] [ADDRESS ...] a line, # begins a comment. A host stands there once.
func ReadHosts(path string) ([]Host, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read list of hosts: %w", err)
	}
	var list []Host
	seen := map[string]bool{}
	for number, line := range strings.Split(string(text), "\n") {
		fault := func(format string, args ...any) ([]Host, error) {
			return nil, fmt.Errorf("%s:%d: %s", path, number+1, fmt.Sprintf(format, args...))
		}
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		m := hostForm.FindStringSubmatch(fields[0])
		if m == nil {
			return fault("%s is not [USER@]HOST[:PORT]", fields[0])
		}
		h := Host{Name: strings.Trim(m[3], "[]"), target: m[2] + strings.Trim(m[3], "[]"), port: m[5], entry: strings.Join(fields, " ")}
		if h.port != "" {
			h.Name += "_" + h.port
		}
		if seen[h.Name] {
			return fault("%s stands in the list twice", h.Name)
		}
		seen[h.Name] = true
		for _, f := range fields[1:] {
			a, err := netip.ParseAddr(f)
			if err != nil {
				return fault("%s is not an IP address", f)
			}
			h.Addresses = append(h.Addresses, a)
		}
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no host", path)
	}
	return list, nil
}

// remote is how hosts are reached, and where everything is on them.
type remote struct {
	config  string // file for ssh; "" for its own
	dir     string // below the home where it does not begin with /
	seconds int    // that a connection may take
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// command runs a script of a POSIX shell in the directory on a host. Nothing secret may be in the script, which others there can see.
// It is in a process group of its own: Ctrl-C ends what it does in order, not the connection.
func (r remote) command(ctx context.Context, h Host, script string) *exec.Cmd {
	args := []string{"-T", "-a", "-x", "-o", "BatchMode=yes", "-o", fmt.Sprintf("ConnectTimeout=%d", r.seconds), "-o", "ConnectionAttempts=1",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "LogLevel=ERROR", "-o", "ClearAllForwardings=yes"}
	if r.config != "" {
		args = append(args, "-F", r.config)
	}
	if h.port != "" {
		args = append(args, "-p", h.port)
	}
	script = "set -eu; umask 077; mkdir -p " + quote(r.dir) + "; cd " + quote(r.dir) + "; " + script
	cmd := exec.CommandContext(ctx, "ssh", append(args, "--", h.target, "sh -c "+quote(script))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a script to its end, with in as its input, and writes what it says to out.
func (r remote) run(ctx context.Context, h Host, script string, in io.Reader, out io.Writer) error {
	cmd := r.command(ctx, h, script)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	if err := cmd.Run(); err != nil {
		return hostError(h, err, said.String())
	}
	return nil
}

// answer is what a script says.
func (r remote) answer(ctx context.Context, h Host, script string) (string, error) {
	var out strings.Builder
	err := r.run(ctx, h, script, nil, &out)
	return strings.TrimSpace(out.String()), err
}

// hostError says what is wrong with a host in the last words that it, or ssh, had.
func hostError(h Host, err error, said string) error {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := strings.Map(func(c rune) rune { // a terminal is not a host's to control
		if c < ' ' {
			return ' '
		}
		return c
	}, lines[len(lines)-1])
	if last == "" {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return fmt.Errorf("host %s: %w: %s", h.Name, err, last)
}

// conversation is a program on a host that answers lines with lines. It ends with the connection.
type conversation struct {
	host  Host
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at the end
	said  bytes.Buffer
	over  chan struct{}
	err   error // once over is closed
}

func (r remote) converse(h Host, script string) (*conversation, error) {
	c := &conversation{host: h, cmd: r.command(context.Background(), h, script), lines: make(chan string, 16), over: make(chan struct{})}
	c.cmd.Stderr = &c.said
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", h.Name, err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", h.Name, err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("host %s: start ssh: %w", h.Name, err)
	}
	go func() {
		defer close(c.over)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			c.lines <- scanner.Text()
		}
		close(c.lines)
		err := errors.Join(scanner.Err(), c.cmd.Wait())
		if err != nil {
			c.err = hostError(h, err, c.said.String())
		}
	}()
	return c, nil
}

// say sends a line; where it cannot, the end of the conversation tells why.
func (c *conversation) say(line string) { _, _ = io.WriteString(c.in, line+"\n") }

// close ends the program and waits.
func (c *conversation) close() {
	_ = c.in.Close()
	for {
		select {
		case <-c.lines: // nobody reads them any more
		case <-c.over:
			return
		case <-time.After(stopPatience):
			_ = c.cmd.Process.Kill() // the connection hangs
		}
	}
}
