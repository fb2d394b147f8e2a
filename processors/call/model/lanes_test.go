package model

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/redact"
	"weir/internal/weirtest/table"
	"weir/processors/call/dial"
	"weir/schemas"
)

// clean gives events to a redactor, as a decoder does with those of an upstream, and what its reader
// receives, with how much of it had come by each event.
func clean(t *testing.T, d schemas.Dialect, s *redact.Scrubber, events ...string) (out []string, after []int) {
	t.Helper()
	p := completion.For(d)
	h := newRedactor(s, p)
	take := func(list []completion.Chunk) {
		for _, c := range list {
			out = append(out, string(c.Raw))
		}
	}
	for _, raw := range events {
		c, err := (&decoder{Answer: &dial.Answer{Scrub: s}, protocol: p}).clean("", []byte(raw))
		require.NoError(t, err)
		list, ok := h.add(c)
		require.True(t, ok)
		take(list)
		after = append(after, len(out))
	}
	list, err := h.end()
	require.NoError(t, err)
	take(list)
	require.Len(t, out, len(events))
	return out, after
}

// whole is the answer that a reader of events assembles.
func whole(t *testing.T, d schemas.Dialect, events ...string) string {
	t.Helper()
	p := completion.For(d)
	a := p.Answer(completion.Options{ID: "act"})
	for _, raw := range events {
		c, err := p.Read("", []byte(raw))
		require.NoError(t, err)
		a.Add(c)
	}
	return strings.ReplaceAll(string(a.Document()), `\u`, `u`)
}

// deltas joins the texts of all deltas.
func deltas(events ...string) string {
	var b strings.Builder
	for _, raw := range events {
		delta := completion.Parse([]byte(raw)).Get("delta")
		if text := completion.Parse([]byte(raw)).Get("choices.0.delta.content"); text.Exists() {
			delta = text
		}
		if !delta.IsObject() {
			b.WriteString(delta.String())
		}
		for name, v := range delta.All() {
			if delta.IsObject() && name.Str != "type" {
				b.WriteString(v.String())
			}
		}
	}
	return b.String()
}

// streams are a text of each kind in pieces, with the events around them. %s is a piece.
func streams() map[string]struct {
	dialect             schemas.Dialect
	before, delta, done []string
} {
	type stream = struct {
		dialect             schemas.Dialect
		before, delta, done []string
	}
	r, m := schemas.DialectResponses, schemas.DialectMessages
	response := func(kind, more, item, done string) stream {
		return stream{
			r,
			[]string{`{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}`, `{"type":"response.output_item.added","output_index":0,"item":` + item + `}`},
			[]string{`{"type":"response.` + kind + `.delta","item_id":"i","output_index":0,` + more + `,"delta":%s}`},
			[]string{`{"type":"response.` + kind + `.done","item_id":"i","output_index":0,` + more + `,` + done + `:%s}`, `{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"id":"i",` + done + `:%s}]}}`},
		}
	}
	block := func(kind, member, item string) stream {
		return stream{
			m,
			[]string{`{"type":"message_start","message":{"id":"m","type":"message","content":[]}}`, `{"type":"content_block_start","index":0,"content_block":` + item + `}`},
			[]string{`{"type":"content_block_delta","index":0,"delta":{"type":"` + kind + `","` + member + `":%s}}`},
			[]string{`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`},
		}
	}
	return map[string]stream{
		"chat": {
			dialect: schemas.DialectChat, delta: []string{`{"choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`},
			done: []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`},
		},
		"output_text":  response("output_text", `"content_index":0`, `{"id":"i","type":"message","content":[]}`, `"text"`),
		"refusal":      response("refusal", `"content_index":0`, `{"id":"i","type":"message","content":[]}`, `"refusal"`),
		"summary":      response("reasoning_summary_text", `"summary_index":1`, `{"id":"i","type":"reasoning","summary":[]}`, `"text"`),
		"reasoning":    response("reasoning_text", `"content_index":0`, `{"id":"i","type":"reasoning","summary":[]}`, `"text"`),
		"arguments":    response("function_call_arguments", `"x":0`, `{"id":"i","type":"function_call","arguments":""}`, `"arguments"`),
		"custom input": response("custom_tool_call_input", `"x":0`, `{"id":"i","type":"custom_tool_call","input":""}`, `"input"`),
		"mcp":          response("mcp_call_arguments", `"x":0`, `{"id":"i","type":"mcp_call","arguments":""}`, `"arguments"`),
		"code":         response("code_interpreter_call_code", `"x":0`, `{"id":"i","type":"code_interpreter_call","code":""}`, `"code"`),
		"unknown":      response("later_kind", `"x":0`, `{"id":"i","type":"later_kind"}`, `"text"`),
		"text":         block("text_delta", "text", `{"type":"text","text":""}`),
		"thinking":     block("thinking_delta", "thinking", `{"type":"thinking","thinking":"","signature":""}`),
		"input":        block("input_json_delta", "partial_json", `{"type":"tool_use","input":{}}`),
		"later":        block("later_delta", "later", `{"type":"later","later":""}`),
	}
}

// TestSecretsInDeltas: a secret that is cut anywhere is in no event, and its text goes on around it.
func TestSecretsInDeltas(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{key})
	for name, tt := range streams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const before, after = "a é ", " b"
			all := before + key + after
			quoted := func(text string) string {
				raw, err := json.Marshal(text)
				require.NoError(t, err)
				return string(raw)
			}
			fill := func(event, text string) string { return strings.ReplaceAll(event, "%s", quoted(text)) }
			for from := range len(key) + 1 {
				for _, n := range []int{1, len(key)} {
					cut := []string{all[:len(before)+from]}
					for rest := all[len(before)+from:]; rest != ""; {
						size := min(n, len(rest))
						cut, rest = append(cut, rest[:size]), rest[size:]
					}
					events := append([]string{}, tt.before...)
					for _, piece := range cut {
						events = append(events, fill(tt.delta[0], piece))
					}
					broken, _ := clean(t, tt.dialect, s, events...)
					for _, event := range tt.done {
						events = append(events, fill(event, all))
					}
					out, _ := clean(t, tt.dialect, s, events...)
					said := deltas(out[len(tt.before) : len(tt.before)+len(cut)]...)
					said = strings.Replace(said, key[:1]+redact.Mark, redact.Mark, 1) // the first byte of it may be seen
					require.Equal(t, before+redact.Mark+after, said, "%q", cut)
					require.Equal(t, out[:len(broken)], broken, "the end of the stream decides as its events do")
					for _, doc := range []string{strings.Join(out, ""), whole(t, tt.dialect, out...), whole(t, tt.dialect, broken...)} {
						require.NotContains(t, doc, key)
						require.NotContains(t, doc, key[:len(key)-1])
					}
				}
			}
		})
	}
}

// TestSecretAtTheEndOfAText: half a secret is taken out when its text ends, and texts do not wait for
// those of other items.
func TestSecretAtTheEndOfAText(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{key})
	half := key[:12]
	for d, events := range map[schemas.Dialect][]string{
		schemas.DialectResponses: {
			`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"` + half + `"}`,
			`{"type":"response.output_text.done","item_id":"i","output_index":0,"content_index":0,"text":"` + half + `"}`,
			`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":1,"delta":"` + key[12:] + `"}`,
		},
		schemas.DialectMessages: {
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + half + `"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"` + key[12:] + `"}}`,
		},
	} {
		p := completion.For(d)
		h := newRedactor(s, p)
		for i, want := range []int{0, 2, 1} { // how many are given with each
			c, err := p.Read("", []byte(events[i]))
			require.NoError(t, err)
			list, ok := h.add(c)
			require.True(t, ok)
			require.Len(t, list, want, "%s %d", d, i)
			if i == 1 {
				assert.Contains(t, string(list[0].Raw), redact.Mark)
			}
		}
	}
}

// TestSecretInTokens: the tokens of a text spell a secret once more.
func TestSecretInTokens(t *testing.T) {
	t.Parallel()
	s := redact.Values([]string{key})
	tokens := func(list ...string) string {
		var b strings.Builder
		for _, token := range list {
			b.WriteString(`{"token":"` + token + `","bytes":[1],"logprob":-0.5,"top_logprobs":[]},`)
		}
		return `"logprobs":[` + strings.TrimSuffix(b.String(), ",") + `]`
	}
	const at = `"item_id":"i","output_index":0,"content_index":0`
	out, _ := clean(t, schemas.DialectResponses, s,
		`{"type":"response.output_text.delta",`+at+`,"delta":"zq-CANARY-",`+tokens("zq-", "CANARY-")+`}`,
		`{"type":"response.output_text.delta",`+at+`,"delta":"0123456789",`+tokens("0123456789")+`}`,
		`{"type":"response.output_text.delta",`+at+`,"delta":" ok",`+tokens(" ok")+`}`,
		`{"type":"response.output_text.done",`+at+`,"text":"`+key+` ok",`+tokens("zq-", "CANARY-", "0123456789", " ok")+`}`,
		`{"type":"response.completed","response":{"output":[{"content":[{"text":"`+key+` ok",`+tokens("zq-", "CANARY-", "0123456789", " ok")+`}]}]}}`,
	)
	assert.Equal(t, []string{
		`{"type":"response.output_text.delta",` + at + `,"delta":"REDACTED","logprobs":null}`,
		`{"type":"response.output_text.delta",` + at + `,"delta":"","logprobs":null}`,
		`{"type":"response.output_text.delta",` + at + `,"delta":" ok",` + tokens(" ok") + `}`,
		`{"type":"response.output_text.done",` + at + `,"text":"REDACTED ok","logprobs":null}`,
		`{"type":"response.completed","response":{"output":[{"content":[{"text":"REDACTED ok","logprobs":null}]}]}}`,
	}, out)
}

// TestRedactorAndAnswersAgree: pieces of a secret in events of any shapes, with anything between them.
// Whatever an answer makes one text of is looked at as one text.
func TestRedactorAndAnswersAgree(t *testing.T) {
	t.Parallel()
	shapes := map[schemas.Dialect][]string{
		schemas.DialectChat: {
			`{"choices":[{"index":0,"delta":{"content":%s}}]}`, `{"choices":[{"delta":{"content":%s},"index":1}]}`, `{"choices":[{"delta":{"content":%s}}]}`,
			`{"choices":[{},{"delta":{"c\u006fntent":%s}}]}`, `{"choices":[{"index":1.0,"message":{"content":%s}}]}`, `{"choices":[{"delta":{"content":"x","content":%s}}]}`,
			`{"choices":[{"message":{"content":"no"},"delta":{"content":%s,"tool_calls":[]}}]}`, `{"choices":[{"delta":[],"message":{"content":%s}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":%s}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"arguments":%s}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"id":"b","index":0,"function":{"name":"g","arguments":%s}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":%s}},{"id":"b"}]}}]}`,
			`{"choices":[{"index":"0","delta":{"content":%s}}]}`, `{"choices":[{"delta":{"x_text":%s}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":%s}}]}}]}`,
			`{"choices":[{"delta":{"function_call":{"arguments":%s}}}]}`, `{"choices":[{"delta":{"reasoning":%s},"finish_reason":null}]}`, `{"choices":[{"delta":{"x":{"content":%s}},"finish_reason":"stop"}]}`,
		},
		schemas.DialectResponses: {
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","content":[{"type":"output_text","text":%s}]}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"j","type":"function_call","arguments":%s}}`,
			`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":%s}`,
			`{"type":"response.output_text.delta","item_id":"i","delta":%s}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0.0,"delta":%s}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":"0","d\u0065lta":%s}`,
			`{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":%s}`,
			`{"type":"response.refusal.delta","output_index":0,"content_index":1,"delta":%s}`,
			`{"type":"response.content_part.added","output_index":0,"content_index":1,"part":{"type":"refusal","refusal":%s}}`,
			`{"type":"response.content_part.added","item_id":"i","content_index":0,"part":{"type":"output_text","text":%s}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":%s}`,
			`{"type":"response.function_call_arguments.delta","item_id":"j","delta":%s,"x":1}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"content_index":5,"delta":%s}`,
			`{"type":"response.output_text.done","output_index":0,"content_index":0,"text":%s}`,
			`{"type":"response.later.delta","output_index":0,"delta":%s}`,
		},
		schemas.DialectMessages: {
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%s}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","input":{"a":%s}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":%s}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"later_delta","text":%s}}`,
			`{"type":"content_block_delta","index":0.5,"delta":{"t\u0065xt":%s}}`,
			`{"type":"content_block_delta","index":"1","delta":{"type":"input_json_delta","partial_json":%s}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%s}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":%s}}}`,
			`{"type":"content_block_stop","index":0,"x":%s}`,
		},
	}
	s := redact.Values([]string{key})
	for d, list := range shapes {
		same := 0
		for seed := range uint64(table.Rounds(2000)) {
			r := rand.New(rand.NewPCG(seed, 1))
			var in []string
			few := []string{list[r.IntN(len(list))], list[r.IntN(len(list))]}
			for rest := key; rest != ""; {
				n := min(1+r.IntN(12), len(rest))
				quoted, err := json.Marshal(rest[:n])
				require.NoError(t, err)
				in, rest = append(in, fmt.Sprintf(few[r.IntN(len(few))], quoted)), rest[n:]
				if r.IntN(5) == 0 {
					in = append(in, fmt.Sprintf(list[r.IntN(len(list))], `"-"`))
				}
			}
			if strings.Contains(whole(t, d, in...), key) {
				same++
			}
			out, _ := clean(t, d, s, in...)
			require.NotContains(t, whole(t, d, out...), key, "%q", in)
		}
		assert.Positive(t, same, d)
	}
}

//nolint:paralleltest // it counts the allocations of the process
func TestRedactorAllocatesNothingForDeltas(t *testing.T) {
	for name, tt := range streams() {
		p := completion.For(tt.dialect)
		h := newRedactor(redact.Values([]string{key}), p)
		c, err := p.Read("", []byte(fmt.Sprintf(tt.delta[0], `" token"`)))
		require.NoError(t, err)
		assert.Zero(t, testing.AllocsPerRun(200, func() { h.add(c) }), name)
	}
}
