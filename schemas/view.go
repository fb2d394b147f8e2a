package schemas

import (
	"encoding/json"
	"time"
)

// ActionView is where an action stands.
type ActionView struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Called
	// Agent is the task type of a run, or the name of the token that leased a task last.
	Agent string `json:"agent,omitempty"`
	// Caller is the name of the token that sent the action; absent without tokens.
	Caller string `json:"caller,omitempty"`
	// Task is the id of the task whose holder sent the action; absent for other senders.
	Task string `json:"task,omitempty"`
	// TaskType says which agent a run is for.
	TaskType string `json:"task_type,omitempty"`
	// Status is accepted, started or waiting, or the outcome once it is settled.
	Status   Status    `json:"status"`
	Class    Class     `json:"class,omitempty"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline,omitzero"`
	// NotBefore is when it begins at the earliest.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Priority is that with which it waits for a worker.
	Priority Priority  `json:"priority,omitempty"`
	Settled  time.Time `json:"settled,omitzero"`

	// CancelRequested: it is running, and was asked to stop.
	CancelRequested bool     `json:"cancel_requested,omitempty"`
	Waiting         *Waiting `json:"waiting,omitempty"`
	// Supersedes names the action that this one was made from.
	Supersedes string `json:"supersedes,omitempty"`
	// SupersededBy names the action that a redrive, or a repeat of the same request, has begun.
	SupersededBy string `json:"superseded_by,omitempty"`

	Attempts []AttemptView `json:"attempts"`
	// Decision is what policy said of the newest call.
	Decision *Decision `json:"decision,omitempty"`

	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Result is the body that the action's own surface answers with; of a completion
	// ChatResult, which tells more.
	Result     json.RawMessage `json:"result,omitempty"`
	Resolution *Resolution     `json:"resolution,omitempty"`

	EventsURL string `json:"events_url"`
	// ResolveURL is set if it is unknown whether the call was applied.
	ResolveURL string `json:"resolve_url,omitempty"`
}

// ActionPayload is what an action of kind http, passthrough, plan or run asks for: HTTPCall, PlanRequest
// or Run.
type ActionPayload struct {
	ID      string          `json:"id"`
	Kind    Kind            `json:"kind"`
	Payload json.RawMessage `json:"payload"`
}

// AttemptView is one outbound call of an action.
type AttemptView struct {
	// Step is the index of a plan's decision; 0 for a single call.
	Step int `json:"step"`
	// Number counts the attempts of a step from 1.
	Number int `json:"number"`
	// Hop counts followed redirects; 0 is the call itself.
	Hop int `json:"hop,omitempty"`
	// Probe is the number of the attempt that this request looked up; absent: it is an attempt of the
	// call itself.
	Probe int    `json:"probe,omitempty"`
	Class Class  `json:"class,omitempty"`
	Entry string `json:"entry,omitempty"`
	// The hash of the policy that decided.
	Version   string    `json:"policy_version,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	// Done: its result is known, and follows.
	Done bool `json:"done"`
	Code Code `json:"code,omitempty"`
	// Sent is false only where provably no byte of the request left.
	Sent   *bool `json:"sent,omitempty"`
	Status int   `json:"status,omitempty"`
	// Effect is what a probe has shown: applied or not_applied; absent: neither.
	Effect     string   `json:"effect,omitempty"`
	DurationMS *float64 `json:"duration_ms,omitempty"`
}

// ActionStatus answers a cancel and a resolve.
type ActionStatus struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	// CancelRequested: it was running, and was asked to stop.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// Resolution is a person's word on an unknown outcome.
	Resolution string `json:"resolution,omitempty"`
}

// The effects that a ResolveRequest may state.
const (
	EffectApplied    = "applied"
	EffectNotApplied = "not_applied"
)

// ResolveRequest is the body of POST /v1/actions/{id}/resolve.
type ResolveRequest struct {
	// Effect is what a person found: whether the call had its effect.
	Effect string `json:"effect" jsonschema:"enum=applied,enum=not_applied"`
	Note   string `json:"note,omitempty" jsonschema:"maxLength=2000"`
}

// RedriveRequest is the body of POST /v1/dead-letters/redrive.
type RedriveRequest struct {
	// Sequence is the seq of a dead letter.
	Sequence uint64 `json:"sequence" jsonschema:"minimum=1"`
}

// EventView is one event of an action as its owner sees it. The document of its
// type is set.
type EventView struct {
	// Seq is the event's place in the stream: the id to resume after.
	Seq uint64 `json:"seq"`
	// N is the event's ordinal in its action: accepted is 1.
	N    int       `json:"n"`
	Type EventType `json:"type"`
	Time time.Time `json:"time"`

	Action     *EventViewAction    `json:"action,omitempty"`
	Attempt    *EventViewAttempt   `json:"attempt,omitempty"`
	Attempted  *EventViewAttempted `json:"attempted,omitempty"`
	Waiting    *Waiting            `json:"waiting,omitempty"`
	Task       *EventViewTask      `json:"task,omitempty"`
	Data       json.RawMessage     `json:"data,omitempty"`
	Settled    *EventViewSettled   `json:"settled,omitempty"`
	Resolution *Resolution         `json:"resolution,omitempty"`
	Superseded *Superseded         `json:"superseded,omitempty"`
}

// EventViewAction says what was accepted.
type EventViewAction struct {
	ID         string    `json:"id"`
	Kind       Kind      `json:"kind"`
	TaskType   string    `json:"task_type,omitempty"`
	Class      Class     `json:"class,omitempty"`
	Deadline   time.Time `json:"deadline"`
	Supersedes string    `json:"supersedes,omitempty"`
}

// EventViewAttempt says that a call is about to be made.
type EventViewAttempt struct {
	Step     int      `json:"step"`
	Number   int      `json:"number"`
	Hop      int      `json:"hop,omitempty"`
	Probe    int      `json:"probe,omitempty"` // the number of the attempt that this request looks up
	Class    Class    `json:"class,omitempty"`
	Decision Decision `json:"decision"`
	// Digest is the hex SHA-256 of the canonical request.
	Digest string `json:"digest,omitempty"`
	// DerivedKey is the idempotency key that is sent, where Weir has derived it.
	DerivedKey string    `json:"derived_key,omitempty"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// EventViewAttempted is the result of the attempt with the same step, number, hop and probe.
type EventViewAttempted struct {
	Step   int `json:"step"`
	Number int `json:"number"`
	Hop    int `json:"hop,omitempty"`
	Probe  int `json:"probe,omitempty"` // the number of the attempt that this request looked up
	// Effect is what a probe has shown: applied or not_applied; absent: neither.
	Effect string `json:"effect,omitempty"`
	// Code is empty when a complete answer came back.
	Code Code `json:"code,omitempty"`
	// Sent is false only where provably no byte of the request left.
	Sent       bool    `json:"sent"`
	Status     int     `json:"status,omitempty"`
	DurationMS float64 `json:"duration_ms"`
	// RetryAt is when the next attempt is due, if any.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Traffic is the effect of traffic rules on the call if there is no attempt event, for example
	// the answer of a mock.
	Traffic *Traffic `json:"traffic,omitempty"`
}

// EventViewSettled is how the action ended: the last event of its life.
type EventViewSettled struct {
	Outcome  Outcome `json:"outcome"`
	Code     Code    `json:"code,omitempty"`
	Message  string  `json:"message,omitempty"`
	Attempts int     `json:"attempts"`
	// Result is the body that the action's own surface answers with; of a completion
	// ChatResult, which tells more.
	Result json.RawMessage `json:"result,omitempty"`
	// ResultURL is where a result lies that is too large for an event.
	ResultURL  string `json:"result_url,omitempty"`
	ResolveURL string `json:"resolve_url,omitempty"`
}

// DeadLetterView is a dead letter as its owner sees it: why it was parked, and
// not the message.
type DeadLetterView struct {
	// Seq is what a redrive names as its sequence.
	Seq      uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Kind     Kind      `json:"kind"`
	ActionID string    `json:"action_id"`
	Called
	// Agent is the task type of a run.
	Agent     string `json:"agent,omitempty"`
	Code      Code   `json:"code"`
	Reason    string `json:"reason"`
	ActionURL string `json:"action_url"`
}

// Readiness says whether a node can do its work, and what it promises.
type Readiness struct {
	Ready bool `json:"ready"`
	// Role is the node's, where it has not all of them.
	Role       string     `json:"role,omitempty" jsonschema:"enum=ingress,enum=worker,enum=egress"`
	Durability Durability `json:"durability"`
	// Replicas is on how many servers of a cluster everything lies; absent where the node
	// keeps the log itself.
	Replicas      int    `json:"replicas,omitempty"`
	Partitions    int    `json:"partitions"`
	PolicyVersion string `json:"policy_version"`
	// Checks has ok or failed for each thing that is needed.
	Checks  map[string]string `json:"checks"`
	Reasons []string          `json:"reasons,omitempty"`
}

// Health answers for as long as the process does.
type Health struct {
	Status string `json:"status" jsonschema:"enum=ok"`
}

// HealthReadiness is Readiness with a status text.
type HealthReadiness struct {
	Status string `json:"status" jsonschema:"enum=ready,enum=not_ready"`
	Readiness
}

// The words of both.
const (
	HealthOK       = "ok"
	HealthReady    = "ready"
	HealthNotReady = "not_ready"
)

// Sandbox says which hosts can be called without naming an entry.
type Sandbox struct {
	AllowedHosts []string `json:"allowed_hosts"`
}

// Status is the state of an action.
type Status string

// Statuses lists every status.
func Statuses() []Status {
	list := []Status{Status(EventAccepted), Status(EventStarted), Status(EventWaiting)}
	for _, o := range Outcomes() {
		list = append(list, Status(o))
	}
	return list
}

// EventViewTask is what happened to a task.
type EventViewTask struct {
	What    TaskWhat     `json:"what"`
	Status  TaskStatus   `json:"status"`
	Lease   int          `json:"lease,omitempty"`
	Holder  string       `json:"holder,omitempty"`
	Base    string       `json:"base,omitempty"`
	Head    string       `json:"head,omitempty"`
	Push    string       `json:"push,omitempty"`
	Inquiry *TaskInquiry `json:"inquiry,omitempty"`
	Report  *TaskReport  `json:"report,omitempty"`
}
