package simulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Set changes one parameter of a configuration: one of nodes, servers, homes, estimates, location-wrong, location-missing,
// noise and pages, or a key of the assigners' configuration such as nearest.balance or vivaldi.theta.
func (c *Config) Set(name, value string) error {
	whole := map[string]*int{"nodes": &c.Nodes, "servers": &c.Servers, "homes": &c.Homes, "estimates": &c.Estimates, "pages": &c.Pages}
	real := map[string]*float64{"location-wrong": &c.LocationWrong, "location-missing": &c.LocationMissing, "noise": &c.Noise}
	if at, ok := whole[name]; ok {
		v, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%s: %q is not a whole number", name, value)
		}
		*at = v
		return nil
	}
	if at, ok := real[name]; ok {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s: %q is not a number", name, value)
		}
		*at = v
		return nil
	}
	meta, err := toml.Decode(name+" = "+value, &c.Assign)
	if err != nil {
		return fmt.Errorf("%s = %s: %w", name, value, err)
	}
	if len(meta.Undecoded()) > 0 || len(meta.Keys()) == 0 {
		return fmt.Errorf("there is no parameter %q: neither a number's flag nor a key of the assigners", name)
	}
	return c.Assign.Validate()
}

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
		return nil, fmt.Errorf("%q is not of the form name=value,value", text)
	}
	return &Sweep{Parameter: name, Values: strings.Split(list, ",")}, nil
}

// Check says what is wrong with the values, before hours are spent on them.
func (s *Sweep) Check(cfg Config) error {
	var errs []error
	for _, v := range s.Values {
		one := cfg
		if err := one.Set(s.Parameter, v); err != nil {
			errs = append(errs, err)
		} else if err := one.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run simulates all values.
func (s *Sweep) Run(ctx context.Context, cfg Config) error {
	for _, v := range s.Values {
		one := cfg
		if err := one.Set(s.Parameter, v); err != nil {
			return err
		}
		r, err := Run(ctx, one)
		if err != nil {
			return fmt.Errorf("%s=%s: %w", s.Parameter, v, err)
		}
		s.Reports = append(s.Reports, r)
	}
	return nil
}
