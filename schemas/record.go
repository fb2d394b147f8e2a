package schemas

import (
	"bytes"
	"encoding/json"
	"time"
)

// Encode is JSON whose texts stay as they are but for U+2028, U+2029 and what is no UTF-8: json.Marshal
// escapes <, > and & in them too.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Encoded is Encode of what can always be encoded; of anything else it is null.
func Encoded(v any) json.RawMessage {
	data, err := Encode(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// Record is one message of a stream.
type Record struct {
	Stream  string
	Subject string
	Seq     uint64 // its place in the stream; the id of an SSE event
	Time    time.Time
	ID      string // the message id, where the writer gave one
	Data    []byte
}

// Notifies reports whether a message only notifies workers of its action. It has no content.
func (r Record) Notifies() bool {
	_, _, section := Split(r.Subject)
	return len(r.Data) == 0 && (section == SectionWake || section == SectionOverflow || section == SectionOverflowLong)
}

// Ends reports whether a message is an action's end, by its first members alone: one that cannot be read
// ends it too.
func (r Record) Ends() bool { return ends(r.Subject, r.Data) }

// Ends is Record.Ends of the record that the message becomes.
func (a Append) Ends() bool { return ends(a.Subject, a.Data) }

func ends(subject string, data []byte) bool { return is(EventSettled, subject, data) }

// Delta reports whether a message is a part of an answer, by its first members alone.
func (r Record) Delta() bool { return is(EventDelta, r.Subject, r.Data) }

// is reports whether a message is an event of a type that workers write.
func is(t EventType, subject string, data []byte) bool {
	if _, _, section := Split(subject); section != SectionEvent {
		return false
	}
	data = data[:min(len(data), endWithin)]
	return bytes.Contains(data, []byte(`"type":"`+t+`",`))
}

// endWithin bounds the position of an event's type from its beginning: the time follows it.
const endWithin = len(`{"v":1234567890,"n":1234567890123456789,"type":"settled",`)

// Append is one message to be written. With Guarded, it is stored only if the
// last message on the subjects that Guard covers has the sequence Last (0:
// there is none): the claim and the fence of the log.
type Append struct {
	Subject string
	Data    []byte
	Guarded bool
	Guard   string
	Last    uint64
	// TraceParent is sent as the message's header of that name, so that NATS' own traces
	// know it; empty: none is.
	TraceParent string
	// Urgent is passed with the message to the worker's queue: it begins before others.
	Urgent bool
}

// The kinds of evidence.
const (
	EvidenceConnector = "builtin.http_connector" // a plan's call that was answered, and a plan's closing record
	EvidenceAttempt   = "http.attempt"           // an executor's call, and a plan's call that was not answered
	EvidenceDecision  = "policy.decision"        // a denial
	EvidenceRuleWrite = "rule.write"             // a write of the rule set, made or refused: RuleAudit
	EvidenceTask      = "task.status"            // a change of a task's state: TaskAudit
	EvidencePush      = "git.push"               // a push, made, refused or failed: PushAudit
	EvidenceRepo      = "repo.create"            // the making of a repository: RepoAudit
	EvidenceChat      = "chat.completion"        // a call of a model, or a completion that a budget refused: ChatAudit
	EvidenceTunnel    = "proxy.tunnel"           // a tunnel of the forward proxy, opened, refused or ended: TunnelAudit
)

// EvidenceKinds are all kinds of evidence.
func EvidenceKinds() []string {
	return []string{
		EvidenceConnector, EvidenceAttempt, EvidenceDecision, EvidenceRuleWrite, EvidenceTask, EvidencePush, EvidenceRepo, EvidenceChat, EvidenceTunnel,
	}
}

// Evidence is the record of one attempt or denial. Its id is stable: a repeat
// after a crash is the same record, and is stored once.
type Evidence struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Tenant   string    `json:"tenant"`
	ActionID string    `json:"action_id"`
	Kind     string    `json:"kind"`
	Entry    string    `json:"entry,omitempty"`
	// Code is why a call was denied, or why it failed.
	Code    Code            `json:"code,omitempty"`
	Payload json.RawMessage `json:"payload"`
	// PolicyVersion is the hash of the policy that decided.
	PolicyVersion string `json:"policy_version,omitempty"`
	// Principal is the id of the token that asked for the action.
	Principal string `json:"principal,omitempty"`
	// Shadow is what the policy's shadow entries would have changed.
	Shadow *Shadow `json:"shadow,omitempty"`
	// Traffic is what the traffic rules made of the call.
	Traffic *Traffic `json:"traffic,omitempty"`
}

// DeadLetter is a message that no retry can help, as it is parked.
type DeadLetter struct {
	Time     time.Time `json:"time"`
	Tenant   string    `json:"tenant"`
	Kind     Kind      `json:"kind"`
	ActionID string    `json:"action_id"`
	Code     Code      `json:"code"`
	Reason   string    `json:"reason"` // the error, without content
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"sequence"`
	// Called and Agent are the action's, if it can be read.
	Called
	Agent string `json:"agent,omitempty"`
	// Data is the parked message itself, or its first 512 KiB.
	Data []byte `json:"data,omitempty"`
}

// Problem is an RFC 9457 body: every error outside the five protocols.
type Problem struct {
	Type      string `json:"type"` // about:blank
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Code      Code   `json:"code"`
	RequestID string `json:"request_id,omitempty"`
	Retryable bool   `json:"retryable"`
	// Rule and Reason name the entry and the check of a denial.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// EarliestID is set on STREAM_GONE: the oldest event that can still be read.
	EarliestID string `json:"earliest_id,omitempty"`
}

// Page is the body of every list. Next is absent on the last page.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// RouteBackup is where the operator's admins read a backup of a running node.
const RouteBackup = "/v1/backup"

// BackupFormat is raised when an older Weir cannot restore what this one backs up.
const BackupFormat = 1

// BackupManifest describes a backup. It is the last entry of the archive, so an archive with a manifest
// is complete.
type BackupManifest struct {
	Format int `json:"format"`
	// Weir is the version of the program that made the backup.
	Weir    string    `json:"weir"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Partitions are those of the log; a node that restores the backup needs the same number.
	Partitions int          `json:"partitions"`
	Parts      []BackupPart `json:"parts"`
}

// BackupPart is a stream or the repositories.
type BackupPart struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	// SHA256 covers the names, sizes and contents of the part's entries, in their order.
	SHA256 string `json:"sha256"`
}

// Spooled is a body in the log that no record names yet.
type Spooled struct {
	// Name is the hex SHA-256 of the body, by which it is found once it is committed.
	Name string
	Size int
	// Object is what its parts are stored under; empty: the body was read and not stored.
	Object string
	Chunks uint32
}
