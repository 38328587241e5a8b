package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"proxima/cmd/proxima/fleet"
	"proxima/frontier/identity"
	"proxima/node"
)

const fleetUsage = `Usage: proxima fleet run SCENARIO | select | deploy | start | status | stop | collect,
       each with -hosts FILE [FLAGS]
Runs nodes on your own machines, over ssh. "run" runs each assigner of a scenario in turn and collects the results; releases do not have it. The others are for long crawls, whose nodes need no connection. "proxima fleet VERB -h" lists the flags of each.
FILE has a line [USER@]HOST[:PORT] [ADDRESS-FOR-PEERS] for each machine.
`

func runFleet(ctx context.Context, args []string, out, errs io.Writer) error {
	return runVerb(ctx, args, out, errs, fleetUsage, fleetVerbs())
}

// tendVerb is what fleet run starts on a host. It is not for people.
const tendVerb = "tend"

func fleetVerbs() map[string]verb {
	verbs := longCrawls()
	maps.Copy(verbs, labVerbs())
	return verbs
}

// fleetFlags are the flags that all verbs share.
type fleetFlags struct {
	*flagSet
	ssh   fleet.SSH
	hosts string
}

func newFleetFlags(verb string, out io.Writer, before, dir string, jobs int) *fleetFlags {
	f := &fleetFlags{flagSet: newFlags("fleet "+verb, out, before, "")}
	f.StringVar(&f.hosts, "hosts", "", "`file` that lists the hosts for nodes")
	f.StringVar(&f.ssh.Config, "F", os.Getenv("SSH_CONFIG"), "`file` that configures ssh")
	f.StringVar(&f.ssh.Dir, "dir", dir, "`directory` on each host, below the home directory if it does not begin with /")
	f.IntVar(&f.ssh.Jobs, "jobs", jobs, "`number` of hosts to work on at once")
	inSeconds(f.FlagSet, &f.ssh.Timeout, "timeout", 10*time.Second, "`time` that a connection may take")
	return f
}

// inSeconds adds a flag of a duration. A number without a unit is one of seconds.
func inSeconds(flags *flag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Func(name, fmt.Sprintf("%s (default %v)", usage, value), func(text string) (err error) {
		if _, bad := strconv.Atoi(text); bad == nil {
			text += "s"
		}
		if err = take(d, text); err == nil && *d < 0 {
			err = errors.New("it is negative")
		}
		return err
	})
}

// readList reads the list of hosts, after it has checked the other flags.
func (f *fleetFlags) readList() ([]fleet.Host, error) {
	f.ssh.Dir = strings.TrimPrefix(f.ssh.Dir, "~/")
	var unreadable error
	if f.ssh.Config != "" {
		_, unreadable = os.Stat(f.ssh.Config)
	}
	switch {
	case f.hosts == "":
		return nil, f.wrong("-hosts is missing")
	case f.ssh.Jobs < 1:
		return nil, f.wrong("-jobs must be at least 1")
	case strings.Trim(path.Clean(f.ssh.Dir), "./ ") == "": // what is there is deleted
		return nil, f.wrong("-dir cannot be %q", f.ssh.Dir)
	case unreadable != nil:
		return nil, f.wrong("-F: %v", unreadable)
	}
	hosts, err := fleet.ReadHosts(f.hosts)
	if err != nil {
		return nil, exit{exitUsage, err}
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return nil, exit{exitData, errors.New("ssh is not installed here")}
	}
	return hosts, nil
}

func (f *fleetFlags) programs() *[]string {
	var paths []string
	f.Func("proxima", "`file` that is copied to the hosts; this program by default; repeat it for other kinds of processors", func(path string) error {
		paths = append(paths, path)
		return nil
	})
	return &paths
}

func (f *fleetFlags) wrong(format string, args ...any) error {
	return exit{exitUsage, fmt.Errorf("%s (%s -h)", fmt.Sprintf(format, args...), f.Name())}
}

func fleetSeeds(ctx context.Context, file string, out io.Writer) (list []string, err error) {
	var c node.Config
	c.Crawl.Seeds = []string{file}
	urls, err := untilStopped(ctx, func() ([]identity.URL, error) { return readSeeds(c, nil, os.Stdin, out) })
	for _, u := range urls {
		list = append(list, u.String())
	}
	return list, err
}
