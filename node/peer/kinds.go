package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Kinds of failures, as in Counts and Refusal.
const (
	KindVersion     = "version"     // the header is of another version
	KindRun         = "run"         // the header is of another run
	KindSender      = "sender"      // the header's sender is not the node of the certificate
	KindMalformed   = "malformed"   // the message cannot be decoded, or makes no sense
	KindOversized   = "oversized"   // the message is larger than allowed
	KindProcedure   = "procedure"   // no such call, or not made as the protocol wants
	KindHandshake   = "handshake"   // no connection: another secret, or no TLS
	KindBusy        = "busy"        // too many calls or connections at once
	KindPanic       = "panic"       // a handler panicked
	KindInternal    = "internal"    // a handler failed
	KindUnavailable = "unavailable" // a peer, or a handler, is not available
	KindTimeout     = "timeout"     // no answer within the timeout
	KindCanceled    = "canceled"    // the caller gave up, or the peer was forgotten
	KindIdentity    = "identity"    // another node answers at the peer's address
	KindSecret      = "secret"      // the peer has another secret
	KindTold        = "told"        // the callee must first be told what the sender has been told
)

var (
	// ErrMalformed is a message that its receiver can never understand.
	ErrMalformed = errors.New("malformed message")
	// ErrUnavailable is a peer that cannot be reached, or cannot answer now.
	ErrUnavailable = errors.New("peer is unavailable")
	// ErrRefused is a peer that does not talk to this node: it has another version, run or secret, or is another node.
	ErrRefused = errors.New("peer refused")
	// ErrClosed is a call of a closed client.
	ErrClosed = errors.New("client is closed")
)

// Later is why a handler cannot answer now. It counts as ErrUnavailable.
type Later string

func (l Later) Error() string { return string(l) }

// Is makes it a kind of ErrUnavailable.
func (l Later) Is(target error) bool { return target == ErrUnavailable }

// kindHeader is the key of connect's error metadata in which a server sends the kind of a refusal.
const kindHeader = "Proxima-Kind"

// meaning returns the code with which a server sends a kind, 0 if it never does, and what a caller can do about it.
func meaning(kind string) (code connect.Code, is error) {
	switch kind {
	case KindVersion, KindRun:
		return connect.CodeFailedPrecondition, ErrRefused
	case KindSender:
		return connect.CodePermissionDenied, ErrRefused
	case KindProcedure:
		return connect.CodeUnimplemented, ErrRefused
	case KindSecret, KindIdentity, KindHandshake:
		return 0, ErrRefused
	case KindMalformed:
		return connect.CodeInvalidArgument, ErrMalformed
	case KindOversized:
		return connect.CodeResourceExhausted, ErrMalformed
	case KindTold:
		return connect.CodeFailedPrecondition, ErrUnavailable
	case KindBusy, KindUnavailable:
		return connect.CodeUnavailable, ErrUnavailable
	case KindTimeout:
		return 0, ErrUnavailable
	case KindCanceled:
		return 0, context.Canceled
	case KindInternal, KindPanic:
		return connect.CodeInternal, errFault
	}
	return 0, nil
}

// refusal is the error that a server sends.
func refusal(kind, reason string) *connect.Error {
	code, _ := meaning(kind)
	e := connect.NewError(code, errors.New(plain(reason)))
	e.Meta().Set(kindHeader, kind)
	return e
}

// kindOf returns the kind of the error of one try.
func kindOf(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var alert tls.AlertError
	switch {
	case connect.IsWireError(err):
		return kindSent(err)
	case errors.Is(err, context.DeadlineExceeded) && connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return KindTimeout
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case errors.As(err, &authority):
		return KindSecret
	case errors.As(err, &name):
		return KindIdentity
	case errors.As(err, &alert):
		return KindHandshake
	}
	switch connect.CodeOf(err) {
	case connect.CodeResourceExhausted:
		return KindOversized
	case connect.CodeInternal:
		if errors.Is(err, proto.Error) {
			return KindMalformed // it cannot be encoded
		}
		return KindInternal
	case connect.CodeInvalidArgument:
		return KindInternal // the answer cannot be decoded
	case connect.CodeUnimplemented:
		return KindProcedure
	}
	return KindUnavailable
}

// kindSent returns the kind that a peer sent with its error, or else derives it from the code.
func kindSent(err error) string {
	var e *connect.Error
	if errors.As(err, &e) {
		kind := e.Meta().Get(kindHeader)
		if code, _ := meaning(kind); code != 0 {
			return kind
		}
	}
	return kindOfCode(connect.CodeOf(err))
}

func kindOfCode(code connect.Code) string {
	switch code {
	case connect.CodeInvalidArgument:
		return KindMalformed
	case connect.CodeResourceExhausted:
		return KindOversized
	case connect.CodeUnavailable:
		return KindUnavailable
	case connect.CodeDeadlineExceeded:
		return KindTimeout
	case connect.CodeUnimplemented, connect.CodeNotFound:
		return KindProcedure
	case connect.CodePermissionDenied, connect.CodeFailedPrecondition, connect.CodeUnauthenticated:
		return KindSender
	}
	return KindInternal
}

// callError is the error that ended a call, with its kind.
type callError struct {
	kind string
	err  error
}

func (e *callError) Error() string { return plain(e.err.Error()) }
func (e *callError) Unwrap() error { return e.err }

// Is groups kinds by what a caller can do about them.
func (e *callError) Is(target error) bool {
	_, is := meaning(e.kind)
	return target == is || e.kind == KindTimeout && target == context.DeadlineExceeded
}
