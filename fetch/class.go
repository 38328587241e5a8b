package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"proxima/fetch/resolve"
)

// Class says in one word how a download ended.
type Class string

// The classes. A body above MaxBodyBytes is no failure: it is cut, and Result.Truncated says so.
const (
	OK               Class = ""
	Refused          Class = "refused"           // nothing listens on the port
	Unreachable      Class = "unreachable"       // no route to the server, or nothing left here to go there with
	TimeoutConnect   Class = "timeout_connect"   // ConnectTimeout, or the system's own
	TimeoutTLS       Class = "timeout_tls"       // TLSTimeout
	TLS              Class = "tls"               // certificate, version or handshake
	TimeoutHeader    Class = "timeout_header"    // HeaderTimeout
	TimeoutTotal     Class = "timeout_total"     // TotalTimeout
	TooSlow          Class = "too_slow"          // below MinRate
	Reset            Class = "reset"             // the server reset the connection
	EOF              Class = "eof"               // the server closed before the end of the answer
	Protocol         Class = "protocol"          // malformed HTTP
	HeaderTooLarge   Class = "header_too_large"  // MaxHeaderBytes; over HTTP/2 a head far above it is Protocol
	Decode           Class = "decode"            // broken content coding
	Bomb             Class = "bomb"              // MaxDecodedBytes
	ForbiddenAddress Class = "forbidden_address" // the guard
	ForbiddenPort    Class = "forbidden_port"    // a port that browsers block
	NoIdentity       Class = "no_identity"       // public address without Contact and From
	NoRight          Class = "no_right"          // Request.Gate or Request.Until
	Unwanted         Class = "unwanted"          // Request.Wanted
	Canceled         Class = "canceled"          // the caller's context, or Close
	Other            Class = "other"             // bad URL, anything else
)

// Network reports a failure of the connection to the server, worth another try on a schedule, as opposed to one of the
// page or of the caller.
func (c Class) Network() bool {
	switch c {
	case Refused, Unreachable, TimeoutConnect, TimeoutTLS, TLS, TimeoutHeader, Reset, EOF:
		return true
	}
	return false
}

// late reports that a bound of time ended the exchange.
func (c Class) late() bool { return c == TimeoutHeader || c == TimeoutTotal || c == TooSlow }

// failure is an error whose class is known where it arises.
type failure struct {
	class Class
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

var errClosed = &failure{Canceled, errors.New("client is closed")}

// classOf tells the class of an error of a round trip or of its body. A cause given to cancel the request comes first,
// since what net/http makes of a cancelled request varies.
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
	// net/http and its HTTP/2 export none of these errors.
	if text := err.Error(); strings.Contains(text, "server response headers exceeded") ||
		strings.Contains(text, "header list larger than") {
		return HeaderTooLarge
	} else if strings.Contains(text, "GOAWAY") || strings.Contains(text, "REFUSED_STREAM") ||
		strings.Contains(text, "ENHANCE_YOUR_CALM") {
		return Reset // HTTP/2's way; any other reset of a stream concerns the page
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return Other
	}
	return Protocol
}

// reason is err, or the cause that was given to cancel the request: over HTTP/2 net/http says no more than that it was.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

// dialClass tells the class of an error of a connect.
func dialClass(err error) Class {
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		return TimeoutConnect
	}
	if errors.Is(err, context.Canceled) {
		return Canceled
	}
	return connClass(err)
}

// tlsClass tells the class of an error of a handshake.
func tlsClass(err error) Class {
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		return TimeoutTLS
	}
	if errors.Is(err, context.Canceled) {
		return Canceled
	}
	if class := connClass(err); class != Other {
		return class
	}
	return TLS
}

// connClass tells the class of an error of the connection itself, Other where it is none.
func connClass(err error) Class {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case isAny(err, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED):
		return Reset
	case isAny(err, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.EACCES, syscall.EPERM): // a local firewall answers with the last two
		return Unreachable
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM):
		return Unreachable // this machine's want of descriptors, ports or memory passes: no page is to be lost by it
	case errors.Is(err, syscall.ETIMEDOUT): // packets of an open connection unanswered
		return Reset
	case isAny(err, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed),
		strings.HasSuffix(err.Error(), "server closed idle connection"): // not exported by net/http
		return EOF
	}
	if isTLS(err) {
		return TLS
	}
	return Other
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	// An alert of the peer is a net.OpError with this operation around an unexported type.
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// errNoRoute says that this machine has no route to an address: no router on the way said so, as it may do with the same
// error number.
var errNoRoute = errors.New("this machine has no route")

// OwnTrouble reports whether a failed download or lookup may be this machine's fault, and why in words. Such a failure says
// nothing about the host, so it must not count against it.
//
// Failures that only look like this machine's are not among them: routers far away, too, say that networks are unreachable.
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

// hasRoute asks the system's routing table for the way to an address. It sends nothing: a datagram socket that connects
// only looks its route up.
func hasRoute(addr netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err == nil {
		c.Close()
	}
	return !isAny(err, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN)
}
