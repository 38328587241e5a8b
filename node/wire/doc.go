// Package wire holds the words of the peer protocol: the messages of overlay.proto, generated. It owns no behaviour;
// what the messages mean is the business of the rooms that exchange them.
package wire

// Protoc comes from the system, its plugin from scripts/tools/go.mod.
//go:generate sh -c "protoc --plugin=$(go tool -modfile=../../scripts/tools/go.mod -n protoc-gen-go) --go_out=paths=source_relative:. overlay.proto"
