package executor_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/executor"
	"weir/schemas"
)

// TestAskedIsWhatTranslateGives: a question is about the very call that would
// be made.
func TestAskedIsWhatTranslateGives(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"method":"get","url":"http://localhost/"}`,
		`{"method":"POST","url":"http://localhost/","allowlist_key":"orders","body":{"n":1.50}}`,
		`{"method":"PUT","url":"http://localhost/","headers":{"b":"2","C":"3","A":"1","a-b":"4"},"body":null}`,
	} {
		var req schemas.ExplainRequest
		require.NoError(t, json.Unmarshal([]byte(body), &req))
		got, err := executor.Translate([]byte(body), door{}, checker())
		require.NoError(t, err, body)
		require.Equal(t, got.Call, executor.Asked(req), body)
	}
	require.Equal(t, schemas.HTTPCall{Method: "GET", URL: "u"}, executor.Asked(schemas.ExplainRequest{URL: "u"}))
	require.Equal(t, "\u017fEND", executor.Asked(schemas.ExplainRequest{Method: "\u017fend"}).Method, "a letter of another alphabet stays one")
}
