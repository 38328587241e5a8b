package member

import (
	"flag"

	"proxima/ncoord"
)

// Update makes the golden tests write their scenarios anew.
var Update = flag.Bool("update", false, "write the scenarios of testdata anew")

// EncodeMeta and EncodeAck make what a node publishes, for tests of nodes that lie.
func EncodeMeta(boot uint64, addr string, c ncoord.Coordinate) []byte {
	return encode(nil, meta{boot: boot, addr: addr, placed: true, place: place{rev: 1, coord: c}})
}

func EncodeAck(boot, rev uint64, c ncoord.Coordinate) []byte {
	return encode(nil, ack{boot: boot, coord: c, place: place{rev: rev, coord: c}})
}

// Places and Ranges read and write numbers in the short form of scenarios.
var (
	Places = places
	Ranges = ranges
)
