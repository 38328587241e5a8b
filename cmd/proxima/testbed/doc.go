// Package testbed runs scenarios: identical nodes on an emulated Internet on this machine, with what happens to them and when.
//
// It owns scenarios (their files, what is drawn for them), the course of a run (world, web sites, nodes, events, progress, end) and
// the folder that the run leaves (package rundir says its form). It does not carry packets (testbed/emulate, node/netsim), serve
// pages (testbed/sites), know geography (world) or judge what came of it (compare).
//
// Three kinds of beds carry a run: namespaces with real processes and real TCP on Linux, one process over the portable emulation
// where these are not to be had, and machines of one's own over ssh (Fleet).
package testbed
