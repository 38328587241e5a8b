package ownership

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// Record says who owns a host. One without an owner stands for no record; every other one is newer.
type Record struct {
	Host string
	// Epoch counts the owners. The higher epoch wins; between equal epochs, the lower owner.
	Epoch uint64
	Owner string // the node that crawls the host
	// Assigned is set if an assigner chose the owner. Otherwise the owner is, or was, the home.
	Assigned bool
}

// Newer reports whether a record wins over another record of the same host.
func (r Record) Newer(than Record) bool {
	if r.Epoch != than.Epoch {
		return r.Epoch > than.Epoch
	}
	return r.Owner < than.Owner
}

// hash is the record's share of a tally's digest.
func (r Record) hash() uint64 {
	return xxhash.Sum64(binary.BigEndian.AppendUint64(append([]byte(r.Host), 0), r.Epoch))
}

// origin is the queue that new URLs of the host join at its owner.
func (r Record) origin() frontier.Origin {
	if r.Assigned {
		return frontier.Assigned
	}
	return frontier.Discovered
}

func (r Record) wire() *wire.Record {
	return &wire.Record{Host: r.Host, Epoch: r.Epoch, Owner: r.Owner, Assigned: r.Assigned}
}

const (
	idLength = 32
	// maxEpoch is more than any overlay reaches, and far from overflow.
	maxEpoch = 1 << 62
)

// fromWire reads a record from a peer; false if it is malformed.
func fromWire(w *wire.Record) (Record, bool) {
	r := Record{Host: w.GetHost(), Epoch: w.GetEpoch(), Owner: w.GetOwner(), Assigned: w.GetAssigned()}
	return r, identity.CheckHost(r.Host) == nil && len(r.Owner) == idLength && r.Epoch > 0 && r.Epoch <= maxEpoch
}

// On disk the key of a record is its host. The value is version (1 byte), epoch (uvarint), flags (1 byte: 1 = assigned), owner.
const recordVersion = 1

func (r Record) append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, recordVersion), r.Epoch)
	var flags byte
	if r.Assigned {
		flags = 1
	}
	return append(append(b, flags), r.Owner...)
}

func decodeRecord(host string, b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return Record{}, fmt.Errorf("read record of %s: unknown version", host)
	}
	epoch, n := binary.Uvarint(b[1:])
	if n <= 0 || len(b) != 1+n+1+idLength || b[1+n] > 1 {
		return Record{}, fmt.Errorf("read record of %s: damaged", host)
	}
	return Record{Host: host, Epoch: epoch, Assigned: b[1+n] == 1, Owner: string(b[2+n:])}, nil
}
