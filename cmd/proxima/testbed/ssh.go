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

// Host is a machine that can be reached over ssh.
type Host struct {
	// Name is the host, followed by the port if the list states one.
	Name         string
	target, port string // for ssh
	// Addresses are those that others dial. A node has the first one.
	Addresses []netip.Addr
	entry     string // its line in the list of hosts
}

var hostForm = regexp.MustCompile(`^(([A-Za-z0-9._][A-Za-z0-9._-]*@)?(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*))(:([0-9]{1,5}))?$`)

// ReadHosts reads a list of different hosts. Each line has the form [USER@]HOST[:PORT] [ADDRESS ...]. A # begins a comment.
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
			return fault("%s is listed twice", h.Name)
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

// remote runs commands on hosts over ssh.
type remote struct {
	config  string // configuration file for ssh; "" for the default
	dir     string // on the hosts; relative to the home directory unless it begins with /
	seconds int    // to connect
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// command returns a command that runs a POSIX shell script in the directory on a host. The script must not contain secrets, since other users
// of the host can see it. The command has its own process group, so that Ctrl-C does not break the connection.
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

// run runs a script to its end. The script reads in and writes to out.
func (r remote) run(ctx context.Context, h Host, script string, in io.Reader, out io.Writer) error {
	cmd := r.command(ctx, h, script)
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &output
	if err := cmd.Run(); err != nil {
		return hostError(h, err, output.String())
	}
	return nil
}

// answer runs a script and returns its output.
func (r remote) answer(ctx context.Context, h Host, script string) (string, error) {
	var out strings.Builder
	err := r.run(ctx, h, script, nil, &out)
	return strings.TrimSpace(out.String()), err
}

// hostError adds the name of the host and the last line of its output to an error.
func hostError(h Host, err error, output string) error {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	last := strings.Map(func(c rune) rune { // a host must not control the terminal
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

// conversation is a program on a host that reads and writes lines. It ends when the connection ends.
type conversation struct {
	ending
	host   Host
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string  // closed at the end
	output bytes.Buffer // of standard error
}

func (r remote) converse(h Host, script string) (*conversation, error) {
	c := &conversation{ending: newEnding(), host: h, cmd: r.command(context.Background(), h, script), lines: make(chan string, 16)}
	c.cmd.Stderr = &c.output
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
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			c.lines <- scanner.Text()
		}
		close(c.lines)
		err := errors.Join(scanner.Err(), c.cmd.Wait())
		if err != nil {
			err = hostError(h, err, c.output.String())
		}
		c.end(err)
	}()
	return c, nil
}

// say sends a line. If that fails, the conversation's error says why.
func (c *conversation) say(line string) { _, _ = io.WriteString(c.in, line+"\n") }

// close ends the program and waits for its end.
func (c *conversation) close() {
	_ = c.in.Close()
	late := time.AfterFunc(stopPatience, func() { _ = c.cmd.Process.Kill() }) // the connection hangs
	defer late.Stop()
	for range c.lines { // discard them
	}
	<-c.over
}
