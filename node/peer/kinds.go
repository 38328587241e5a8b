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
	// ErrNoSecret is a call of a node that has no cluster secret, and so no peers.
	ErrNoSecret = errors.New("no cluster secret: this node has no peers")
	// ErrClosed is a call of a closed client.
	ErrClosed = errors.New("client is closed")
)

// kindHeader is the key of connect's error metadata in which a server sends the kind of a refusal.
const kindHeader = "Proxima-Kind"

// refusal is the error that a server sends.
func refusal(kind, reason string) *connect.Error {
	code := connect.CodeInternal
	switch kind {
	case KindVersion, KindRun, KindTold:
		code = connect.CodeFailedPrecondition
	case KindSender:
		code = connect.CodePermissionDenied
	case KindMalformed:
		code = connect.CodeInvalidArgument
	case KindProcedure:
		code = connect.CodeUnimplemented
	case KindBusy, KindUnavailable:
		code = connect.CodeUnavailable
	}
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
		switch kind := e.Meta().Get(kindHeader); kind {
		case KindVersion, KindRun, KindSender, KindMalformed, KindOversized, KindProcedure, KindBusy, KindPanic,
			KindInternal, KindUnavailable, KindTold:
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
	switch e.kind {
	case KindUnavailable, KindBusy, KindTold:
		return target == ErrUnavailable
	case KindMalformed, KindOversized:
		return target == ErrMalformed
	case KindVersion, KindRun, KindSender, KindSecret, KindIdentity, KindHandshake, KindProcedure:
		return target == ErrRefused
	case KindTimeout:
		return target == context.DeadlineExceeded || target == ErrUnavailable
	case KindCanceled:
		return target == context.Canceled
	case KindInternal, KindPanic:
		return target == errFault
	}
	return false
}
