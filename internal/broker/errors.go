package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
)

// The error codes of the JetStream API that mean something to a writer and have no name in
// package jetstream.
const (
	codeAccountLimit = 10002
	codeServerLimit  = 10023
	codeMemoryLimit  = 10028
	codeStorageLimit = 10047
	codeStoreFailed  = 10077 // a stream's own limit, told apart by its text
	codeHeaderTooBig = 10097
	codeNoPeers      = 10005 // fewer servers with free space than the stream has replicas
	codeNoCluster    = 10074 // copies are asked of a server that is alone
)

// errAlone: replicas were requested from a server outside a cluster. Waiting does not help: a
// cluster member reports that from its start.
var errAlone = errors.New("this NATS server is alone and cannot keep copies: name a cluster of three in nats.url (`weir nats init` writes one), or, to try things out, set log.replicas to 1")

// refused translates an error answer of the API. Any other answer is fault.ErrUnavailable: the
// server did not store the message, but a caller that reads the log back does no harm.
func refused(code jetstream.ErrorCode, text string) error {
	switch code { //nolint:exhaustive // the others report that nothing was stored
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant: // the latter of a cluster
		return fault.ErrFenced
	case codeAccountLimit, codeServerLimit, codeMemoryLimit, codeStorageLimit:
		return fault.ErrFull
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooBig:
		return fault.ErrTooLarge
	case codeNoPeers:
		return fmt.Errorf("%w: the cluster has fewer servers with free space than the stream has replicas; check that all servers are up and connected to each other", fault.ErrUnavailable)
	case codeNoCluster:
		return errAlone
	case codeStoreFailed:
		if strings.HasPrefix(text, "maximum ") {
			return fault.ErrFull
		}
	}
	return fmt.Errorf("%w: error code %d", fault.ErrUnavailable, code)
}

// wrap turns a client's error into one of the log's. After an unknown error the message may or may
// not have reached the server.
func wrap(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case known(err):
		return err
	case errors.As(err, &api):
		if api.Code == 404 {
			return fault.ErrNotFound
		}
		return refused(api.ErrorCode, api.Description)
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.ErrTooLarge
	case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return fault.ErrNotFound
	}
	return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
}

// known reports whether an error says already what happened.
func known(err error) bool {
	_, denied := errors.AsType[*DeniedError](err)
	return denied || slices.ContainsFunc([]error{
		fault.ErrFenced, fault.ErrNotFound, fault.ErrGone, fault.ErrFull, fault.ErrUnavailable, fault.ErrTooLarge, errAlone,
	}, func(known error) bool { return errors.Is(err, known) })
}
