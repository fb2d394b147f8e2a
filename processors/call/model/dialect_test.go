package model

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/table"
	"weir/processors/call/dial"
	"weir/schemas"
)

// event is an event of a stream, named by its type as providers write it.
func event(data string) string {
	var typed struct {
		Type string `json:"type"`
	}
	if json.Unmarshal([]byte(data), &typed) != nil {
		panic(data)
	}
	return "event: " + typed.Type + "\ndata: " + data + "\n\n"
}

// sample is what a dialect says of Hello in two pieces, and what else their streams may have.
type sample struct {
	llm.Speech
	failed   string // an event that ends it as a failure
	ping     string
	own      string // the id in the answer that the caller receives
	provider string // that of the provider, where it is another
}

func samples() map[schemas.Dialect]sample {
	return map[schemas.Dialect]sample{
		schemas.DialectResponses: {
			llm.Say(schemas.DialectResponses, "Hel", "lo"),
			`{"type":"response.failed","sequence_number":5,"response":{"id":"resp_theirs","object":"response","status":"failed","error":{"code":"server_error","message":"out of order"},"output":[]}}`,
			`{"type":"keepalive","sequence_number":9}`, "resp_act-1", "resp_theirs",
		},
		schemas.DialectMessages: {
			llm.Say(schemas.DialectMessages, "Hel", "lo"),
			`{"type":"error","error":{"type":"overloaded_error","message":"out of order"}}`,
			`{"type":"ping"}`, "msg_theirs", "",
		},
	}
}

func events(lists ...[]string) (all []string) {
	for _, list := range lists {
		for _, data := range list {
			all = append(all, event(data))
		}
	}
	return all
}

// read has a decoder of a dialect read a stream, and gives the chunks of its reader.
func read(t *testing.T, d schemas.Dialect, streams bool, s *redact.Scrubber, from dial.Stream) (chunks []string, response Response, err error) {
	t.Helper()
	response, err = decode(t.Context(), Config{}, CallOptions{
		Dialect: d, Options: completion.Options{ID: "act-1"}, Stream: streams,
		Chunk: func(_ context.Context, p Piece) error {
			if p.Raw != nil {
				chunks = append(chunks, string(p.Raw))
			}
			return nil
		},
	}, s, from)
	return chunks, response, err
}

// TestEndOfADialect: a stream ends with its last event, whatever comes after that, and with no other.
func TestEndOfADialect(t *testing.T) {
	t.Parallel()
	type testCase struct {
		dialect schemas.Dialect
		parts   []string
		open    bool // the connection stays open
		code    schemas.Code
		fault   string
		chunks  int
	}
	cases := map[string]testCase{}
	for d, s := range samples() {
		name := string(d) + ": "
		all := len(s.Begin) + len(s.Pieces) + len(s.End)
		cases[name+"its last event"] = testCase{d, events(s.Begin, s.Pieces, s.End), true, "", "", all}
		cases[name+"more behind it"] = testCase{d, append(events(s.Begin, s.Pieces, s.End), event(s.ping), "data: nonsense\n\n"), true, "", "", all}
		cases[name+"pings"] = testCase{d, append([]string{event(s.ping)}, append(events(s.Begin, []string{s.ping}, s.Pieces, []string{s.ping}, s.End), ": ping\n\n")...), true, "", "", all}
		cases[name+"done says nothing"] = testCase{d, append(append(events(s.Begin, s.Pieces), "data: [DONE]\n\n"), events(s.End)...), true, "", "", all}
		cases[name+"done is no end"] = testCase{d, append(events(s.Begin, s.Pieces), "data: [DONE]\n\n"), false, schemas.UpstreamTruncated, "", all - len(s.End)}
		cases[name+"no last event"] = testCase{d, events(s.Begin, s.Pieces, s.End[:len(s.End)-1]), false, schemas.UpstreamTruncated, "", all - 1}
		cases[name+"half of the last event"] = testCase{d, append(events(s.Begin, s.Pieces), strings.TrimSuffix(event(s.End[len(s.End)-1]), "}\n\n")), false, schemas.UpstreamTruncated, "", all - len(s.End)}
		cases[name+"a failure"] = testCase{d, append(events(s.Begin, s.Pieces), event(s.failed)), true, "", "out of order", all - len(s.End)}
		cases[name+"a failure at once"] = testCase{d, []string{event(s.failed)}, true, "", "out of order", 0}
		cases[name+"an error without a type"] = testCase{d, append(events(s.Begin), "event: error\ndata: {\"message\":\"out of order\"}\n\n"), true, "", "out of order", len(s.Begin)}
		cases[name+"no JSON"] = testCase{d, append(events(s.Begin), "event: x\ndata: nonsense\n\n"), true, schemas.UpstreamProtocol, "", len(s.Begin)}
		for other, o := range samples() {
			if other != d {
				cases[name+"events of "+string(other)] = testCase{d, events(o.Begin, o.Pieces, o.End), true, schemas.UpstreamProtocol, "", 0}
				cases[name+"a document of "+string(other)] = testCase{d, []string{o.Document}, false, schemas.UpstreamProtocol, "", 0}
			}
		}
		cases[name+"events of chat"] = testCase{d, []string{firstEnds, usage, "data: [DONE]\n\n"}, true, schemas.UpstreamProtocol, "", 0}
		cases["chat: a document of "+string(d)] = testCase{schemas.DialectChat, []string{s.Document}, false, schemas.UpstreamProtocol, "", 0}
	}
	table.Bubble(t, cases, func(t *testing.T, tt testCase) {
		from := &slow{parts: tt.parts, ends: !tt.open, closed: make(chan struct{})}
		begun := time.Now()
		chunks, response, err := read(t, tt.dialect, true, nil, from)
		require.Zero(t, time.Since(begun), "nothing is waited for")
		require.Equal(t, tt.code, codeOf(err), "%v", err)
		require.Len(t, chunks, tt.chunks)
		switch {
		case tt.fault != "":
			require.NotNil(t, response.Fault)
			require.Contains(t, response.Fault.Message, tt.fault)
			require.Nil(t, response.Completion)
		case tt.code == "":
			require.Contains(t, string(response.Completion), "Hello")
		}
	})
}

// TestAnswerOfADialect: a stream and a document have the caller's ids, their usage, and the same
// answer, and each is read where the other was asked for.
func TestAnswerOfADialect(t *testing.T) {
	t.Parallel()
	for d, s := range samples() {
		for name, parts := range map[string][]string{"a stream": events(s.Begin, s.Pieces, s.End), "a document": {s.Document}} {
			for _, streams := range []bool{true, false} {
				chunks, response, err := read(t, d, streams, nil, &slow{parts: parts, ends: true, closed: make(chan struct{})})
				require.NoError(t, err, name)
				assert.JSONEq(t, strings.ReplaceAll(s.Document, "resp_theirs", s.own), string(response.Completion), "%s: %s", d, name)
				assert.Equal(t, s.provider, response.ProviderID)
				assert.Equal(t, &schemas.ChatUsage{Prompt: 7, Completion: 3, Total: 10}, response.Usage)
				assert.Equal(t, []string{"stop"}, response.Reasons)
				assert.EqualValues(t, 2, response.Output)
				assert.Equal(t, streams, len(chunks) > 0)
				assert.NotContains(t, strings.Join(chunks, ""), "resp_theirs")
				if streams {
					assert.Contains(t, chunks[0], s.own)
				}
			}
		}
	}
}

// TestDocumentOfADialect: embeddings and counts are documents, and nothing else.
func TestDocumentOfADialect(t *testing.T) {
	t.Parallel()
	const embedding = `{"object":"list","model":"real","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"usage":{"prompt_tokens":5,"total_tokens":5}}`
	const counted = `{"input_tokens":9}`
	const failed = `{"type":"error","error":{"type":"invalid_request_error","message":"out of order"}}`
	type testCase struct {
		dialect schemas.Dialect
		body    string
		code    schemas.Code
		usage   *schemas.ChatUsage
		fault   string
	}
	message := samples()[schemas.DialectMessages]
	table.Run(t, map[string]testCase{
		"embeddings":           {schemas.DialectEmbeddings, embedding, "", &schemas.ChatUsage{Prompt: 5, Total: 5}, ""},
		"a count":              {schemas.DialectCount, counted, "", nil, ""},
		"embeddings: an error": {schemas.DialectEmbeddings, `{"error":{"message":"out of order"}}`, "", nil, "out of order"},
		"a count: an error":    {schemas.DialectCount, failed, "", nil, "out of order"},
		"embeddings: a count":  {schemas.DialectEmbeddings, counted, schemas.UpstreamProtocol, nil, ""},
		"a count: a message":   {schemas.DialectCount, message.Document, schemas.UpstreamProtocol, nil, ""},
		"a count: a stream":    {schemas.DialectCount, strings.Join(events(message.Begin), ""), schemas.UpstreamProtocol, nil, ""},
		"a message: a count":   {schemas.DialectMessages, counted, schemas.UpstreamProtocol, nil, ""},
		"chat: embeddings":     {schemas.DialectChat, embedding, schemas.UpstreamProtocol, nil, ""},
	}, func(t *testing.T, tt testCase) {
		_, response, err := read(t, tt.dialect, false, nil, &slow{parts: []string{tt.body}, ends: true, closed: make(chan struct{})})
		require.Equal(t, tt.code, codeOf(err), "%v", err)
		require.Equal(t, tt.usage, response.Usage)
		switch {
		case tt.fault != "":
			require.Equal(t, tt.fault, response.Fault.Message)
		case tt.code == "":
			require.JSONEq(t, tt.body, string(response.Completion))
		}
	})
}

// TestSecretInTokensOfADocument: the tokens of an answer that is no stream do not spell a secret.
func TestSecretInTokensOfADocument(t *testing.T) {
	t.Parallel()
	tokens := `[{"token":"` + key[:5] + `"},{"token":"` + key[5:] + `"}]`
	documents := map[schemas.Dialect]string{
		schemas.DialectChat:      `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"logprobs":{"content":` + tokens + `},"finish_reason":"stop"}]}`,
		schemas.DialectResponses: `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a","logprobs":` + tokens + `}]}]}`,
	}
	for d, document := range documents {
		for _, streams := range []bool{true, false} {
			for secret, hit := range map[string]bool{key: true, "another-secret": false} {
				chunks, response, err := read(t, d, streams, redact.Values([]string{secret}), &slow{parts: []string{document}, ends: true, closed: make(chan struct{})})
				require.NoError(t, err)
				all := strings.Join(chunks, "") + string(response.Completion)
				assert.Equal(t, hit, !strings.Contains(all, key[5:]), "%s: %s", d, all)
				assert.Equal(t, hit, strings.Contains(string(response.Completion), `"logprobs":null`), "%s: %s", d, all)
			}
		}
	}
}

// TestSecretInADocument: an answer that is no stream does not have it either, asked for as one or not.
func TestSecretInADocument(t *testing.T) {
	t.Parallel()
	for d := range samples() {
		document := llm.Say(d, "a "+key, " b").Document
		for _, streams := range []bool{true, false} {
			chunks, response, err := read(t, d, streams, redact.Values([]string{key}), &slow{parts: []string{document}, ends: true, closed: make(chan struct{})})
			require.NoError(t, err)
			assert.NotContains(t, strings.Join(chunks, "")+string(response.Completion), key, d)
			assert.Contains(t, string(response.Completion), redact.Mark+" b", d)
		}
	}
}

// TestSecretInANestedError: an error may hold another as a text, in which the secret is escaped.
func TestSecretInANestedError(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"m","metadata":{"raw":"{\"message\":\"\\u007a` + key[1:] + `\"}"}}}`
	_, response, err := read(t, schemas.DialectChat, false, redact.Values([]string{key}), &slow{parts: []string{body}, ends: true, closed: make(chan struct{})})
	require.NoError(t, err)
	assert.Equal(t, "m: "+redact.Mark, response.Fault.Message)

	// It may also be spelled only after the message became one line.
	body = `{"error":{"message":"two\nwords of a key"}}`
	_, response, err = read(t, schemas.DialectChat, false, redact.Values([]string{"two words of a key"}), &slow{parts: []string{body}, ends: true, closed: make(chan struct{})})
	require.NoError(t, err)
	assert.Equal(t, redact.Mark, response.Fault.Message)

	// A long message is cut, but no secret is.
	body = `{"error":{"message":"` + strings.Repeat("x", 4<<10-8) + key + `"}}`
	from := &slow{parts: []string{body}, ends: true, closed: make(chan struct{})}
	answer := &dial.Answer{Stream: from, Response: outbound.Response{Status: 400}, Scrub: redact.Values([]string{key}), Asked: time.Now()}
	d := &decoder{Answer: answer, cfg: Config{}.withDefaults(), options: CallOptions{Dialect: schemas.DialectChat}}
	_, err = d.decode(t.Context())
	require.NoError(t, err)
	require.NotNil(t, d.response.Fault)
	assert.NotContains(t, d.response.Fault.Message, key[:8])

	// Each text of an error is redacted, whichever way it was read.
	d.fault(&completion.Fault{Message: key, Code: key, Type: key, Param: key})
	assert.Equal(t, &completion.Fault{Message: redact.Mark, Code: redact.Mark, Type: redact.Mark, Param: redact.Mark}, d.response.Fault)
}
