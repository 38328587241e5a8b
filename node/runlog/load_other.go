//go:build !linux

package runlog

func sampleSystem(string, *Load) {}
