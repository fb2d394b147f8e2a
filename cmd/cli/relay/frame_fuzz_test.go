package relay

import (
	"encoding/json"
	"testing"

	"weir/cmd/cli/envelope"
	"weir/ingress/strict"
)

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
			if err := strict.Check(got.body, strict.Limits{Depth: 66}); err != nil {
				t.Fatalf("%q is carried as %q: %v", data, got.body, err)
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
