// Command sbom writes what programs are made of as CycloneDX: sbom VERSION PROGRAM... It reads the modules that the compiler
// wrote into the programs, not go.mod, so that nothing is listed that is not in them.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// object is an object of JSON.
type object map[string]any

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
	parts := map[string]object{}
	for _, program := range args[1:] {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read the modules of %s: %w", program, err)
		}
		parts["std"] = object{"type": "library", "name": "std", "version": info.GoVersion, "purl": "pkg:golang/std@" + info.GoVersion[len("go"):]}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			parts[m.Path] = object{"type": "library", "name": m.Path, "version": m.Version, "purl": "pkg:golang/" + m.Path + "@" + m.Version,
				"properties": []object{{"name": "go:sum", "value": m.Sum}}}
		}
	}
	var components []object
	for _, path := range slices.Sorted(maps.Keys(parts)) {
		components = append(components, parts[path])
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	return out.Encode(object{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components,
		"metadata": object{"component": object{"type": "application", "name": "proxima", "version": args[0]}}})
}
