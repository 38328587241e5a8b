package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"proxima/node"
)

func runGoAlone(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("go-alone", out, "Usage: proxima go-alone [-data DIR | -config FILE]\n"+
		"Tells the running node that the nodes which it does not see are gone for good, so that it goes on with those that it\n"+
		"sees. If the others still run, the same servers may be asked twice at once until they meet again: stop them first.\n", "")
	data := flags.String("data", node.Default().Node.Data, "data `directory` of the node")
	config := flags.String("config", "", "configuration `file` of the node, which names its data directory")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	if err := dataOf(flags, data, *config); err != nil {
		return err
	}
	var a node.Acted
	if err := node.Call(ctx, http.MethodPost, *data, "/go-alone", nil, &a); err != nil {
		return noAnswer(err)
	}
	if len(a.Gone) == 0 {
		fmt.Fprintln(out, "the node sees all members whose votes count")
		return nil
	}
	fmt.Fprintf(out, "the node goes on without %d nodes:\n", len(a.Gone))
	for _, id := range a.Gone {
		fmt.Fprintln(out, " ", id)
	}
	return nil
}
