package relay

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/cmd/cli/envelope"
)

// TestRead: what names itself is refused or carried, what does not is dropped. A request is carried if an answer can be
// addressed to it, although the API may refuse it.
func TestRead(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]struct {
		id      string // of the answer; empty: the message is dropped
		carried string // empty: it is refused
	}{
		`{"request":{"request_id":"r","operation":"bridge.ping","operation":"global.off"}}`:          {"r", `{"request_id":"r","operation":"bridge.ping","operation":"global.off"}`},
		`{"request":{"request_id":"r","operation":"global.off","auth_token":"x","auth_token":null}}`: {"r", `{"request_id":"r","operation":"global.off","auth_token":"x","auth_token":null}`},
		`{"request_id":"r","args":{}}`:                                            {"r", ""},
		`{"request":"global.off","request_id":"r"}`:                               {"r", ""},
		`{"request":null,"request_id":"r"}`:                                       {"r", ""},
		`{"request":{"operation":"status"},"request_id":"r"}`:                     {"r", `{"operation":"status"}`},
		`{"request":{"request_id":7,"operation":"bridge.ping"},"request_id":"r"}`: {"r", `{"request_id":7,"operation":"bridge.ping"}`},
		`{"request_id":"r","operation":"status"}`:                                 {"r", `{"request_id":"r","operation":"status"}`},
		`not json`: {}, `[]`: {}, `null`: {}, `7`: {}, `{}`: {}, `{"request":{"operation":"status"}}`: {},
		`{"request":{"request_id":"","operation":"status"}}`:                                  {},
		`{"request":{"request_id":7,"operation":"status"},"request_id":null}`:                 {},
		`{"direction":"extension-to-page","request_id":"x","response":{"ok":true}}`:           {},
		`{"direction":"extension-to-page","request":{"request_id":"x","operation":"status"}}`: {},
		`{"request_id":"x","operation":"status","response":{}}`:                               {},
	} {
		f, ok := read([]byte(message))
		assert.Equal(t, want.id != "", ok, message)
		assert.Equal(t, want.id, f.id, message)
		switch {
		case !ok:
		case want.carried == "":
			assert.Equal(t, "INVALID_REQUEST", envelope.Result(f.answer), message)
		default:
			assert.Equal(t, `{"type":"AGENT_API_REQUEST","request":`+want.carried+`}`, string(f.body))
			assert.Nil(t, f.answer)
		}
	}
}

// FuzzRead: whatever a relay sends, it is dropped, answered with an envelope that
// names it, or carried as one well-formed request; and an answer is never answered.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"request":{"request_id":"r","operation":"status","args":{}}}`,
		`{"request_id":"r","operation":"bridge.ping"}`,
		`{"request":{"request_id":"r","operation":"x","auth_token":"t","auth_token":null}}`,
		`{"request":null,"request_id":"r"}`,
		`{"request":{"operation":"bridge.ping"},"request_id":"r"}`,
		`{"request":{"request_id":"\ud800","operation":1}}`,
		`{"namespace":"modinet-agent-relay-v1","direction":"extension-to-page","request_id":"r","response":{"ok":true}}`,
		`{"direction":"page-to-extension","request":{"request_id":"r","operation":"ping"}}`,
		"\xff", `[`, ``, `7`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := read(data)
		if !ok {
			return
		}
		if got.id == "" {
			t.Fatal("an answer without a name")
		}
		response := got.answer
		if response == nil {
			if !json.Valid(got.body) {
				t.Fatalf("%q is carried as %q", data, got.body)
			}
			if envelope.NamesOf(envelope.Find(got.body)) != got.Names {
				t.Fatalf("%q is carried under another name", data)
			}
			_, has := envelope.Find(got.body)["auth_token"]
			if got.tokened && !has {
				t.Fatalf("%q has no token", got.body)
			}
			response = envelope.Unavailable(got.Names, "x")
		}
		if envelope.Result(response) == "" {
			t.Fatalf("%q is no answer", response)
		}
		message, err := wrap(got.id, response)
		if err != nil || !json.Valid(message) {
			t.Fatalf("%q cannot be sent: %v", response, err)
		}
		if _, ok := read(message); ok {
			t.Fatalf("%q is answered", message)
		}
	})
}
