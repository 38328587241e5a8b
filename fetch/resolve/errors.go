package resolve

import (
	"errors"
	"fmt"
)

// The kinds of failure of a lookup, for errors.Is.
var (
	// ErrNotFound: the name does not exist or has no address. There is no use in asking again soon.
	ErrNotFound = errors.New("host not found")
	// ErrTemporary: all servers failed or were silent about the name.
	ErrTemporary = errors.New("no answer from name servers")
	// ErrNoServer: no server answers any question, or all answer SERVFAIL whatever the question, so this machine's network may be at
	// fault. Such errors are also ErrTemporary.
	ErrNoServer = errors.New("no name server answers at all")
	// ErrInvalid: the host is neither a name nor an address. No server was asked.
	ErrInvalid = errors.New("invalid host name")
	// ErrClosed: the Resolver was closed. Such errors are also ErrTemporary.
	ErrClosed = errors.New("resolver closed")
)

// Error is the failure of a lookup.
type Error struct {
	// Host is the name as given to Lookup, or the canonical name if callers share the failure.
	Host string
	// Kind is ErrNotFound, ErrTemporary or ErrInvalid.
	Kind error
	// Err is the reason.
	Err error
}

func (e *Error) Error() string {
	return "look up " + e.Host + ": " + e.Kind.Error() + ": " + e.Err.Error()
}

// Unwrap returns kind and reason.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// Reasons of failures.
var (
	errNXDOMAIN  = errors.New("NXDOMAIN")
	errNoAddress = errors.New("no address records")
	errReserved  = errors.New("reserved name") // RFC 6761, RFC 7686
)

// Outcomes of one exchange with one server.
var (
	errStray     = errors.New("not an answer to the query")
	errTruncated = errors.New("truncated")
	errNoEDNS    = errors.New("server does not know EDNS")
	errServer    = errors.New("server failure")          // it answered, so there is no use in asking it again
	errServFail  = fmt.Errorf("%w: SERVFAIL", errServer) // it could not find out, perhaps because it reaches nobody
)
