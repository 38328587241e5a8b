package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/world"
)

// Options are how a scenario is to be run.
type Options struct {
	// Dir is the folder that the run leaves; it must be empty or absent.
	Dir string
	// Seed draws what the scenario leaves open; 0 is the scenario's own.
	Seed uint64
	// Separate makes one run for each assigner, whatever the scenario says.
	Separate bool
	// RTT and Cities are the files of a measured matrix in place of the scenario's; empty for none.
	RTT, Cities string
	// Keep leaves the nodes up after the end of the scenario until the context ends.
	Keep bool
	// Emulation is emulate.Portable, or, inside of namespaces, emulate.TUN or emulate.Veth or "" for the better that is possible.
	Emulation string
	// FakeClock says that the portable emulation runs in a bubble of testing/synctest, which timers of the kernel do not wake.
	FakeClock bool
	// Command is what the run was asked for by, for its folder.
	Command string
	// Out is for people.
	Out io.Writer
}

// Run runs a scenario. It blocks until everything that it started has ended. With an emulation other than the portable one the
// process must be inside the namespaces (emulate.Reexec).
func Run(ctx context.Context, s Scenario, o Options) error {
	out := newPrinter(o.Out)
	seed := o.Seed
	if seed == 0 {
		seed = s.Seed
	}
	if o.RTT != "" || o.Cities != "" {
		s.Matrix.RTT, s.Matrix.Cities = o.RTT, o.Cities
	}
	matrix, err := s.matrix(seed)
	if err != nil {
		return err
	}
	if !o.Separate && !s.Separate || len(s.Assigners) == 1 {
		return one(ctx, s, matrix, seed, s.Assigners, o.Dir, o, out)
	}
	if err := emptyFolder(o.Dir); err != nil {
		return err
	}
	for i, a := range s.Assigners {
		out.say("run %d of %d: assigner %s", i+1, len(s.Assigners), a)
		if err := one(ctx, s, matrix, seed, []string{a}, filepath.Join(o.Dir, a), o, out); err != nil {
			return fmt.Errorf("assigner %s: %w", a, err)
		}
	}
	return nil
}

// one is a single run.
func one(ctx context.Context, s Scenario, m *world.Matrix, seed uint64, assigners []string, dir string, o Options,
	out printer) (err error) {
	plan, err := Draw(s, m, seed)
	if err != nil {
		return err
	}
	r := &run{plan: plan, assigners: assigners, dir: dir, keep: o.Keep, command: o.Command, out: out}
	if err := r.prepare(); err != nil {
		return err
	}
	if err := writeGeo(plan, filepath.Join(dir, geoFile)); err != nil {
		return err
	}
	out.say("scenario %s, seed %d, assigners %s: %d nodes, %d servers", s.Name, seed, strings.Join(assigners, ", "), len(plan.Nodes),
		len(plan.Servers))
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	if o.Emulation == emulate.Portable {
		r.bed, err = newHouse(ctx, r, o.FakeClock, out.say)
	} else {
		r.bed, err = newSpaces(ctx, plan, dir, o.Emulation, out.say, broken)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.bed.close()) }()
	if err := r.sow(r.bed.fronts()); err != nil {
		return err
	}
	r.world = plan.World(assigners)
	r.world.Pages = r.bed.pages()
	return r.whole(ctx)
}

// matrix reads or makes the matrix of a scenario.
func (s Scenario) matrix(seed uint64) (*world.Matrix, error) {
	if s.Matrix.RTT == "" && s.Matrix.Cities == "" {
		return world.Synthetic(world.Cities(), seed), nil
	}
	if s.Matrix.RTT == "" || s.Matrix.Cities == "" {
		return nil, errors.New("a measured matrix needs two files, of round trips and of cities")
	}
	all, err := world.Read(s.Matrix.Cities, s.Matrix.RTT, time.Millisecond)
	if err != nil {
		return nil, fmt.Errorf("read matrix: %w", err)
	}
	return all[0], nil
}
