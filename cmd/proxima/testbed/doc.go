// Package testbed runs scenarios: identical nodes on an emulated Internet on this machine, with what happens to them and when.
//
// It reads scenarios, draws what they leave open, runs them, and writes the folder of the run, whose layout package rundir defines.
// Packets are the task of testbed/emulate and node/netsim, pages that of testbed/sites, geography that of world, and figures that of
// compare.
//
// A run has one of three platforms: network namespaces with real processes and real TCP on Linux; one process with the portable
// emulation; or real machines, which Fleet reaches over ssh.
package testbed
