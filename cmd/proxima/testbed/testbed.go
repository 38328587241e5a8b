// Package testbed runs scenarios: identical nodes on an emulated Internet on this machine, with what happens to them and when.
//
// It reads scenarios, draws what they leave open, runs them, and writes the folder of the run, whose layout package rundir defines.
// Packets are the task of testbed/emulate and node/netsim, pages that of testbed/sites, geography that of world, and figures that of
// compare.
//
// A run has one of three platforms: network namespaces with real processes and real TCP on Linux; one process with the portable
// emulation; or real machines, which Fleet reaches over ssh.
package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/world"
	"proxima/node/strict"
)

// Options say how to run a scenario.
type Options struct {
	Dir      string // of the run; it must be empty or absent
	Seed     uint64 // draws what the scenario leaves open; 0 takes the scenario's
	Separate bool   // one run for each assigner, even if the scenario does not ask for it
	// RTT and Cities are the files of a measured matrix in place of the scenario's. Either both are empty or none is.
	RTT, Cities string
	Keep        bool // leave the nodes running after the end of the scenario until the context ends
	// Emulation is emulate.Portable or, inside namespaces, emulate.TUN, emulate.Veth, or "" for the better of the two that works here.
	Emulation string
	// FakeClock says that the portable emulation runs in a bubble of testing/synctest, which the kernel's timers cannot wake.
	FakeClock bool
	Command   string    // the command line, which the folder of the run records
	Out       io.Writer // receives messages and progress for people
}

// Part is a run of a scenario.
type Part struct {
	Dir      string
	Scenario Scenario // as the run executes it; the folder records its text
}

// Parts returns the runs of a scenario: one, or one for each assigner.
func Parts(s Scenario, o Options) []Part {
	separate := (o.Separate || s.Separate) && len(s.Assigners) > 1
	s = s.as(o.Seed, s.Assigners...)
	s.Matrix.RTT, s.Matrix.Cities = cmp.Or(o.RTT, s.Matrix.RTT), cmp.Or(o.Cities, s.Matrix.Cities)
	if !separate {
		return []Part{{o.Dir, s}}
	}
	var parts []Part
	for _, a := range s.Assigners {
		parts = append(parts, Part{filepath.Join(o.Dir, a), s.as(s.Seed, a)})
	}
	return parts
}

// as returns the scenario as one run executes it: with these assigners, and with a seed unless it is 0.
func (s Scenario) as(seed uint64, assigners ...string) Scenario {
	s.Seed, s.Assigners, s.Separate = cmp.Or(seed, s.Seed), assigners, false
	return s
}

// Run runs a scenario. It returns when everything that it started has ended. Every emulation except the portable one needs a process
// inside the namespaces (emulate.Reexec).
func Run(ctx context.Context, s Scenario, o Options) error {
	out := terminal.New(o.Out)
	parts := Parts(s, o)
	matrix, err := parts[0].Scenario.matrix()
	if err != nil {
		return err
	}
	if matrix.Unused != "" {
		out.Say("%s", matrix.Unused)
	}
	release, err := rundir.Claim(o.Dir)
	if err != nil {
		return err
	}
	defer release()
	if len(parts) == 1 {
		return runOne(ctx, parts[0], matrix, o, out)
	}
	if err := emptyFolder(o.Dir); err != nil {
		return err
	}
	for i, p := range parts {
		out.Say("run %d of %d: assigner %s", i+1, len(parts), p.Scenario.Assigners[0])
		if err := runOne(ctx, p, matrix, o, out); err != nil {
			return fmt.Errorf("assigner %s: %w", p.Scenario.Assigners[0], err)
		}
	}
	return nil
}

// LoadDrawable loads a scenario as Load does. It says why no world can be drawn for it: a place that is no city, with its line where no setting
// has written the text anew, or files of round trips that cannot be read.
func LoadDrawable(name string, o Options, set ...string) (Scenario, error) {
	s, err := Load(name, set...)
	if err != nil {
		return Scenario{}, err
	}
	drawn := Parts(s, o)[0].Scenario
	m, err := drawn.matrix()
	if err == nil {
		_, err = Draw(drawn, m)
	}
	var where *misplaced
	if file, text, again := read(name); errors.As(err, &where) && len(set) == 0 && again == nil {
		err = fmt.Errorf("%s:%d: %w", file, strict.Lines(text).Find(where.key), where)
	}
	return s, err
}

func runOne(ctx context.Context, p Part, m *world.Matrix, o Options, out terminal.Printer) (err error) {
	s, dir := p.Scenario, p.Dir
	plan, err := Draw(s, m)
	if err != nil {
		return err
	}
	r := &run{plan: plan, dir: dir, keep: o.Keep, command: o.Command, out: out}
	if err := r.prepare(); err != nil {
		return err
	}
	if err := writeGeo(plan, filepath.Join(dir, geoFile)); err != nil {
		return err
	}
	out.Say("scenario %s, seed %d, assigners %s: %d nodes, %d servers", s.Name, s.Seed, strings.Join(s.Assigners, ", "), len(plan.Nodes),
		len(plan.Servers))
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	if o.Emulation == emulate.Portable {
		r.platform, err = newPortable(ctx, r, o.FakeClock, broken)
	} else {
		r.platform, err = newNamespaces(ctx, r, o.Emulation, broken)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.platform.close()) }()
	if err := r.writeSeeds(r.platform.frontPages()); err != nil {
		return err
	}
	return r.execute(ctx)
}

// matrix returns the scenario's matrix of round trips: that of its files, or a synthetic one.
func (s Scenario) matrix() (*world.Matrix, error) {
	if s.Matrix.RTT == "" {
		return world.Synthetic(world.Cities(), s.Seed), nil
	}
	all, err := world.Read(s.Matrix.Cities, s.Matrix.RTT, time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("read matrix: %w", err)
	}
	return all[0], nil
}

// shellFile is in the folder of a run in namespaces. It holds the commands that open a shell in the namespace of each node.
const shellFile = "shell.json"

// Shell returns a command that enters the namespace of a node while the run goes on. The caller appends the program to start there. dir is
// the folder of the run.
func Shell(dir, node string) ([]string, error) {
	var commands map[string][]string
	text, err := os.ReadFile(filepath.Join(dir, shellFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no run in namespaces is going on in %s", dir)
	} else if err == nil {
		err = json.Unmarshal(text, &commands)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shellFile, err)
	}
	argv, ok := commands[node]
	if !ok {
		names := slices.Sorted(maps.Keys(commands))
		return nil, fmt.Errorf("there is no node %q; the nodes are %s", node, strings.Join(names, ", "))
	}
	return argv, nil
}
