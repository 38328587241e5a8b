//go:build !nolab

package main

import "proxima/cmd/proxima/testbed/emulate"

// labCommands are those that measure nodes instead of running one. A program built with the tag nolab, as the packages of a
// release are, has none of them: it is half as large.
func labCommands() []command {
	return []command{
		{"demo", "let nodes crawl a small Internet on this machine, and compare all assigners", runDemo, nil},
		{"testbed", "run a scenario on an emulated Internet, enter it, or list what there is", runTestbed, []string{"run", "sweep", "shell"}},
		{"fleet", "run a scenario on machines of one's own over ssh, each assigner in turn", runFleet, nil},
		{"sites", "serve the sites of a scenario on machines of one's own", runSites, nil},
		{"compare", "read the logs of nodes, and say which assigner was better, by how much, and why", runCompare, nil},
		{"figures", "show the figures of 2009 beside those of runs of the testbed", runFigures, nil},
		{"simulate", "compare assigners in a world without a network", runSimulate, nil},
	}
}

// labChild does the part of a process that the testbed started inside its namespaces.
func labChild(args []string) (handled bool, code int) { return emulate.Child(args) }
