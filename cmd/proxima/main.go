// Command proxima is the crawler. This package has flags, output and exit codes, but none of the crawl's logic.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // time zones for sites' hours, on machines without any

	"proxima/node"
	"proxima/node/strict"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1   // the node failed while it ran
	exitUsage    = 2   // wrong flags or configuration
	exitData     = 3   // the data directory is in use or damaged
	exitNothing  = 4   // nothing could be crawled
	exitStopped  = 130 // stopped by Ctrl-C, in order
	exitUnread   = 141 // whoever read its output is gone: that of a program that SIGPIPE ends
	exitNoAnswer = 5   // no node is running there
)

// exit is an error with an exit code. If err is nil, the message was printed before.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

type command struct {
	name, does string
	run        func(ctx context.Context, args []string, out, errs io.Writer) error
	verbs      []string // possible first arguments
}

func commands() []command {
	return append([]command{
		{"node", "run a node: crawl from seeds, or go on where the last run stopped", runNode, nil},
		{"status", "ask a running node what it is doing, or why a host is waiting", runStatus, nil},
		{"members", "list the members of the overlay, as a running node sees them", runMembers, nil},
		{"rtt", "print the round trip between two members", runRTT, nil},
		{"top", "show the largest hosts and servers and the most frequent errors of a running node", runTop, []string{"hosts", "servers", "errors"}},
		{"ctl", "steer a running node: pause or drain it, add seeds, block a host", runCtl, ctlVerbs()},
		{"go-alone", "tell a running node that the nodes it waits for are gone for good", runGoAlone, nil},
		{"keygen", "make the secret that the nodes of an overlay share", runKeygen, nil},
		{"fleet", "run nodes on your own machines over ssh: a long crawl, or a scenario", runFleet, verbNames(fleetVerbs())},
		{"config", "print the complete default configuration", runConfig, nil},
		{"completion", "print the completion for a shell (bash, zsh or fish), or the manual page (man)", runCompletion, []string{"bash", "zsh", "fish", "man"}},
	}, labCommands()...)
}

// verb is a command below a subcommand.
type verb = func(ctx context.Context, args []string, out, errs io.Writer) error

// verbNames lists the verbs for people.
func verbNames(verbs map[string]verb) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(verbs)), func(name string) bool { return name == tendVerb })
}

// runVerb runs the verb that is the first argument.
func runVerb(ctx context.Context, args []string, out, errs io.Writer, usage string, verbs map[string]verb) error {
	if len(args) == 0 {
		fit(errs, usage)
		return exit{code: exitUsage}
	}
	if isHelp(args[0]) {
		fit(out, usage)
		return nil
	}
	if run := verbs[args[0]]; run != nil {
		return run(ctx, args[1:], out, errs)
	}
	command := strings.Fields(usage)[2] // Usage: proxima COMMAND
	return exit{exitUsage, errors.New(unknown("proxima "+command, args, verbNames(verbs)))}
}

func main() {
	// The testbed starts this program again inside namespaces.
	if handled, code := labChild(os.Args[1:]); handled {
		os.Exit(code)
	}
	// net/http reports misbehaving servers to the standard logger. The run log has those downloads anyway.
	log.SetOutput(io.Discard)
	// The first Ctrl-C stops in order, the second one immediately. timeout(1) and other wrappers send one signal twice at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGPIPE) // Ctrl-C has also ended the tee that reads this program's output, and must not end it before it has stopped
		time.AfterFunc(300*time.Millisecond, stop)
	})
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code(err, os.Stderr))
}

// run runs a command, as long as somebody reads what it prints. What it prints and cannot be written is an error of it, unless it has another.
// Ctrl-C has also ended whoever reads.
func run(ctx context.Context, args []string, out, errs io.Writer) error {
	read, unread := context.WithCancel(ctx)
	defer unread()
	printed := &output{Writer: out, unread: unread}
	err := choose(read, args, printed, errs)
	unwritten := printed.failed()
	switch {
	case unwritten == nil || ctx.Err() != nil:
		return err
	case errors.Is(unwritten, syscall.EPIPE):
		return exit{code: exitUnread}
	case err == nil || errors.Is(err, flag.ErrHelp):
		return unwritten
	}
	return err
}

// output is where a command prints. It remembers the first error, so that no command needs to look at each line. Safe for concurrent use.
type output struct {
	io.Writer
	unread func() // called when nobody reads it any more
	first  atomic.Pointer[error]
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.first.CompareAndSwap(nil, &err)
		if errors.Is(err, syscall.EPIPE) {
			o.unread()
		}
	}
	return n, err
}

func (o *output) failed() error {
	if first := o.first.Load(); first != nil {
		return *first
	}
	return nil
}

// Stat says whether a terminal shows what is printed.
func (o *output) Stat() (fs.FileInfo, error) {
	if f, ok := o.Writer.(*os.File); ok {
		return f.Stat()
	}
	return nil, fs.ErrInvalid
}

// choose finds the command that the arguments name, and runs it.
func choose(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) == 0 {
		usage(errs)
		return exit{code: exitUsage}
	}
	switch {
	case args[0] == "help" && len(args) > 1:
		return choose(ctx, append(slices.Clone(args[1:]), "-h"), out, errs)
	case isHelp(args[0]):
		usage(out)
		return nil
	case slices.Contains([]string{"version", "-v", "-version", "--version"}, args[0]):
		if len(args) > 1 && !isHelp(args[1]) {
			return exit{exitUsage, fmt.Errorf("version takes no arguments, got %q", args[1])}
		}
		fmt.Fprintf(out, "proxima %s, %s, %s/%s\n", node.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	var names []string
	for _, c := range commands() {
		if c.name == args[0] {
			err := c.run(ctx, args[1:], out, errs)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return exit{code: exitStopped}
			}
			return err
		}
		names = append(names, c.name)
	}
	return exit{exitUsage, errors.New(unknown("proxima", args, names))}
}

// unknown says what is wrong with a command that is none of those with these names. before is what comes before it in the line.
func unknown(before string, args, names []string) string {
	command := strings.TrimPrefix(before+" "+args[0], "proxima ")
	text := fmt.Sprintf("unknown command %q", command)
	url := slices.IndexFunc(args, func(word string) bool { return strings.Contains(word, "://") })
	switch near := strict.Nearest(args[0], names); {
	case slices.Contains([]string{"demo", "testbed", "sites", "compare", "figures", "simulate", "fleet run"}, command):
		text += ": releases do not have it; build the program from its source (scripts/build/build.sh)"
	case near != "":
		text += ": did you mean " + before + " " + near + "?"
	case url >= 0:
		text += ": did you mean proxima node " + args[url] + "?"
	default:
		text += " (" + before + " help)"
	}
	return text
}

func isHelp(word string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, word)
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "Proxima is a decentralised web crawler. Usage: proxima COMMAND [FLAGS]")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.does)
	}
	fmt.Fprintf(w, "  %-10s %s\n", "version", "print the version")
	fmt.Fprintln(w, "proxima help COMMAND lists the flags of a command.")
}

// code prints an error for a person and returns its exit code.
func code(err error, errs io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	e := exit{exitFailed, err}
	errors.As(err, &e)
	if text := err.Error(); text != "" {
		fmt.Fprintln(errs, "proxima:", text)
	}
	return e.code
}
