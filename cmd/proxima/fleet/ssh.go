// Package fleet reaches machines over ssh: it reads lists of hosts, asks them for their load, divides them into sets, copies files to them,
// and collects logs. With that, package testbed runs scenarios on real machines, and the commands of proxima fleet run long crawls, whose
// nodes need no connection.
package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// SSH runs commands on hosts.
type SSH struct {
	Config  string        // the configuration file for ssh, or "" for the default
	Dir     string        // the directory on the hosts that holds everything, relative to the home directory unless it begins with /
	Timeout time.Duration // to connect
	Jobs    int           // the number of hosts to work on at once
}

// hostScript has the functions that the words of a command name.
//
//go:embed host.sh
var hostScript string

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Below returns an SSH whose directory is below this one's.
func (s SSH) Below(folder string) SSH {
	s.Dir += "/" + folder
	return s
}

// connection is a command that runs on a host.
type connection struct {
	host   Host
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	output bytes.Buffer // of standard error
}

// connect starts a function of host.sh on a host. The words must not contain secrets, since other users of the host can see them. The command
// has its own process group, so that Ctrl-C does not break the connection.
func (s SSH) connect(ctx context.Context, h Host, words ...string) (*connection, error) {
	args := []string{"-T", "-a", "-x", "-o", "BatchMode=yes", "-o", fmt.Sprintf("ConnectTimeout=%d", max(1, int(s.Timeout.Seconds()))),
		"-o", "ConnectionAttempts=1", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "LogLevel=ERROR",
		"-o", "ClearAllForwardings=yes"}
	if s.Config != "" {
		args = append(args, "-F", s.Config)
	}
	if h.port != "" {
		args = append(args, "-p", h.port)
	}
	script := "sh -c " + quote(hostScript) + " sh " + quote(s.Dir)
	for _, w := range words {
		script += " " + quote(w)
	}
	c := &connection{host: h, cmd: exec.CommandContext(ctx, "ssh", append(args, "--", h.target, script)...)}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = 5 * time.Second
	c.cmd.Stderr = &c.output
	in, inErr := c.cmd.StdinPipe()
	out, outErr := c.cmd.StdoutPipe()
	switch err := errors.Join(inErr, outErr, c.cmd.Start()); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, c.fault(errLate, nil)
	case err != nil:
		return nil, fmt.Errorf("host %s: start ssh: %w", h.Name, err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, nil
}

// talk runs a function on a host while do writes what it reads and reads what it writes.
func (s SSH) talk(ctx context.Context, h Host, do func(in io.WriteCloser, out *bufio.Reader) error, words ...string) error {
	limit := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := s.connect(ctx, h, words...)
	if err != nil {
		return err
	}
	err = do(c.in, c.out)
	if err != nil && err != errBroken {
		cancel() // the host would go on
	}
	_ = c.in.Close() // do may have closed it
	ended := c.cmd.Wait()
	switch {
	case ended == nil || limit.Err() == nil:
	case errors.Is(limit.Err(), context.DeadlineExceeded):
		err = errLate
	default:
		err = errStopped
	}
	return c.fault(err, ended)
}

// The errors if the context ends first: by its deadline, or by Ctrl-C.
var errLate, errStopped = errors.New("took too long"), errors.New("stopped")

// errBroken is the error of do if the host has ended before its time, for a reason that ssh or the host tells.
var errBroken = errors.New("broke off")

// Answer runs a function on a host and returns its output.
func (s SSH) Answer(ctx context.Context, h Host, words ...string) (text string, err error) {
	err = s.talk(ctx, h, func(in io.WriteCloser, out *bufio.Reader) error {
		_ = in.Close()
		all, err := io.ReadAll(out)
		text = strings.TrimSpace(string(all))
		return err
	}, words...)
	return text, err
}

// Each calls do for 0 to n-1, at most Jobs at once, and returns all errors.
func (s SSH) Each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(s.Jobs)
	for i := range n {
		g.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = g.Wait() // errs has the errors
	return errors.Join(errs...)
}

// Words for what came of the work on a host.
const (
	OK      = "ok"
	Failed  = "failed"  // the host answered
	Silent  = "silent"  // ssh got no answer
	Refused = "refused" // the host does not accept the user's key
	Unknown = "unknown" // the host's own key is not the known one
)

// Fault is why the work on a host failed.
type Fault struct{ Host, Word, Text string }

func (f *Fault) Error() string { return fmt.Sprintf("host %s: %s: %s", f.Host, f.Word, f.Text) }

// Reason returns the word for why the work on a host failed, and a line for people.
func Reason(err error) (word, text string) {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Word, f.Text
	}
	return Failed, err.Error()
}

// fault tells from an error of this side, the end of ssh and its output why the work failed. It returns nil if it did not.
func (c *connection) fault(local, ended error) error {
	if local == nil && ended == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(c.output.String()), "\n")
	last := control.ReplaceAllString(lines[len(lines)-1], " ")
	has := func(text string) bool { return strings.Contains(last, text) }
	word := Failed
	if code, ok := errors.AsType[*exec.ExitError](ended); ok && code.ExitCode() == 255 { // that of ssh itself
		switch {
		case has("Permission denied"), has("Too many authentication"):
			word = Refused
		case has("Host key verification failed"), has("host key"):
			word = Unknown
		default:
			word = Silent
		}
	}
	switch {
	case last == "":
		last = cmp.Or(local, ended).Error()
	case local != nil && local != errBroken:
		last = fmt.Sprintf("%v: %s", local, last)
	}
	return &Fault{c.host.Name, word, last}
}

// control matches what would control the terminal.
var control = regexp.MustCompile(`[[:cntrl:]]`)

// Conversation is a program on a host that reads and writes lines. It ends when the connection ends.
type Conversation struct {
	*connection
	Lines <-chan string   // closed at the end
	Over  <-chan struct{} // closed when Ended does not wait any more
	err   error           // set before Over is closed
}

// patience is how long Close waits for the end of a program.
const patience = 20 * time.Second

// Converse starts a script in the directory on a host.
func (s SSH) Converse(h Host, script string) (*Conversation, error) {
	to, err := s.connect(context.Background(), h, "within", script)
	if err != nil {
		return nil, err
	}
	lines, over := make(chan string, 16), make(chan struct{})
	c := &Conversation{connection: to, Lines: lines, Over: over}
	go func() {
		defer close(over)
		scanner := bufio.NewScanner(c.out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
		c.err = c.fault(scanner.Err(), c.cmd.Wait())
	}()
	return c, nil
}

// Host returns the name of the host.
func (c *Conversation) Host() string { return c.host.Name }

// Ended waits for the end and returns the error of the program or the connection.
func (c *Conversation) Ended() error {
	<-c.Over
	return c.err
}

// Say sends a line. If that fails, Ended says why.
func (c *Conversation) Say(line string) { _, _ = io.WriteString(c.in, line+"\n") }

// Close ends the program and waits for its end.
func (c *Conversation) Close() {
	_ = c.in.Close()
	late := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() }) // the connection hangs
	defer late.Stop()
	for range c.Lines { // discard them
	}
	<-c.Over
}
