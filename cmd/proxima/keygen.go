package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"proxima/fetch/sign"
	"proxima/node/peer"
)

func runKeygen(_ context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("keygen", out, "Usage: proxima keygen [-rotate | -directory] FILE\n"+
		"Writes a new cluster secret. Copy it to every node of the overlay (peer.secret).\n", "")
	directory := flags.Bool("directory", false, "print the public keys of FILE as the directory that proves signed requests (fetch.signature_agent)")
	rotate := flags.Bool("rotate", false, "take FILE the next of three steps to a new secret, while the nodes go on")
	files, err := parseSome(flags, args, 1, 1, "keygen takes the name of one file (proxima keygen -h)")
	if err != nil {
		return err
	}
	switch {
	case *rotate && *directory:
		return exit{exitUsage, errors.New("keygen takes -rotate or -directory, not both")}
	case *directory:
		secret, err := peer.Load(files[0])
		if err != nil {
			return err
		}
		keys, err := sign.Directory(secret.SiteKeys())
		fmt.Fprintf(out, "%s", keys)
		return err
	case *rotate:
		next, err := peer.Rotate(files[0])
		fmt.Fprint(out, next)
		return err
	}
	if err := checkFile("keygen", files[0]); err != nil {
		return err
	}
	if err := peer.Keygen(files[0]); err != nil {
		return err
	}
	fmt.Fprintln(out, "wrote", files[0]+"; copy it to every node, and to nobody else")
	return nil
}
