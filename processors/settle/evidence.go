package settle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/ledger"
	"weir/internal/policy/callurl"
	"weir/processors/call"
	"weir/schemas"
)

// Sender stores messages; see broker.Broker.
type Sender interface {
	// Send sends a message and returns a function that waits until it is stored, and must be called
	// once. A repeat of an id stores nothing for a while.
	Send(ctx context.Context, subject, id string, data []byte) (wait func() error, err error)
}

// Log stores evidence, and reads back what is stored.
type Log interface {
	Sender
	Page(ctx context.Context, stream, filter string, from uint64, limit, size int) (records []schemas.Record, more bool, err error)
}

// Recorder leaves evidence. The id of a record is derived from the action and
// what is recorded, and the broker refuses an id it has seen within its window:
// a repeat stores nothing. Beyond that window, Store reads the stream first.
type Recorder struct {
	log     Log
	metrics EvidenceMetrics
	seal    *Seal
}

// EvidenceMetrics counts records.
type EvidenceMetrics interface {
	EvidenceWritten(kind string)
	Denied(code schemas.Code)
	// Shadowed counts a decision that shadow entries would have changed.
	Shadowed(entry string, allowed bool)
}

// NewRecorder returns a Recorder on a log. It seals the evidence of sensitive actions
// with s, so that its records can be compared with those of other nodes and of the time before.
func NewRecorder(log Log, m EvidenceMetrics, s *Seal) *Recorder {
	return &Recorder{log: log, metrics: m, seal: s}
}

// Store stores records of an action, in order, and returns when all are stored. The log has the
// action's newest event before that. If the result of an attempt is held, its records are stored
// together with it. If an earlier worker has stored some of them, they are read first and not
// stored again.
func (r *Recorder) Store(ctx context.Context, st *ledger.State, records ...schemas.Evidence) error {
	if len(records) == 0 {
		return nil
	}
	loose := st.Action.PayloadBlob != "" || slices.ContainsFunc(records, func(e schemas.Evidence) bool { return !derived(e) })
	if !loose && st.With(func(ctx context.Context) (func() error, error) { return r.begin(ctx, st, records) }) {
		return nil
	}
	if err := st.Flush(ctx); err != nil {
		return err
	}
	st.Underived = st.Underived || loose
	wait, err := r.begin(ctx, st, records)
	if err != nil {
		return err
	}
	return wait()
}

// begin sends the records that are not stored yet, and returns a function that waits for them.
func (r *Recorder) begin(ctx context.Context, st *ledger.State, records []schemas.Evidence) (wait func() error, err error) {
	if err := r.Recall(ctx, st); err != nil {
		return nil, err
	}
	waits := make([]func() error, 0, len(records))
	wait = func() (first error) {
		for _, stored := range waits {
			first = cmp.Or(first, stored())
		}
		return first
	}
	for i := range records {
		if st.StoredEvidence[records[i].ID] {
			continue
		}
		stored, err := r.send(ctx, &st.Action, &records[i])
		if err != nil {
			return nil, errors.Join(err, wait())
		}
		waits = append(waits, stored)
	}
	return wait, nil
}

// Record stores a record that belongs to no action, in its principal's name, and returns when it is
// stored.
func (r *Recorder) Record(ctx context.Context, e schemas.Evidence) error {
	wait, err := r.send(ctx, &schemas.Action{Principal: e.Principal}, &e)
	if err != nil {
		return err
	}
	return wait()
}

// recallPage and recallBytes bound the stored records of an action that are read back at once. A
// task may have left many more.
const (
	recallPage  = 1000
	recallBytes = 8 << 20
)

// Recall has a state know which of its action's records an earlier worker has left,
// where there may be any. Store does so by itself.
func (r *Recorder) Recall(ctx context.Context, st *ledger.State) error {
	if !st.Again || st.StoredEvidence != nil {
		return nil
	}
	filter := schemas.EvidenceFilter(st.Tenant, "", "", st.ID, false)
	ids := map[string]bool{}
	for from, more := uint64(1), true; more; {
		var found []schemas.Record
		var err error
		if found, more, err = r.log.Page(ctx, schemas.EvidenceStream, filter, from, recallPage, recallBytes); err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		for _, rec := range found {
			var e struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(rec.Data, &e); err == nil {
				ids[e.ID] = true
			}
			from = rec.Seq + 1
		}
	}
	st.StoredEvidence = ids
	return nil
}

// send sends a record of an action in its principal's name, and keeps it. The function that it returns
// waits until the record is stored, and counts it. There is no other way to the stream, so that none of a
// sensitive action gets there unsealed.
func (r *Recorder) send(ctx context.Context, a *schemas.Action, e *schemas.Evidence) (wait func() error, err error) {
	e.Time, e.Principal = time.Now().UTC(), a.Principal
	if a.Sensitive {
		if *e, err = r.seal.record(*e); err != nil {
			return nil, err
		}
	}
	data, err := ledger.Encode(e)
	if err != nil {
		return nil, err
	}
	stored, err := r.log.Send(ctx, schemas.EvidenceSubject(*e), e.Tenant+"/"+e.ID, data)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return func() error {
		if err := stored(); err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		r.metrics.EvidenceWritten(e.Kind)
		if e.Kind == schemas.EvidenceDecision || e.Kind == schemas.EvidenceTunnel && e.Code.Denied() {
			r.metrics.Denied(e.Code)
		}
		if s := e.Shadow; s != nil {
			r.metrics.Shadowed(cmp.Or(s.Entry, e.Entry), s.Allowed)
		}
		return nil
	}, nil
}

// AttemptID is the evidence id of an attempt or a probe.
func AttemptID(action string, a schemas.Attempt) string {
	if a.Probe > 0 {
		return fmt.Sprintf("%s.probe.%d.%d.%d.%d", action, a.Step, a.Probe, a.Number, a.Hop)
	}
	return fmt.Sprintf("%s.attempt.%d.%d.%d", action, a.Step, a.Number, a.Hop)
}

// derived reports whether a record follows from an attempt on the log, so that another worker can
// store it again if it is missing.
func derived(e schemas.Evidence) bool {
	kind, ok := strings.CutPrefix(e.ID, e.ActionID)
	return ok && (strings.HasPrefix(kind, ".attempt.") || strings.HasPrefix(kind, ".probe."))
}

// ClosingID is the evidence id of an action's closing record.
func ClosingID(action string) string { return action + ".closing" }

// Denial is the record of a call of a step that policy refused after so many attempts. Target names
// the call without its values.
func Denial(st *ledger.State, step int, method, target string, d schemas.Decision, attempts int) (schemas.Evidence, error) {
	if !schemas.KnownMethod(method) {
		method = "" // a caller may have written anything in its place
	}
	payload, err := ledger.Encode(struct {
		Step   int          `json:"step"`
		Method string       `json:"method"`
		Target string       `json:"target,omitempty"`
		Code   schemas.Code `json:"code"`
		Reason string       `json:"reason"`
		Entry  string       `json:"entry,omitempty"`
	}{step, method, target, d.Code, d.Reason, d.Entry})
	return schemas.Evidence{
		ID: fmt.Sprintf("%s.denial.%d.%d", st.ID, step, attempts), Tenant: st.Tenant, ActionID: st.ID,
		Kind: schemas.EvidenceDecision, Entry: d.Entry, Code: d.Code, Payload: payload, PolicyVersion: d.Version, Shadow: d.Shadow, Traffic: d.Traffic,
	}, err
}

// target names the call of an attempt as call.Task.Target does: the log has only the route of an agent
// or a model.
func target(t ledger.Attempt) string {
	if !strings.Contains(t.URL, "://") {
		return t.Method + " " + t.Decision.Entry + t.URL
	}
	return callurl.Target(t.Method, t.URL)
}

// Refusal is the record of a permitted call that was refused later: by an address it resolved to,
// by a redirect, or by another policy. ok is false if the attempt ended in another way.
func Refusal(st *ledger.State, t ledger.Attempt) (ev schemas.Evidence, ok bool, err error) {
	if !t.Result.Code.Denied() {
		return ev, false, nil
	}
	d := t.LastWord()
	if d.Allowed {
		d.Allowed, d.Code, d.Reason = false, t.Result.Code, call.Describe(t)
	}
	d.Shadow = nil // the record of the attempt has it
	ev, err = Denial(st, t.Step, t.Method, target(t), d, t.Number)
	ev.ID = AttemptID(st.ID, t.Attempt) + ".denial"
	return ev, true, err
}

// Deny leaves the record of a task's call that policy refused.
func Deny(ctx context.Context, to *Recorder, t *call.Task, d schemas.Decision) error {
	denial, err := Denial(t.State, t.Step, t.Call.Method, t.Target(), d, len(t.State.AttemptsOf(t.Step)))
	if err != nil {
		return err
	}
	return to.Store(ctx, t.State, denial)
}

// Evidence is what one finished attempt leaves: that of most kinds is Made.
type Evidence func(st *ledger.State, t ledger.Attempt) ([]schemas.Evidence, error)

// Records are the evidence of all attempts of an action.
func Records(st *ledger.State, of Evidence) (all []schemas.Evidence, err error) {
	for _, t := range st.Attempts {
		records, err := of(st, t)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// Record returns what leaves the evidence of an attempt: a call.Task's Record.
func Record(to *Recorder, st *ledger.State, of Evidence) func(ctx context.Context, t ledger.Attempt) error {
	return func(ctx context.Context, t ledger.Attempt) error {
		records, err := of(st, t)
		if err != nil {
			return err
		}
		return to.Store(ctx, st, records...)
	}
}

// Made is the evidence of one attempt: its record, and the record of a denial if it was refused on
// its way.
func Made(st *ledger.State, t ledger.Attempt) ([]schemas.Evidence, error) {
	ev, err := Attempt(st, t, t.Method, target(t))
	if err != nil {
		return nil, err
	}
	refusal, refused, err := Refusal(st, t)
	if refused {
		return []schemas.Evidence{ev, refusal}, err
	}
	return []schemas.Evidence{ev}, err
}

// Attempt is the record of one call that was made, or could not be made.
func Attempt(st *ledger.State, t ledger.Attempt, method, target string) (schemas.Evidence, error) {
	r, d := t.Result, t.LastWord()
	answer, finding := cmp.Or(r.Answer, &schemas.Answer{}), cmp.Or(r.Schema, &schemas.SchemaFinding{})
	payload, err := ledger.Encode(struct {
		Step         int           `json:"step"`
		Attempt      int           `json:"attempt"`
		Hop          int           `json:"hop,omitempty"`
		Probe        int           `json:"probe,omitempty"`
		Effect       string        `json:"effect,omitempty"`
		Method       string        `json:"method"`
		Fingerprint  string        `json:"request_fingerprint"`
		Digest       string        `json:"request_digest"`
		Class        schemas.Class `json:"class"`
		Worker       string        `json:"worker"`
		Sent         bool          `json:"sent"`
		Status       int           `json:"status,omitempty"`
		Code         schemas.Code  `json:"code,omitempty"`
		ResponseHash string        `json:"response_hash,omitempty"`
		StreamedSize int64         `json:"response_bytes,omitempty"`
		DurationMS   int64         `json:"duration_ms"`
		Allowlist    string        `json:"allowlist"`
		SchemaCode   schemas.Code  `json:"schema_code,omitempty"`
		SchemaMode   string        `json:"schema_mode,omitempty"`
		Violations   int           `json:"schema_violations,omitempty"`
	}{
		t.Step, t.Number, t.Hop, t.Probe, r.Effect, method, target, t.Digest, t.Class, t.Worker,
		r.Sent, r.Status, r.Code, answer.Hash, answer.Size, r.Duration.Milliseconds(), d.Entry,
		finding.Code, finding.Mode, len(finding.Violations),
	})
	return schemas.Evidence{
		ID: AttemptID(st.ID, t.Attempt), Tenant: st.Tenant, ActionID: st.ID,
		Kind: schemas.EvidenceAttempt, Entry: d.Entry, Code: r.Code, Payload: payload, PolicyVersion: d.Version, Shadow: d.Shadow, Traffic: d.Traffic,
	}, err
}
