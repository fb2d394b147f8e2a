package completion

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

func readEmbeddings(_ string, data []byte) (Chunk, error) {
	e, c, err := open("", data, schemas.DialectEmbeddings)
	c.Last, c.Usage = true, embeddingsUsage(object(e.usage))
	return c, err
}

// embeddingsUsage reads the usage of embeddings, which have no output tokens.
func embeddingsUsage(usage gjson.Result) *schemas.ChatUsage {
	var most int64
	for _, name := range []string{"prompt_tokens", "input_tokens", "total_tokens"} {
		v := usage.Get(name)
		n, ok := tokens(v)
		if !ok && v.Type != gjson.Null {
			return nil
		}
		most = max(most, n)
	}
	if most == 0 {
		return nil
	}
	return &schemas.ChatUsage{Prompt: most, Total: most}
}

// readCount reads the token count of a request. It costs nothing, so it has no usage.
func readCount(_ string, data []byte) (Chunk, error) {
	e, c, err := open("", data, schemas.DialectCount)
	if _, counted := tokens(Parse(e.raw).Get("input_tokens")); counted && e.family() == "" && e.kind != kindError {
		return Chunk{Raw: e.raw, Last: true}, nil
	}
	if err == nil && c.Fault == nil {
		err = errNoEvent
	}
	return c, err
}

// documentAnswer is an answer that is one document, without a finish reason.
type documentAnswer struct {
	tally

	whole json.RawMessage
}

func (a *documentAnswer) Add(c Chunk) {
	if c.Fault == nil {
		a.whole = c.Raw
	}
	a.report(c.Usage)
}

func (a *documentAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) { return c.Raw, true }

func (a *documentAnswer) Reasons() []string { return nil }

func (a *documentAnswer) Size() int64 { return int64(len(a.whole)) }

func (a *documentAnswer) Document() json.RawMessage { return a.whole }
