package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/fault"
)

// errAlone: replicas were requested from a server outside a cluster. Waiting does not help: a
// cluster member reports that from its start.
var errAlone = errors.New("this NATS server is alone and cannot keep copies: name a cluster of three in nats.url (`weir nats init` writes one), or, to try things out, set log.replicas to 1")

// codes is what the error codes of the JetStream API mean to a writer. Those in numbers have no name
// in package jetstream.
var codes = map[jetstream.ErrorCode]error{ //nolint:gochecknoglobals // a table
	jetstream.JSErrCodeStreamWrongLastSequence:         fault.ErrFenced,
	jetstream.JSErrCodeStreamWrongLastSequenceConstant: fault.ErrFenced, // of a cluster
	10002: fault.ErrFull, // the account's limit
	10023: fault.ErrFull, // the server's
	10028: fault.ErrFull, // of memory
	10047: fault.ErrFull, // of storage
	jetstream.JSErrCodeStreamMessageExceedsMaximum: fault.ErrTooLarge,
	10097: fault.ErrTooLarge, // the headers
	10005: fmt.Errorf("%w: the cluster has fewer servers with free space than the stream has replicas; check that all servers are up and connected to each other", fault.ErrUnavailable),
	10008: fmt.Errorf("%w: the cluster has no leader; check that most servers are up and connected to each other", fault.ErrUnavailable),
	10074: errAlone,
}

// codeStoreFailed may be a stream's own limit, told apart by its text.
const codeStoreFailed = 10077

// refused translates an error answer of the API. Any other answer is fault.ErrUnavailable: the
// server did not store the message, but a caller that reads the log back does no harm.
func refused(code jetstream.ErrorCode, text string) error {
	switch err := codes[code]; {
	case err != nil:
		return err
	case code == codeStoreFailed && strings.HasPrefix(text, "maximum "):
		return fault.ErrFull
	}
	return fmt.Errorf("%w: error code %d", fault.ErrUnavailable, code)
}

// wrap turns a client's error into an error of the log. It returns those that are one already.
// After an unknown error the message may or may not have reached the server.
func wrap(err error) error {
	var api *jetstream.APIError
	var denied *DeniedError
	switch {
	case err == nil, errors.Is(err, fault.ErrUnavailable), errors.As(err, &denied):
		return err
	case errors.As(err, &api):
		if api.Code == 404 {
			return fault.ErrNotFound
		}
		return refused(api.ErrorCode, api.Description)
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.ErrTooLarge
	}
	return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
}

// DeniedError is an operation that the role needs and the servers do not grant to this user.
type DeniedError struct {
	Role access.Role
	// Subject is the pattern of subjects that is not granted: to subscribe to if Listen is set,
	// else to publish to.
	Subject string
	Listen  bool
	Why     string // why the role needs it; may be empty
}

func (e *DeniedError) Error() string {
	do, why := "publish to", ""
	if e.Listen {
		do = "subscribe to"
	}
	if e.Why != "" {
		why = " (to " + e.Why + ")"
	}
	return fmt.Sprintf("the NATS user of this node may not %s %s%s: give it what the role %s needs, as `weir nats init` writes it, and reload the servers",
		do, e.Subject, why, e.Role)
}

// asked calls ask, and cancels its context when the server denies this user something: it reports a
// denial to the connection, and never answers the request. Calls must not overlap.
func (b *Broker) asked(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.asking.Store(&cancel)
	defer b.asking.Store(nil)
	err := ask(ctx)
	if e, ok := errors.AsType[*DeniedError](context.Cause(ctx)); ok && err != nil {
		return e
	}
	return err
}

// refusedSubject matches the servers' reports.
var refusedSubject = regexp.MustCompile(`(Publish|Subscription) to "(\S+)"`)

// denied handles the server's report that this user may not do something. It logs the family of the
// subject instead of the subject, which names a tenant, and ends the requests that get no answer.
func (b *Broker) denied(err error) {
	e, subject := &DeniedError{Role: b.cfg.Role, Subject: "other"}, ""
	if m := refusedSubject.FindStringSubmatch(err.Error()); m != nil {
		subject = m[2]
		e.Listen, e.Subject = m[1] == "Subscription", access.Family(subject, b.cfg.Layout.Partitions)
	}
	if cancel := b.asking.Load(); cancel != nil {
		(*cancel)(e)
	}
	b.acks.deny(subject, e)
	b.reads.deny(subject, e)
	b.cfg.Logger.ErrorContext(b.life, "broker_denied", "component", "broker", "err_kind", "permission", "subject", e.Subject)
}

// accessTimeout bounds the request for this user's permissions. Only servers that were not
// configured by Weir do not answer.
const accessTimeout = 2 * time.Second

// checkAccess compares the permissions of this node's user with what its role needs, so that a
// missing one is reported at the start and not at its first use.
func (b *Broker) checkAccess(ctx context.Context) error {
	if b.cfg.Server != nil {
		return nil
	}
	var info struct {
		Data struct {
			Permissions *granted `json:"permissions"`
		} `json:"data"`
	}
	err := b.asked(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		m, err := b.nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
		if err != nil {
			return err
		}
		return json.Unmarshal(m.Data, &info)
	})
	if e, ok := errors.AsType[*DeniedError](err); ok && e.Listen {
		e.Why = "receive the answers to its own requests; are these the credentials of another role?"
		return e
	}
	if err != nil {
		return nil //nolint:nilerr // the servers do not list permissions; a denied operation is reported when it is tried
	}
	b.granted = info.Data.Permissions
	need := access.Of(b.cfg.Role, b.cfg.Layout.Partitions)
	if e := b.granted.lacks(need); e != nil {
		e.Role = b.cfg.Role
		return e
	}
	return nil
}

// granted is the server's list of what a user may do. Nil grants everything.
type granted struct {
	Publish   *side     `json:"publish"`
	Subscribe *side     `json:"subscribe"`
	Responses *struct{} `json:"responses"`
}

// side holds the permissions to publish or to subscribe. Nil grants everything.
type side struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

func (s *side) has(subject string) bool {
	return s == nil || (len(s.Allow) == 0 || access.CoveredBy(subject, s.Allow)) && !access.CoveredBy(subject, s.Deny)
}

// lacks is the first needed permission that is not granted, or nil.
func (g *granted) lacks(need access.Permissions) *DeniedError {
	if g == nil {
		return nil
	}
	for i, rules := range [][]access.Rule{need.Publish, need.Subscribe} {
		has := []*side{g.Publish, g.Subscribe}[i]
		for _, r := range rules {
			for _, s := range r.Subjects {
				if !has.has(s) {
					return &DeniedError{Subject: s, Listen: i == 1, Why: r.Why}
				}
			}
		}
	}
	if need.Replies && g.Responses == nil && g.Publish != nil && !access.CoveredBy("_R_.>", g.Publish.Allow) {
		return &DeniedError{Subject: "the subjects that requests name for their answers", Why: "answer requests; allow_responses grants it"}
	}
	return nil
}
