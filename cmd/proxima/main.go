// Command proxima is the crawler: one subcommand a file. It owns flags, terminal and exit codes; no logic of the crawl.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // zones of sites' hours, on machines that have none

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
	exitNoAnswer = 5   // no node is running there
)

// exit is an error with an exit code; its text is empty where everything has been said.
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
	verbs      []string // what it takes as its first argument
}

func commands() []command {
	return append([]command{
		{"node", "run a node: crawl from seeds, or go on where the last run stopped", runNode, nil},
		{"status", "ask a running node what it is doing, or why a host is waiting", runStatus, nil},
		{"members", "list the members of the overlay, as a running node sees them", runMembers, nil},
		{"rtt", "say how far two members are from each other", runRTT, nil},
		{"top", "show the hosts, servers and errors that a running node has most of", runTop, []string{"hosts", "servers", "errors"}},
		{"ctl", "steer a running node: pause or drain it, add seeds, block a host", runCtl, ctlVerbs()},
		{"go-alone", "tell a running node that the nodes which it waits for are gone for good", runGoAlone, nil},
		{"keygen", "make the secret that the nodes of an overlay share", runKeygen, nil},
		{"config", "print the complete default configuration", runConfig, nil},
		{"completion", "print the completion of a shell (bash, zsh or fish), or the manual page (man)", runCompletion, []string{"bash", "zsh", "fish", "man"}},
	}, labCommands()...)
}

func main() {
	// The testbed starts this program again inside namespaces.
	if handled, code := labChild(os.Args[1:]); handled {
		os.Exit(code)
	}
	// net/http writes of servers that misbehave to the standard logger; their downloads are logged with a reason anyway.
	log.SetOutput(io.Discard)
	// The first Ctrl-C stops in order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code(err, os.Stderr))
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) == 0 {
		usage(errs)
		return exit{code: exitUsage}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if args[0] == "help" && len(args) > 1 {
			return run(ctx, append(slices.Clone(args[1:]), "-h"), out, errs)
		}
		usage(out)
		return nil
	case "version", "-v", "-version", "--version":
		fmt.Fprintf(out, "proxima %s, %s, %s/%s\n", node.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	var names []string
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out, errs)
		}
		names = append(names, c.name)
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	url := slices.IndexFunc(args, func(word string) bool { return strings.Contains(word, "://") })
	switch near := strict.Nearest(args[0], names); {
	case near != "":
		text += ": did you mean proxima " + near + "?"
	case url >= 0:
		text += ": did you mean proxima node " + args[url] + "?"
	default:
		text += " (proxima help)"
	}
	return exit{exitUsage, errors.New(text)}
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "Proxima is a decentralised web crawler. Usage: proxima COMMAND [FLAGS]")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.does)
	}
	fmt.Fprintf(w, "  %-10s %s\n", "version", "say which version this is")
	fmt.Fprintln(w, "proxima help COMMAND lists the flags of a command.")
}

// code prints an error for a person and returns the exit code it means.
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
