// Command sbom writes what programs are made of as CycloneDX: sbom VERSION PROGRAM... It reads the modules that the compiler
// wrote into the programs, not go.mod, so that nothing is listed that is not in them.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type document struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("no version or no program")
	}
	doc := document{Format: "CycloneDX", Spec: "1.5", Version: 1}
	doc.Metadata.Component = component{Type: "application", Name: "proxima", Version: args[0]}
	parts := map[string]component{}
	for _, program := range args[1:] {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read the modules of %s: %w", program, err)
		}
		parts["std"] = component{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion[len("go"):]}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			parts[m.Path] = component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version,
				Properties: []property{{"go:sum", m.Sum}}}
		}
	}
	doc.Components = slices.SortedFunc(maps.Values(parts), func(a, b component) int { return cmp.Compare(a.Name, b.Name) })
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	return out.Encode(doc)
}
