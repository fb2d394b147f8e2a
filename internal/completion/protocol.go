package completion

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// Protocol reads the answers of one dialect. It is safe for concurrent use.
type Protocol struct {
	// Read reads one event of a stream, or a whole answer, and keeps nothing of data. name is the
	// event's; empty: it has none. An error says that data is no part of this protocol.
	Read func(name string, data []byte) (Chunk, error)
	// Split makes the events of a stream of a whole answer, as Read returns whole answers. A reader
	// assembles the same answer from them. usage: the last one reports the usage.
	Split func(document json.RawMessage, usage bool) ([]json.RawMessage, error)
	// Answer returns an accumulator for one answer.
	Answer func(o Options) Answer

	find func(t *Texts, chunk gjson.Result)
}

// Texts returns a reader of one answer's texts, in which secrets are looked for.
func (p Protocol) Texts() *Texts { return &Texts{find: p.find} }

// Options describe the request behind an answer.
type Options struct {
	// ID is the action's; it names an answer without an id, or replaces the provider's.
	ID string
	// Previous is the action that the request continues; empty: none. See
	// schemas.ChatOrder.
	Previous string
	// Usage: the caller wants to read the usage. Only DialectChat has the choice.
	Usage bool
	// Choices is how many answers were asked for; 0: one.
	Choices int64
}

// Answer puts the chunks of an answer together. It belongs to one goroutine.
type Answer interface {
	// Add takes the next chunk.
	Add(c Chunk)
	// Give is a chunk, or a whole answer, as the reader receives it; keep is false where nothing is left
	// to read. It is called once for each chunk, after Add.
	Give(c Chunk) (raw json.RawMessage, keep bool)
	// Finished reports whether all choices that were asked for have ended. It is false in the other
	// dialects, whose streams have a last chunk.
	Finished() bool
	// Reasons are why the answer ended, see schemas.ChatReason.
	Reasons() []string
	// Usage is the usage that the provider reported; nil: none.
	Usage() *schemas.ChatUsage
	// Spent is the usage of an answer that broke off: the last reported one, and an estimate of the
	// text after it. nil: the provider has reported none.
	Spent() *schemas.ChatUsage
	// Output is an estimate of the tokens that have come, and Size about how large the document is.
	Output() int64
	Size() int64
	// Document is the whole answer so far as its caller receives it; nil where nothing has come.
	Document() json.RawMessage
	// ProviderID is the provider's own id of the answer, if the caller receives another; else
	// empty. Chunks from the log have Weir's id already: an answer from them has no ProviderID.
	ProviderID() string
}

// For returns the protocol of a dialect.
func For(d schemas.Dialect) Protocol {
	switch d {
	case schemas.DialectResponses:
		return Protocol{readResponse, splitResponse, func(o Options) Answer {
			return &responseAnswer{tally: tally{options: o}}
		}, (*Texts).response}
	case schemas.DialectMessages:
		return Protocol{readMessage, splitMessage, newMessageAnswer, (*Texts).message}
	case schemas.DialectCount:
		return document(readCount)
	case schemas.DialectEmbeddings:
		return document(readEmbeddings)
	default:
		return Protocol{readChunk, splitCompletion, newChatAnswer, (*Texts).completion}
	}
}

// document is a protocol whose answers are one document, and never streamed.
func document(read func(name string, data []byte) (Chunk, error)) Protocol {
	return Protocol{
		Read: read,
		Split: func(document json.RawMessage, _ bool) ([]json.RawMessage, error) {
			return []json.RawMessage{document}, nil
		},
		Answer: func(Options) Answer { return &documentAnswer{} },
		find:   func(*Texts, gjson.Result) {},
	}
}
