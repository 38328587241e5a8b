package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"proxima/cmd/proxima/curves"
)

// Sweep is one report for each value of a parameter.
type Sweep struct {
	Parameter string    `json:"parameter"`
	Values    []string  `json:"values"`
	Reports   []*Report `json:"reports"`
}

// ParseSweep reads "name=value,value".
func ParseSweep(text string) (*Sweep, error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok || name == "" || list == "" {
		return nil, fmt.Errorf("%q does not have the form name=value,value", text)
	}
	return &Sweep{Parameter: name, Values: strings.Split(list, ",")}, nil
}

// Configs returns the configurations of the values. The error says what is wrong with them.
func (s *Sweep) Configs(cfg Config) (list []Config, err error) {
	for _, v := range s.Values {
		one := cfg
		if err := one.Set(s.Parameter, v); err != nil {
			return nil, err // the others may be as wrong, for the same reason
		}
		err = errors.Join(err, one.Validate())
		list = append(list, one)
	}
	return list, err
}

// Run simulates all values.
func (s *Sweep) Run(ctx context.Context, cfg Config) error {
	list, err := s.Configs(cfg)
	if err != nil {
		return err
	}
	for i, one := range list {
		r, err := Run(ctx, one)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", s.Parameter, s.Values[i], err)
		}
		s.Reports = append(s.Reports, r)
		for k := range r.Assigners {
			r.Assigners[k].More = more(r.scores[k], s.Reports[0].scores[k])
		}
	}
	return nil
}

// Plot returns the drawing of the choice ratios, medians as lines and p10 to p90 as bands. Values that mean no number have a name.
func (s *Sweep) Plot() curves.Plot {
	w, values := s.Reports[0].World, slices.Clone(s.Values)
	for i, v := range values {
		switch s.Parameter + v {
		case "estimates-1":
			values[i] = "own"
		case "homes0":
			values[i] = "all"
		}
	}
	p := curves.Plot{Title: fmt.Sprintf("Choices by %s: %d seeds from %d, %d cities (%s)", s.Parameter, w.Seeds, w.First, w.Cities, w.Matrices),
		X: s.Parameter, Y: "choice ratio (1 is perfect); median, p10–p90", Values: values}
	for k, a := range s.Reports[0].Assigners {
		c := curves.Curve{Name: a.Name}
		for _, r := range s.Reports {
			ratio := r.Assigners[k].ChoiceRatio
			c.Points = append(c.Points, curves.Span{Low: ratio.P10, Mid: ratio.Median, High: ratio.P90})
		}
		p.Curves = append(p.Curves, c)
	}
	return p
}

// Print writes a sweep as tables, assigner by assigner.
func (s *Sweep) Print(out io.Writer) error {
	fmt.Fprintf(out, "Sweep over %s, from ", s.Parameter)
	s.Reports[0].World.print(out)
	return printTables(out, s.Parameter+"\tassigner\t", s.Parameter+"="+s.Values[0], func(row func(lead string, a *Assigner)) {
		for k := range s.Reports[0].Assigners {
			for i, r := range s.Reports {
				row(s.Values[i]+"\t"+r.Assigners[k].Name+"\t", &r.Assigners[k])
			}
		}
	})
}
