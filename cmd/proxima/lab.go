//go:build !nolab

package main

import "proxima/cmd/proxima/testbed/emulate"

// labCommands measure nodes instead of running one. A program built with the tag nolab, as in the packages of a release, has none of
// them and is half as large.
func labCommands() []command {
	return []command{
		{"demo", "let nodes crawl a small Internet on this machine, and compare four assigners", runDemo, nil},
		{"testbed", "run a scenario on an emulated Internet, enter it, or list the scenarios", runTestbed, []string{"run", "sweep", "shell", "list"}},
		{"sites", "serve the sites of a scenario on your own machines", runSites, nil},
		{"compare", "read the logs of nodes, and say which assigner was better, by how much, and why", runCompare, nil},
		{"figures", "show the figures of 2009 beside those of testbed runs", runFigures, nil},
		{"simulate", "compare assigners in a world without a network", runSimulate, nil},
	}
}

// labChild runs a process that the testbed started inside its namespaces.
func labChild(args []string) (handled bool, code int) { return emulate.Child(args) }
