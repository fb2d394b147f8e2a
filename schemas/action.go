// Package schemas holds every contract of Weir: the records on the log and their subjects, the
// closed vocabularies and the bodies of the public surfaces. It imports the standard library only,
// so that every package, and any program outside Weir, can depend on it.
package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

//go:generate go run ./gen

// Kind is the sort of work an action asks for. It is a token of the action's subject.
type Kind string

// The kinds.
const (
	KindHTTP Kind = "http" // one outbound request: the executor surface
	KindPlan Kind = "plan" // an ordered list of decisions: the plans surface
	KindRun  Kind = "run"  // one run of an agent: the runs surface
	KindRule Kind = "rule" // one write of the rule set: the rules surface
	KindTask Kind = "task" // one job of a coding agent: the tasks surface
	KindPush Kind = "push" // one push to a repository: the git surface
	KindRepo Kind = "repo" // the making of one repository: the git surface
	KindChat Kind = "chat" // one completion of a model: the chat surface
	// KindPassthrough is one outbound request as its caller sent it: passthrough and the proxy.
	KindPassthrough Kind = "passthrough"
)

// Kinds lists every kind that a worker serves.
func Kinds() []Kind {
	return []Kind{KindHTTP, KindPlan, KindRun, KindRule, KindTask, KindPush, KindRepo, KindChat, KindPassthrough}
}

// Class says how to handle a call that was begun and whose result is unknown. It is fixed when the
// action is accepted.
type Class string

// The classes, from the most to the least forgiving.
const (
	ClassSafe       Class = "safe"       // GET, HEAD, OPTIONS: attempt again
	ClassIdempotent Class = "idempotent" // PUT, DELETE: attempt again
	ClassKeyed      Class = "keyed"      // POST, PATCH with a key the entry says its target honours: again, same key and bytes
	ClassOnce       Class = "once"       // every other POST and PATCH: never again
)

// Repeatable reports whether a call of this class may be sent a second time.
func (c Class) Repeatable() bool { return c == ClassSafe || c == ClassIdempotent || c == ClassKeyed }

// Priority says what goes first among the new actions that wait for a worker.
type Priority string

// The priorities.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
)

// Valid reports whether it is one of them.
func (p Priority) Valid() bool { return p == PriorityHigh || p == PriorityNormal }

// Durability says what an acknowledged record survives.
type Durability string

// The durabilities.
const (
	DurabilityDisk       Durability = "disk"       // a power cut
	DurabilityProcess    Durability = "process"    // kill -9, not a power cut
	DurabilityReplicated Durability = "replicated" // the loss of a node of the cluster
)

// IDSource says where an action's id came from. It decides how a repeat with
// another payload is refused: 409, or 422 for an Idempotency-Key.
type IDSource string

// The sources of an id.
const (
	IDGenerated IDSource = "generated"       // a new UUIDv7
	IDRequest   IDSource = "request_id"      // the caller's own
	IDKey       IDSource = "idempotency_key" // derived from tenant, route and Idempotency-Key
)

// Action is one durable unit of work, as the accepted event holds it. Its id
// is unique in its tenant, across kinds, for the whole history of the log.
type Action struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Kind   Kind   `json:"kind"`
	// TaskType is set for kind run: which agent it is for.
	TaskType string `json:"task_type,omitempty"`
	// Sensitive: evidence of it holds no snippet, and keyed hashes only.
	Sensitive bool `json:"sensitive,omitempty"`
	// Sync is set for kind run where its caller waits for one answer: the agent's synchronous
	// route is asked first. It is no part of the fingerprint.
	Sync bool `json:"sync,omitempty"`
	// Class is set for kind http; the decisions of a plan have one each,
	// recorded in their attempts.
	Class    Class    `json:"class,omitempty"`
	IDSource IDSource `json:"id_source"`
	// Fingerprint is the hex SHA-256 of the canonical payload. A repeat of the
	// id with another fingerprint is a conflict.
	Fingerprint string    `json:"fingerprint"`
	AcceptedAt  time.Time `json:"accepted_at"`
	// Deadline is absolute and bounds everything done for the action.
	Deadline time.Time `json:"deadline"`
	// NotBefore is when it begins at the earliest; absent: at once. It is no part of the
	// fingerprint.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Priority is empty where it is normal. It is no part of the fingerprint.
	Priority Priority `json:"priority,omitempty"`
	// Principal is the id of the token that asked for it; empty in open mode.
	Principal string `json:"principal,omitempty"`
	// Caller is the name of that token. It is no part of the fingerprint.
	Caller string `json:"caller,omitempty"`
	// Entries are the only entries of the policy that the token may use; empty:
	// all of them.
	Entries []string `json:"entries,omitempty"`
	// Models are patterns of the only models that the token may use; empty: all of
	// them. An action of kind task keeps them for its agent.
	Models []string `json:"models,omitempty"`
	// Task is the id of the task whose holder asked for it; empty: no task's holder did.
	Task string `json:"task,omitempty"`
	// Answers is set for kind chat: the models that might answer, behind their aliases, as
	// they were when it was accepted. It is no part of the fingerprint.
	Answers []string `json:"answers,omitempty"`
	// TokenHash is set for kind task: the hex SHA-256 of the token that it was accepted
	// with. It is no part of the fingerprint.
	TokenHash string `json:"token_sha256,omitempty"`
	// TraceParent is the caller's span, as W3C Trace Context writes it; empty: it named
	// none. It is no part of the fingerprint.
	TraceParent string `json:"traceparent,omitempty"`
	// Supersedes names the action that this one was made from: by redrive, or by a repeat of
	// its request (see Successor).
	Supersedes string `json:"supersedes,omitempty"`
	// KeySeed is set for an action that redrive made of one which may have sent idempotency keys: the
	// keys that Weir derives for it are the same, and KeyExpiresAt is when the target may forget them.
	KeySeed      string    `json:"key_seed,omitempty"`
	KeyExpiresAt time.Time `json:"key_expires_at,omitzero"`
	// Payload is the kind's own document (HTTPCall, PlanRequest, Run, RuleOrder,
	// TaskOrder, PushOrder, RepoOrder, ChatOrder). It is empty when
	// PayloadBlob names an object that holds it.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Called is the call in a payload that PayloadBlob names.
	Called      Called `json:"called,omitzero"`
	PayloadBlob string `json:"payload_blob,omitempty"`
}

// Receipt is the body of a 202: the accepted action and its URL.
type Receipt struct {
	ID string `json:"id"`
	// Status is "accepted", or the status of the action that a repeat joined.
	Status     string     `json:"status"`
	Duplicate  bool       `json:"duplicate"`
	Durability Durability `json:"durability"`
	Class      Class      `json:"class,omitempty"`
}

// Seed is what the idempotency keys of an action are derived from. It is the same for every worker.
// The instant of acceptance is part of it, so that an id that another tenant can guess gives no key
// away.
func (a *Action) Seed() string {
	if a.KeySeed != "" {
		return a.KeySeed
	}
	sum := sha256.Sum256([]byte(a.Tenant + "\x00" + a.ID + "\x00" + a.AcceptedAt.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:])
}

// DerivedKey is the idempotency key of the call of a step, for a target that knows keys and a caller
// that gave none. It has the form of a UUID, of the version for own use, because some targets take
// no other.
func (a *Action) DerivedKey(step int) string {
	sum := sha256.Sum256([]byte(a.Seed() + "\x00" + strconv.Itoa(step)))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// MaxGeneration is how many actions one request may have, one after another.
const MaxGeneration = 100

// Successor is the id of the n-th action of a request, from 2 on. ValidID refuses it, so that
// no caller can give an action such an id.
func Successor(id string, n int) string { return id + "~" + strconv.Itoa(n) }

// Generation takes an action's id apart: the id that its caller gave, and which of the
// request's actions it names, from 1 on.
func Generation(id string) (callers string, n int) {
	callers, suffix, ok := strings.Cut(id, "~")
	if !ok {
		return id, 1
	}
	n, err := strconv.Atoi(suffix)
	if err != nil || n < 2 || n > MaxGeneration || Successor(callers, n) != id {
		return id, 1
	}
	return callers, n
}

// ValidActionID reports whether an action may have an id: a ValidID, or the id of a successor.
func ValidActionID(s string) bool {
	callers, _ := Generation(s)
	return ValidID(callers)
}

// RunPosition is the position of a run's reader: a position on the log, in the stream of one of the
// request's actions. The zero place is the beginning.
type RunPosition struct {
	Seq uint64
	// Generation is the action's generation; see the function Generation.
	Generation int
}
