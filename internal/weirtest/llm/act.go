package llm

import (
	"slices"
	"strconv"
	"strings"
)

// Act is what the provider does with one request.
type Act struct {
	Fault Fault
	// Texts are the pieces of the content, one event each; nil: "Hello", ", ", "world".
	// An answer that is no stream has them joined.
	Texts []string
	// Reasoning are pieces of reasoning_content before them.
	Reasoning []string
	// Tools are calls that stand in the place of Texts, where those are nil.
	Tools []Tool
	// Finish is why each choice ends; empty: stop, or tool_calls.
	Finish string
	// Header are further headers of the answer, whatever it is.
	Header map[string]string
	// Message is that of an error; empty: one that names the fault.
	Message string
	// Begin is waited for before the head of the answer, Step once before each piece, Hold before what
	// comes behind the last one, or before an answer that is no stream. A closed channel holds nothing
	// up; nil: no wait.
	Begin, Step, Hold <-chan struct{}
	// Answer, if set, is all that happens.
	Answer func(*Exchange)
}

// Tool is a call of a tool, with its arguments in pieces.
type Tool struct {
	ID, Name  string
	Arguments []string
}

// Fault is what is wrong with an answer.
type Fault string

// The faults. Those of a stream have no effect on an answer that is none, but for the
// keys that come back.
const (
	None Fault = ""

	// Ways to write a stream that readers must bear.
	CRLF      Fault = "crlf"       // line ends of two characters
	CR        Fault = "cr"         // of the one that nobody expects
	Comments  Fault = "comments"   // and blank lines, and fields that nobody knows
	SplitUTF8 Fault = "split-utf8" // every byte by itself
	Named     Fault = "named"      // events with names and ids
	Lines     Fault = "lines"      // data over several lines
	BOM       Fault = "bom"
	Gzip      Fault = "gzip" // whatever was asked for; also of an answer that is no stream
	NoType    Fault = "no-type"
	JSONType  Fault = "json-type" // a stream that says that it is JSON

	// Things that it leaves out, or has too much of.
	NoDone     Fault = "no-done"
	NoFinish   Fault = "no-finish" // nor [DONE]: it just ends
	HalfEvent  Fault = "half-event"
	NoID       Fault = "no-id"
	NoUsage    Fault = "no-usage"    // though asked for
	UsageEver  Fault = "usage-ever"  // though not asked for
	UsageEach  Fault = "usage-each"  // so far, in every chunk
	UsageLast  Fault = "usage-last"  // in the chunk that says why the choice ended
	AfterDone  Fault = "after-done"  // more behind [DONE]
	Endless    Fault = "endless"     // no end of text, whatever the limit
	Injection  Fault = "injection"   // content that looks like events
	JSONAnswer Fault = "json-answer" // a whole answer, whatever was asked for
	SSEAnswer  Fault = "sse-answer"  // a stream, whatever was asked for
	Echo       Fault = "echo"        // the content is the body of the request

	// Errors. Those with a status are made by Status.
	ErrorFirst Fault = "error-first" // as the first event, with code 429
	ErrorMid   Fault = "error-mid"   // behind the first piece, with code 502
	ErrorText  Fault = "error-text"  // behind the first piece, a text
	ErrorOnly  Fault = "error-only"  // status 200 and an error in the place of an answer
	HTML       Fault = "html-502"
	HTML200    Fault = "html-200"
	NotJSON    Fault = "not-json" // the second piece is no JSON
	NotChunk   Fault = "not-chunk"
	Empty      Fault = "empty" // status 200 and nothing
	Hang       Fault = "hang"  // before the status
	HangOpen   Fault = "hang-open"
	HangMid    Fault = "hang-mid"  // behind the first piece
	Reset      Fault = "reset"     // before the status
	ResetMid   Fault = "reset-mid" // behind the first piece

	// The key comes back.
	EchoKey       Fault = "echo-key"
	EchoKeySplit  Fault = "echo-key-split" // over chunks, a character each
	EchoKeyBase64 Fault = "echo-key-base64"
	EchoKeyTool   Fault = "echo-key-tool"   // in a tool's arguments, in two pieces
	EchoKeyReason Fault = "echo-key-reason" // in the reasoning, in three pieces
	EchoKeyError  Fault = "echo-key-error"  // status 400
	EchoKeyMid    Fault = "echo-key-mid"    // in an error in mid-stream
	EchoKeyHeader Fault = "echo-key-header"
)

const statusPrefix = "status-"

// Status is a refusal with a status, in the form of the protocol. 429 comes with
// Retry-After: 7.
func Status(code int) Fault { return Fault(statusPrefix + strconv.Itoa(code)) }

// status is the code of a refusal; 0: it is none.
func (f Fault) status() int {
	code, ok := strings.CutPrefix(string(f), statusPrefix)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(code)
	if err != nil || n < 200 || n > 599 {
		return 0
	}
	return n
}

// known reports whether a word is the name of a fault.
func (f Fault) known() bool {
	return f.status() != 0 || slices.Contains(Faults(), f)
}

// Faults are all faults but the refusals.
func Faults() []Fault {
	return []Fault{
		CRLF, CR, Comments, SplitUTF8, Named, Lines, BOM, Gzip, NoType, JSONType,
		NoDone, NoFinish, HalfEvent, NoID, NoUsage, UsageEver, UsageEach, UsageLast, AfterDone,
		Endless, Injection, JSONAnswer, SSEAnswer, Echo,
		ErrorFirst, ErrorMid, ErrorText, ErrorOnly, HTML, HTML200, NotJSON, NotChunk, Empty, Hang, HangOpen, HangMid, Reset, ResetMid,
		EchoKey, EchoKeySplit, EchoKeyBase64, EchoKeyTool, EchoKeyReason, EchoKeyError, EchoKeyMid, EchoKeyHeader,
	}
}
