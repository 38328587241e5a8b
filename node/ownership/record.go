package ownership

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// Record says who owns a host.
type Record struct {
	Host string
	// Epoch counts owners. The higher one wins; of equal ones the lower owner.
	Epoch uint64
	// Owner crawls the host.
	Owner string
	// Assigned says that an assigner chose the owner; else it is the home, or was when it became the owner.
	Assigned bool
}

// Newer says whether a record wins over another of the same host.
func (r Record) Newer(than Record) bool {
	if r.Epoch != than.Epoch {
		return r.Epoch > than.Epoch
	}
	return r.Owner < than.Owner
}

// hash is the record's part of the digest by which home and owner see that they agree.
func (r Record) hash() uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(r.Host)
	_, _ = d.Write(binary.BigEndian.AppendUint64([]byte{0}, r.Epoch))
	return d.Sum64()
}

// origin is the queue that URLs of the host belong to at its owner.
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
	// maxEpoch is beyond what any overlay reaches, and far from where numbers wrap.
	maxEpoch = 1 << 62
)

// fromWire reads a record of a peer; false where it is malformed.
func fromWire(w *wire.Record) (Record, bool) {
	r := Record{Host: w.GetHost(), Epoch: w.GetEpoch(), Owner: w.GetOwner(), Assigned: w.GetAssigned()}
	return r, identity.CheckHost(r.Host) == nil && len(r.Owner) == idLength && r.Epoch > 0 && r.Epoch <= maxEpoch
}

// On disk a record is: key = host; value = version (1 byte, 1), epoch (uvarint), flags (1 byte: 1 assigned), owner.
const recordVersion = 1

func (r Record) append(b []byte) []byte {
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, r.Epoch)
	var flags byte
	if r.Assigned {
		flags = 1
	}
	return append(append(b, flags), r.Owner...)
}

var errDamaged = errors.New("damaged")

func decodeRecord(host string, b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return Record{}, fmt.Errorf("read record of %s: unknown version", host)
	}
	epoch, n := binary.Uvarint(b[1:])
	if n <= 0 || len(b) != 1+n+1+idLength || b[1+n] > 1 {
		return Record{}, fmt.Errorf("read record of %s: %w", host, errDamaged)
	}
	return Record{Host: host, Epoch: epoch, Assigned: b[1+n] == 1, Owner: string(b[2+n:])}, nil
}
