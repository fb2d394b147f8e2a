package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"weir/internal/broker/access"
	"weir/internal/fault"
)

// DeniedError says that the servers do not let this user do what its role takes.
type DeniedError struct {
	Role access.Role
	// Subject is the pattern of subjects that is not granted, and Listen whether to
	// listen there: else to publish.
	Subject string
	Listen  bool
	Why     string // what it is needed for; may be empty
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

// denials tells whoever waits for something what the server has refused: it answers a
// request that is not allowed with a word to the connection, and never to the request.
type denials struct {
	denialMu  sync.Mutex
	asking    map[chan<- *DeniedError]struct{}
	exchanges []*exchange
}

// listen has an exchange told of its requests that are denied.
func (d *denials) listen(x *exchange) {
	d.denialMu.Lock()
	defer d.denialMu.Unlock()
	d.exchanges = append(d.exchanges, x)
}

// watch has c told of what is denied from now on. It is never waited for.
func (d *denials) watch(c chan<- *DeniedError) (stop func()) {
	d.denialMu.Lock()
	defer d.denialMu.Unlock()
	if d.asking == nil {
		d.asking = make(map[chan<- *DeniedError]struct{})
	}
	d.asking[c] = struct{}{}
	return func() {
		d.denialMu.Lock()
		defer d.denialMu.Unlock()
		delete(d.asking, c)
	}
}

func (d *denials) tell(subject string, e *DeniedError) {
	d.denialMu.Lock()
	defer d.denialMu.Unlock()
	if !e.Listen {
		for _, x := range d.exchanges {
			x.deny(subject, fmt.Errorf("%w: %w", fault.ErrUnavailable, e))
		}
	}
	for c := range d.asking {
		select {
		case c <- e:
		default: // it has been told of one already
		}
	}
}

// denials' words, as the servers write them.
var refusedSubject = regexp.MustCompile(`(Publish|Subscription) to "(\S+)"`)

// denied takes the server's word that this user may not do something: to the log, with
// the family of the subject and not the subject itself, which names a tenant, and to
// whoever waits for an answer that will not come.
func (b *Broker) denied(err error) {
	e, subject := &DeniedError{Role: b.cfg.Role, Subject: "other"}, ""
	if m := refusedSubject.FindStringSubmatch(err.Error()); m != nil {
		subject = m[2]
		e.Listen, e.Subject = m[1] == "Subscription", access.Family(subject, b.cfg.Layout.Partitions)
	}
	b.tell(subject, e)
	b.cfg.Logger.ErrorContext(b.life, "broker denied", "component", "broker", "err_kind", "permission", "subject", e.Subject)
}

// asked does what asks the server something, and gives up at once where that is denied.
func (b *Broker) asked(ctx context.Context, ask func(context.Context) error) error {
	heard := make(chan *DeniedError, 1)
	defer b.watch(heard)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- ask(ctx) }()
	select {
	case err := <-done:
		return err
	case e := <-heard:
		cancel()
		<-done //nolint:errcheck // that its context has ended
		return e
	}
}

// accessTimeout bounds the question what a user may do. A server that does not say is
// none that Weir's own files were made for.
const accessTimeout = 2 * time.Second

// checkAccess compares what the servers grant this node's user with what its role needs,
// so that a permission that is missing is told of now and not when it is first needed.
func (b *Broker) checkAccess(ctx context.Context) error {
	if b.cfg.Server != nil {
		return nil
	}
	err := b.asked(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		m, err := b.nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
		if err != nil {
			return err
		}
		return json.Unmarshal(m.Data, &b.granted)
	})
	if e, ok := errors.AsType[*DeniedError](err); ok && e.Listen {
		e.Why = "hear the answers to its own requests; are these the credentials of another role?"
		return e
	}
	if err != nil {
		return nil //nolint:nilerr // the servers do not say; what is denied is told of when it is asked
	}
	need := access.Of(b.cfg.Role, b.cfg.Layout.Partitions)
	if e := b.granted.lacks(need); e != nil {
		e.Role = b.cfg.Role
		return e
	}
	return nil
}

// granted is the server's answer to what a user may do.
type granted struct {
	Data struct {
		Permissions *struct {
			Publish   *side     `json:"publish"`
			Subscribe *side     `json:"subscribe"`
			Responses *struct{} `json:"responses"`
		} `json:"permissions"`
	} `json:"data"`
}

// side is what is granted of publishing or of subscribing.
type side struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// publishes reports whether a subject may be published to, as far as the servers say.
func (g granted) publishes(subject string) bool {
	p := g.Data.Permissions
	return p == nil || p.Publish == nil || p.Publish.has(subject)
}

func (s side) has(subject string) bool {
	return (len(s.Allow) == 0 || access.CoveredBy(subject, s.Allow)) && !access.CoveredBy(subject, s.Deny)
}

// lacks is the first thing that is needed and not granted, or nothing.
func (g granted) lacks(need access.Permissions) *DeniedError {
	p := g.Data.Permissions
	if p == nil {
		return nil // everything is
	}
	for _, side := range []struct {
		rules  []access.Rule
		has    *side
		listen bool
	}{{need.Publish, p.Publish, false}, {need.Subscribe, p.Subscribe, true}} {
		if side.has == nil {
			continue
		}
		for _, r := range side.rules {
			for _, s := range r.Subjects {
				if !side.has.has(s) {
					return &DeniedError{Subject: s, Listen: side.listen, Why: r.Why}
				}
			}
		}
	}
	if need.Replies && p.Responses == nil && p.Publish != nil && !access.CoveredBy("_R_.>", p.Publish.Allow) {
		return &DeniedError{Subject: "the subjects that requests name for their answers", Why: "answer requests; allow_responses grants it"}
	}
	return nil
}
