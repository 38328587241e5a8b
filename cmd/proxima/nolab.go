//go:build nolab

package main

func labCommands() []command { return nil }

func labChild([]string) (handled bool, code int) { return false, 0 }
