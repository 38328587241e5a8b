package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"proxima/fetch/resolve"
)

// Class names in one word how a download ended.
type Class string

// The classes. A body above MaxBodyBytes is no failure: it is cut, and Result.Truncated says so.
const (
	OK               Class = ""
	Refused          Class = "refused"           // nothing listens on the port
	Unreachable      Class = "unreachable"       // no route to the server, or no descriptor, port or memory to connect with
	TimeoutConnect   Class = "timeout_connect"   // ConnectTimeout, or the system's own
	TimeoutTLS       Class = "timeout_tls"       // TLSTimeout
	TLS              Class = "tls"               // certificate, version or handshake
	TimeoutHeader    Class = "timeout_header"    // HeaderTimeout
	TimeoutTotal     Class = "timeout_total"     // TotalTimeout
	TooSlow          Class = "too_slow"          // below MinRate
	Reset            Class = "reset"             // the server reset the connection or its stream, or the system broke it
	EOF              Class = "eof"               // the server closed before the end of the answer
	Protocol         Class = "protocol"          // malformed HTTP
	HeaderTooLarge   Class = "header_too_large"  // MaxHeaderBytes; over HTTP/2 a head far above it is Protocol
	Decode           Class = "decode"            // broken content coding
	Bomb             Class = "bomb"              // MaxDecodedBytes
	ForbiddenAddress Class = "forbidden_address" // the guard
	ForbiddenPort    Class = "forbidden_port"    // a port that browsers block
	NoIdentity       Class = "no_identity"       // a public address, but no Contact and From
	NoRight          Class = "no_right"          // Request.Gate or Request.Until
	Unwanted         Class = "unwanted"          // Request.Wanted
	Canceled         Class = "canceled"          // the caller's context, or Close
	Other            Class = "other"             // bad URL, anything else
)

// Network reports whether the connection to the server failed, so that another try on a schedule is worth it. It is false for
// failures of the page or of the caller.
func (c Class) Network() bool {
	return slices.Contains([]Class{Refused, Unreachable, TimeoutConnect, TimeoutTLS, TLS, TimeoutHeader, Reset, EOF}, c)
}

// late reports whether a time limit ended the exchange.
func (c Class) late() bool { return c == TimeoutHeader || c == TimeoutTotal || c == TooSlow }

// failure is an error whose class is known where it arises.
type failure struct {
	class Class
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

var errClosed = &failure{Canceled, errors.New("client is closed")}

// classOf classifies an error of a round trip or of its body. The cause of a cancellation comes first, since what net/http makes of
// a cancelled request varies.
func classOf(ctx context.Context, err error) Class {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.class
	}
	if ctx.Err() != nil {
		if f, ok := errors.AsType[*failure](context.Cause(ctx)); ok {
			return f.class
		}
		return Canceled
	}
	if class := connClass(err); class != Other {
		return class
	}
	// The HTTP/2 of net/http exports none of these errors.
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
	}
	switch {
	case says("header list larger than"):
		return HeaderTooLarge
	case says("GOAWAY", "REFUSED_STREAM", "ENHANCE_YOUR_CALM", "http2: client conn"),
		says("received from peer") && !says("PROTOCOL_ERROR"): // with this a server refuses a request for good
		return Reset
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return Other
	}
	return Protocol
}

// wantsHTTP1 reports whether a server has ended a request over HTTP/2 because it wants HTTP/1.1 (RFC 9113, section 7).
func wantsHTTP1(err error) bool {
	return err != nil && strings.Contains(err.Error(), "HTTP_1_1_REQUIRED")
}

// reason returns err, or the cause of a cancellation, which net/http leaves out over HTTP/2.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

// stageClass classifies an error of one stage of a dial, as other if it is no error of the connection.
func stageClass(err error, timeout, other Class) Class {
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return timeout
	}
	if errors.Is(err, context.Canceled) {
		return Canceled
	}
	if class := connClass(err); class != Other {
		return class
	}
	return other
}

// connClass classifies an error of the connection itself, as Other if it is none.
func connClass(err error) Class {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case isAny(err, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.EACCES, syscall.EPERM): // the last two: a local firewall
		return Unreachable
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM):
		return Unreachable // this machine's shortage passes and must cost no page
	case isAny(err, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed):
		return EOF
	case isTLS(err):
		return TLS
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return Reset // or whatever else the system says of a connection: it is never the page's fault
	}
	return Other
}

// isTLS reports whether TLS failed on a connection that stands. Any other error of a handshake is one of TLS, too (stageClass).
func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	// An alert is an unexported type within a net.OpError of this operation.
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// isAny is errors.Is for several targets.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// errNoRoute says that this machine has no route to an address. A router on the way may report the same error number.
var errNoRoute = errors.New("this machine has no route")

// OwnTrouble reports whether a failed download or lookup may be this machine's fault, and why in words. Such a failure says nothing
// about the host, so it must not count against it. Failures that only look like this machine's do not qualify: routers far away
// report unreachable networks, too.
func OwnTrouble(err error) (why string, ok bool) {
	for _, t := range []struct {
		is  error
		why string
	}{
		{resolve.ErrNoServer, "no name server answers"},
		{errNoRoute, "no route"},
		{syscall.ENETDOWN, "the network is down"},
		{syscall.EMFILE, "too many open files"},
		{syscall.ENFILE, "too many open files on this machine"},
		{syscall.EADDRNOTAVAIL, "no free local port or address"},
		{syscall.ENOBUFS, "no memory for connections"},
		{syscall.ENOMEM, "no memory for connections"},
	} {
		if errors.Is(err, t.is) {
			return t.why, true
		}
	}
	return "", false
}
