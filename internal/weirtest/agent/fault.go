package agent

import (
	"maps"
	"slices"
)

// Fault is a way to differ from a correct agent in exactly one thing.
type Fault string

// Correct is no fault.
const Correct Fault = ""

// What a service must not do by the run contract. Each breaks one rule of it and
// no other; only the route that it names is touched, others stay correct.
const (
	HealthStatus Fault = "health status" // GET /health answers 503
	HealthBody   Fault = "health body"   // its status is a number
	ReadyStatus  Fault = "ready status"  // GET /health/ready answers 503
	ReadyBody    Fault = "ready body"    // its status is a number

	SyncStatus       Fault = "sync status"        // 201
	SyncType         Fault = "sync type"          // text/plain
	SyncNotJSON      Fault = "sync not json"      // half a document
	SyncNoID         Fault = "sync no id"         // no request_id
	SyncOtherID      Fault = "sync other id"      // the request_id of another
	SyncNoOutputs    Fault = "sync no outputs"    // no outputs
	SyncOutputsList  Fault = "sync outputs list"  // outputs is a list
	SyncNoSuccess    Fault = "sync no success"    // neither status nor ok
	SyncNulls        Fault = "sync nulls"         // error and grounding are null
	SyncOddArtifacts Fault = "sync odd artifacts" // artifacts holds numbers
	SyncErrorBeside  Fault = "sync error beside"  // an error beside the status ok

	StreamStatus   Fault = "stream status"      // 201
	StreamType     Fault = "stream type"        // text/plain
	StreamNotUTF8  Fault = "stream not utf-8"   // a byte in a comment that is not UTF-8
	StreamBareLine Fault = "stream bare line"   // a line that is no field
	StreamNotJSON  Fault = "stream not json"    // a progress event whose data is text
	StreamSilent   Fault = "stream silent"      // the head, and then nothing at all
	StreamNoStart  Fault = "stream no start"    // begins with progress
	StartNoID      Fault = "start no id"        // started has no request_id
	StartNoTask    Fault = "start no task type" // started has no task_type, as it should
	NoEnd          Fault = "no end"             // closes without a terminal event
	TwoEnds        Fault = "two ends"           // the same terminal event twice
	EventAfterEnd  Fault = "event after end"    // a progress event after the terminal one
	NoBlankLine    Fault = "no blank line"      // none after the last event
	EndNoID        Fault = "end no id"          // the terminal event has no request_id
	EndOtherID     Fault = "end other id"       // it has another's
	EndNoTaskType  Fault = "end no task type"   // no task_type
	EndOtherType   Fault = "end other type"     // another task_type
	EndNoStatus    Fault = "end no status"      // no status, only success
	EndNoSuccess   Fault = "end no success"     // the status is finished, without success
	EndNoOutputs   Fault = "end no outputs"     // no outputs
	EndNulls       Fault = "end nulls"          // error and grounding are null
	EndErrorBeside Fault = "end error beside"   // an error beside the status ok
	HoldsOpen      Fault = "holds open"         // never closes after the terminal event

	UnknownAccepted   Fault = "unknown accepted"   // runs a task type it does not know
	UnknownStatus     Fault = "unknown status"     // answers 500 to it
	UnknownShape      Fault = "unknown shape"      // 400, with a body of its own
	UnknownOtherID    Fault = "unknown other id"   // 400, with another's request_id
	MalformedAccepted Fault = "malformed accepted" // runs a request without request_id
)

// What agents do that Weir must read all the same.
const (
	DataEvent    Fault = "data.event"      // events are named in data.event alone
	DataType     Fault = "data.type"       // events are named in data.type alone
	NameFinal    Fault = "name final"      // the terminal event is named final
	NameDone     Fault = "name done"       // done
	CRLF         Fault = "crlf"            // lines end in CR LF
	CR           Fault = "cr"              // lines end in CR
	Comments     Fault = "comments"        // comments before and inside every event
	ByteOrder    Fault = "byte order mark" // the stream begins with one
	MultiLine    Fault = "multi-line data" // data over several lines
	NoSpace      Fault = "no space"        // none after the colon
	IDs          Fault = "ids"             // id and retry lines
	Degraded     Fault = "degraded"        // status degraded
	StatusWord   Fault = "status success"  // status success
	OKTrue       Fault = "ok true"         // ok: true in place of status
	SuccessTrue  Fault = "success true"    // success: true in place of status
	DataMember   Fault = "data member"     // data in place of outputs
	NullMembers  Fault = "null members"    // every optional member is null
	JSONOnStream Fault = "json on stream"  // the streaming route answers as the other
	EmptyEvents  Fault = "empty events"    // events without a name or without data
)

// How agents fail.
const (
	NoStream404     Fault = "no stream 404" // no streaming route; the other is correct
	NoStream405     Fault = "no stream 405"
	NoStream406     Fault = "no stream 406"
	NoStream501     Fault = "no stream 501"
	Status400       Fault = "status 400" // both routes: unsupported task type
	Status422       Fault = "status 422" // validation error
	Status429       Fault = "status 429" // with Retry-After: 0
	Status500       Fault = "status 500" // a page of HTML
	Status502       Fault = "status 502"
	Status503       Fault = "status 503"       // with Retry-After: 0
	Redirects       Fault = "redirects"        // 307 to another path
	Failed          Fault = "failed"           // status error with code, message and details
	ErrorEvent      Fault = "error event"      // a terminal event named error, with a text
	ErrorText       Fault = "error text"       // status error, and error is a string
	StrayAfterEnd   Fault = "stray after end"  // a second complete without any member
	ConflictingEnds Fault = "conflicting ends" // success, and then failure
	OtherOutputs    Fault = "other outputs"    // success twice, with other outputs
	DiesMidStream   Fault = "dies mid-stream"  // the connection ends after the first half
	DiesInEvent     Fault = "dies in event"    // the connection ends inside the terminal event
	DiesUnanswered  Fault = "dies unanswered"  // the connection ends before any answer
	Garbage         Fault = "garbage"          // text/event-stream, and a page of HTML
	HTML            Fault = "html"             // 200, and a page of HTML that says so
	EmptyStream     Fault = "empty stream"     // text/event-stream, and not a byte
	NeverAnswers    Fault = "never answers"    // takes the request and is silent
	Stalls          Fault = "stalls"           // started, and then silence
	HugeProgress    Fault = "huge progress"    // a progress event of 1 MiB
	HugeEnd         Fault = "huge end"         // outputs of 16 MiB
	EndlessLine     Fault = "endless line"     // a line without an end
	EndlessEvents   Fault = "endless events"   // progress without an end
)

// Faults lists every fault, Correct left out, in the order of their names.
func Faults() []Fault { return slices.Sorted(maps.Keys(faults())) }
