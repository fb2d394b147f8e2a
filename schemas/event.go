package schemas

import (
	"encoding/json"
	"time"
)

// EventType names what an event records.
type EventType string

// The types, in the order of an action's life. Progress and delta may stand
// anywhere between started and settled.
const (
	EventAccepted   EventType = "accepted"
	EventStarted    EventType = "started"   // written by kinds whose first attempt is not the first thing to be seen
	EventAttempt    EventType = "attempt"   // written before a call is made
	EventAttempted  EventType = "attempted" // written when its result is known, unless that ends the action
	EventWaiting    EventType = "waiting"
	EventProgress   EventType = "progress"
	EventDelta      EventType = "delta"
	EventSignal     EventType = "signal"     // a message from outside that the action's worker has to handle
	EventStatus     EventType = "status"     // a worker's word on a task
	EventCancel     EventType = "cancel"     // a caller requested a stop
	EventSettled    EventType = "settled"    // terminal: one an action, the last of its life
	EventResolution EventType = "resolution" // a person's word on an unknown outcome; stands after settled
	EventSuperseded EventType = "superseded" // a redrive or a repeat of its request has a successor; it follows settled
)

// NeedsBarrier reports whether an event of this type may be shown only once it
// would survive what the durability promises.
func (t EventType) NeedsBarrier() bool {
	return t != EventProgress && t != EventDelta
}

// NeedsBarrier is that property of the event's type, and is true for the first event of an answer
// too: after it was shown, no other answer may replace it, even after a crash.
func (e Event) NeedsBarrier() bool { return e.First || e.Type.NeedsBarrier() }

// Outcome is how an action ended.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeDenied    Outcome = "denied"
	OutcomeCanceled  Outcome = "canceled"
	OutcomeExpired   Outcome = "expired"
	OutcomeUnknown   Outcome = "outcome_unknown"
)

// Code is the code of an end of this outcome that stores none.
func (o Outcome) Code() Code {
	switch o {
	case OutcomeCanceled:
		return Canceled
	case OutcomeExpired:
		return DeadlineExceeded
	case OutcomeUnknown:
		return OutcomeUnknownCode
	case OutcomeSucceeded, OutcomeFailed, OutcomeDenied:
	}
	return Internal
}

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeSucceeded, OutcomeFailed, OutcomeDenied,
		OutcomeCanceled, OutcomeExpired, OutcomeUnknown,
	}
}

// EventVersion is the version of the records this program writes.
const EventVersion = 1

// Event is one entry in an action's log. The document of its type is set. An
// attempted event that carries its attempt too records a call that failed
// before any byte was sent, and so was not written down beforehand. A settled event
// carries the result of the attempt that ended the action, where that has no event of
// its own.
type Event struct {
	V int `json:"v"`
	// N is the event's ordinal in its action: accepted is 1. A reader that
	// sees a jump has missed an event and reads the log.
	N    int       `json:"n"`
	Type EventType `json:"type"`
	Time time.Time `json:"time"`
	Seq  uint64    `json:"-"` // its sequence in the stream, of an event in a ledger.State

	Action     *Action         `json:"action,omitempty"`     // accepted
	Started    *Started        `json:"started,omitempty"`    // started
	Attempt    *Attempt        `json:"attempt,omitempty"`    // attempt, attempted; see above
	Attempted  *Attempted      `json:"attempted,omitempty"`  // attempted, settled
	Waiting    *Waiting        `json:"waiting,omitempty"`    // waiting
	Task       *TaskEvent      `json:"task,omitempty"`       // signal, status
	First      bool            `json:"first,omitempty"`      // delta: it begins the answer
	Data       json.RawMessage `json:"data,omitempty"`       // progress, delta
	Settled    *Settled        `json:"settled,omitempty"`    // settled
	Resolution *Resolution     `json:"resolution,omitempty"` // resolution
	Superseded *Superseded     `json:"superseded,omitempty"` // superseded
}

// Started says who took the action up.
type Started struct {
	Worker string `json:"worker"`
}

// Decision is what policy said of one call, and which entry and version said it.
type Decision struct {
	Allowed bool `json:"allowed"`
	// Code is the check that denied; empty when allowed.
	Code   Code   `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"` // a sentence without content of the request
	Entry  string `json:"entry,omitempty"`
	// Version is the hash of the canonical policy in force.
	Version string `json:"version"`
	// Shadow is what the policy would have said with its shadow entries
	// enforced, where that differs. It changes nothing.
	Shadow *Shadow `json:"shadow,omitempty"`
	// Traffic is what the traffic rules made of the call before policy saw it;
	// absent where the tenant has none.
	Traffic *Traffic `json:"traffic,omitempty"`
}

// Shadow is the decision that was not made.
type Shadow struct {
	Allowed bool   `json:"allowed"`
	Code    Code   `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Entry   string `json:"entry,omitempty"`
}

// Attempt is one outbound call, written down before it is made.
type Attempt struct {
	// Step is the index of a plan's decision; 0 for a single call.
	Step int `json:"step"`
	// Number counts the attempts of a step from 1.
	Number int `json:"number"`
	// Hop counts followed redirects inside an attempt; 0 is the call itself.
	Hop int `json:"hop,omitempty"`
	// Probe is set for a probe, which looks up whether the attempt of that number was applied. It is
	// no attempt of the call: Number counts the probes of that attempt from 1.
	Probe    int      `json:"probe,omitempty"`
	Class    Class    `json:"class"`
	Worker   string   `json:"worker"`
	Decision Decision `json:"decision"`
	// Message is the sequence of the message that the worker was at: when that is
	// delivered again, the worker has it no more.
	Message uint64 `json:"message,omitempty"`
	// Digest is the hex SHA-256 of the canonical request.
	Digest string `json:"digest"`
	// Method and URL are the call's as the action asks for it, before traffic rules
	// and without what the entry adds. Evidence has the URL without values. Of a call to
	// an agent the URL is its route alone.
	Method string `json:"method,omitempty"`
	URL    string `json:"url,omitempty"`
	// DerivedKey is the idempotency key that is sent, where Weir has derived it.
	DerivedKey string `json:"derived_key,omitempty"`
	// ExpiresAt is when the worker will have given the call up; no other worker touches the action
	// before.
	ExpiresAt time.Time `json:"expires_at"`
	// KeyExpiresAt is set for class keyed: no repeat starts later.
	KeyExpiresAt time.Time `json:"key_expires_at,omitzero"`
}

// Place is the attempt's place in its action.
func (a Attempt) Place() []int {
	place := []int{a.Step, a.Number, a.Hop}
	if a.Probe > 0 {
		place = append(place, a.Probe)
	}
	return place
}

// Attempted is the result of the attempt with the same step, number, hop and probe.
type Attempted struct {
	Step   int `json:"step"`
	Number int `json:"number"`
	Hop    int `json:"hop,omitempty"`
	Probe  int `json:"probe,omitempty"`
	// Effect is what a probe has shown: applied or not_applied; empty: neither.
	Effect string `json:"effect,omitempty"`
	// Code is empty when a complete answer came back.
	Code Code `json:"code,omitempty"`
	// Secret is the name of the secret that could not be read, with SECRET_UNAVAILABLE.
	Secret string `json:"secret,omitempty"`
	// Decision is what policy said right before the call, where another one had
	// come into force since the attempt was written down. It is the one that counts.
	Decision *Decision `json:"decision,omitempty"`
	// Sent is false only where provably no byte of the request left.
	Sent     bool          `json:"sent"`
	Status   int           `json:"status,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	// NoMemory: Weir had no memory for the answer in time. That says nothing of the target.
	NoMemory bool `json:"no_memory,omitempty"`
	// Answer is the response, redacted, kept so that the action can be
	// finished from its log after a crash. AnswerBlob names it when it is large.
	Answer     *Answer `json:"answer,omitempty"`
	AnswerBlob string  `json:"answer_blob,omitempty"`
	// InResult says that Answer is brief, because the result of the same event has the whole.
	InResult bool `json:"in_result,omitempty"`
	// Schema is what the entry's response schema finds wrong with the answer; absent: nothing.
	Schema *SchemaFinding `json:"schema,omitempty"`
	// Repeatable: such an end permits another attempt. Without RetryAt, the schedule or a deadline
	// leaves none.
	Repeatable bool `json:"repeatable,omitempty"`
	// RetryAt is when the next attempt is due, if any.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Location is the redirect target of the answer as a whole URL, if it is followed next. It
	// belongs to the owner, and is in no evidence.
	Location string `json:"location,omitempty"`
}

// SchemaFinding is an answer that does not fit the response schema of its entry.
type SchemaFinding struct {
	// Mode is the entry's: strict, warn or redact. With warn the call succeeds anyway.
	Mode string `json:"mode"`
	// Code is RESPONSE_SCHEMA_INVALID or RESPONSE_NOT_JSON.
	Code       Code     `json:"code"`
	Violations []string `json:"violations"`
}

// Waiting says why an action rests and until when.
type Waiting struct {
	For   string    `json:"for"` // delay, in_flight, capacity, rule, agent, limit, paused, destination, node, approval or input
	Until time.Time `json:"until,omitzero"`
	// Step is whose call waits.
	Step int `json:"step,omitempty"`
	// Rules are the ids of the traffic rules that hold it back.
	Rules []string `json:"rules,omitempty"`
}

// The reasons to wait.
const (
	WaitDelay    = "delay"     // a retry is due later, or the action is not to begin yet
	WaitInFlight = "in_flight" // an attempt of a dead worker may still be running
	WaitCapacity = "capacity"  // the agent has as many runs as it may have, or the entry as many calls
	WaitRule     = "rule"      // a traffic rule holds the next call back
	WaitAgent    = "agent"     // a task waits for an agent, or for what the agent does
	WaitLimit    = "limit"     // as many calls begin as its entry lets; until then it is booked
	WaitPaused   = "paused"    // an operator holds it back
	// WaitDestination: its destination requested a pause, or has failed too often.
	WaitDestination = "destination"
	// WaitNode: no node that took it has its repository, or a place for repositories.
	WaitNode = "node"
)

// Settled is the terminal event's word. Result is the kind's own document
// (HTTPResult, PlanResult, RunResult, RuleResult, TaskResult, PushResult, Repo, ChatResult) and is set for every outcome that has one.
type Settled struct {
	Outcome Outcome         `json:"outcome"`
	Code    Code            `json:"code,omitempty"`
	Entry   string          `json:"entry,omitempty"`   // that the last call was decided by; the ledger sets it
	Message string          `json:"message,omitempty"` // safe to show to the owner
	Result  json.RawMessage `json:"result,omitempty"`
	// ResultBlob names the blob with the result if the result is large. Of a completion, Result is
	// then the result without the completion.
	ResultBlob string `json:"result_blob,omitempty"`
	// AnswerBlob names the blob with the attempt's answer if the answer is large. Result then
	// refers to it in its member answer and does not repeat it. See ledger.Ledger.Result.
	AnswerBlob string `json:"answer_blob,omitempty"`
	Attempts   int    `json:"attempts"`
	// Answer is the answer in Result. It is not stored: it spares the attempt a second copy.
	Answer *Answer `json:"-"`
	// Resolution is a person's word on an unknown outcome. It has an event of its own, and is set for
	// an answer.
	Resolution *Resolution `json:"-"`
}

// Superseded names the action that a redrive, or a repeat of this one's request, has begun. The worker that
// takes the successor writes it before it begins.
type Superseded struct {
	By string `json:"by"`
}

// Resolution is a person's word on an outcome_unknown. It changes no outcome.
type Resolution struct {
	Effect string `json:"effect"` // applied or not_applied
	Note   string `json:"note,omitempty"`
	By     string `json:"by,omitempty"`
}
