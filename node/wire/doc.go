// Package wire has the messages of the peer protocol, generated from overlay.proto, and no behaviour: the packages
// that exchange them define what they mean.
package wire

// protoc comes from the system, its plugin from scripts/tools/go.mod.
//go:generate sh -c "protoc --plugin=$(go tool -modfile=../../scripts/tools/go.mod -n protoc-gen-go) --go_out=paths=source_relative:. overlay.proto"
