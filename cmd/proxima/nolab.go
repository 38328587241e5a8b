//go:build nolab

package main

import (
	"context"
	"errors"
	"io"
)

func labCommands() []command { return nil }

func labVerbs() map[string]verb {
	return map[string]verb{"run": func(context.Context, []string, io.Writer, io.Writer) error {
		return exit{exitUsage, errors.New("fleet run: releases do not have it; build the program from its source (scripts/build/build.sh)")}
	}}
}

func labChild([]string) (handled bool, code int) { return false, 0 }
