package completion

import (
	"encoding/json"

	"weir/schemas"
)

// Protocol reads the answers of one dialect. Its values are constants, safe for concurrent use.
type Protocol interface {
	// Read reads one event of a stream, or a whole answer, and keeps nothing of data. name is the
	// event's; empty: it has none. An error says that data is no part of this protocol.
	Read(name string, data []byte) (Chunk, error)
	// Split makes the events of a stream of a whole answer, as Read returns whole answers. A reader
	// assembles the same answer from them. usage: the last one reports the usage.
	Split(document json.RawMessage, usage bool) ([]json.RawMessage, error)
	// Named is a whole answer as its caller receives it.
	Named(document json.RawMessage, o Options) json.RawMessage
	// Merge joins neighbours whose texts are pieces of one, where the protocol permits that.
	Merge(chunks []json.RawMessage) []json.RawMessage
	// Texts returns a reader of one answer's texts, in which secrets are looked for.
	Texts() TextReader
	// Answer returns an accumulator for one answer.
	Answer(o Options) Answer
}

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

// TextReader finds the texts of an answer's chunks in their order. It belongs to one goroutine.
type TextReader interface {
	// Read overwrites found, and reuses its memory. It is false if the answer exceeds the limits.
	Read(raw json.RawMessage, found *Found) bool
}

// Answer puts the chunks of an answer together. It belongs to one goroutine.
type Answer interface {
	// Add takes the next chunk.
	Add(c Chunk)
	// Give is a chunk as the reader receives it; keep is false where nothing is left to read. It is
	// called once for each chunk, after Add.
	Give(c Chunk) (raw json.RawMessage, keep bool)
	// Finished reports whether all that was asked for has ended.
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
		return responses{}
	case schemas.DialectMessages:
		return messages{}
	case schemas.DialectCount:
		return count{}
	case schemas.DialectEmbeddings:
		return embeddings{}
	default:
		return chat{}
	}
}

// chat is DialectChat.
type chat struct{}

func (chat) Read(_ string, data []byte) (Chunk, error) { return ReadChunk(data) }

func (chat) Split(document json.RawMessage, usage bool) ([]json.RawMessage, error) {
	return Split(document, usage)
}

func (chat) Named(document json.RawMessage, o Options) json.RawMessage { return Named(document, o.ID) }

func (chat) Merge(chunks []json.RawMessage) []json.RawMessage { return Merge(chunks) }

func (chat) Texts() TextReader { return &Texts{} }

func (chat) Answer(o Options) Answer { return &chatAnswer{options: o} }

// chatAnswer is an Assembler with the options of its request.
type chatAnswer struct {
	Assembler

	options Options
}

func (a *chatAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	c.Raw = Named(c.Raw, a.options.ID)
	if a.options.Usage {
		return c.Raw, true
	}
	return WithoutUsage(c)
}

func (a *chatAnswer) Finished() bool { return a.Assembler.Finished(a.options.Choices) }

func (a *chatAnswer) Document() json.RawMessage {
	doc := a.Assembler.Document()
	if doc == nil {
		return nil
	}
	return Named(doc, a.options.ID)
}

func (a *chatAnswer) ProviderID() string { return "" }
