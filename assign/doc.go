// Package assign decides which node crawls which server.
//
// It owns the assigners (nearest, and those of the literature: docs/assigners.md) behind one interface, what is remembered about a server
// (Memory), what a node learns about its own downloads (Factors), the prediction of download times from both, and the
// rendezvous draw by which homes and grantors are found. It does not download, keep, send, log or wait: it is pure. Time is
// an argument, randomness comes from a seed, and nothing here is safe for concurrent use unless it says so.
//
// An assigner is a step machine. Its driver asks it what to download now (Asks), tells it what came back (Observe) and
// which nodes are alive (SetView), and looks whether it has decided (Decide). Whatever the order of these calls, an
// assigner that gets answers or refusals to its asks, and the passing of time, decides in the end.
//
// The model of nearest, with its sources, is explained in model.go (what a download is made of) and field.go (the round
// trips from all nodes to one server) and places.go (where it may be); learner.go fits it. docs/nearest.md has what each part is worth.
package assign
