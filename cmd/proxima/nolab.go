//go:build nolab

package main

func labCommands() []command { return nil }

func labVerbs() map[string]verb { return nil }

func labChild([]string) (handled bool, code int) { return false, 0 }
