//go:build !linux

package journal

func sampleSystem(string, *Load) {}
