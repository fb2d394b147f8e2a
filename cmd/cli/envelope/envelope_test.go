package envelope_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli/envelope"
	"weir/schemas"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]envelope.Names{
		`{"request_id":"r1","operation":"ping"}`:                                  {RequestID: "r1", Operation: "ping"},
		`{"request":{"request_id":"r1","operation":"ping"},"request_id":"outer"}`: {RequestID: "r1", Operation: "ping"},
		`{"request_id":" <é&>\u2028","operation":"rules.list"}`:                   {RequestID: " <é&>\u2028", Operation: "rules.list"},
		`{"request_id":7,"operation":null}`:                                       {},
		`{"Request_ID":"r1","OPERATION":"ping"}`:                                  {},
		`{"request":"r1","request_id":"r2","operation":"ping"}`:                   {},
		`["request_id","r1"]`:                                                     {},
		`{"request_id":"r1"`:                                                      {},
		"{\"request_id\":\"\xff\"}":                                               {},
		``:                                                                        {},
		`null`:                                                                    {},
		`{"request_id":"first","request_id":"last","operation":"x","operation":"status"}`: {RequestID: "last", Operation: "status"},
	} {
		assert.Equal(t, want, envelope.NamesOf(envelope.Find([]byte(doc))), doc)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	n := envelope.Names{RequestID: `<"&>`, Operation: "status"}
	assert.JSONEq(t, `{"ok":true,"request_id":"<\"&>","operation":"status","data":{"pong":true}}`, string(envelope.Pong(n)))
	assert.Contains(t, string(envelope.Pong(n)), `<\"&>`, "as it came")
	assert.JSONEq(t,
		`{"ok":false,"request_id":"<\"&>","operation":"status","error":{"code":"INVALID_REQUEST","message":"no","detail":"D"}}`,
		string(envelope.Refuse(n, schemas.InvalidRequest, "D", "no")))
	var got schemas.AgentResponse
	require.NoError(t, json.Unmarshal(envelope.Unavailable(n, "gone"), &got))
	assert.Equal(t, &schemas.AgentError{Code: schemas.InternalError, Message: "gone", Detail: "UNAVAILABLE"}, got.Error)
}

// TestLongNames: a name of any length is read, and a long one is not repeated.
func TestLongNames(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("n", 256)
	n := envelope.NamesOf(envelope.Find([]byte(`{"request_id":"` + fits + `","operation":"` + fits + `x"}`)))
	assert.Equal(t, envelope.Names{RequestID: fits, Operation: fits + "x"}, n)
	for _, answer := range [][]byte{envelope.Refuse(n, schemas.InvalidRequest, "", "no"), envelope.Pong(n)} {
		assert.Equal(t, envelope.Names{RequestID: fits}, envelope.NamesOf(envelope.Object(answer)))
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"ok":true,"data":{}}`:                             "ok",
		`{"ok":false,"error":{"code":"NOT_FOUND"}}`:         "NOT_FOUND",
		`{"ok":false}`:                                      "",
		`{"ok":"true"}`:                                     "",
		`{"id":"a1","status":"accepted","duplicate":false}`: "",
		`{"code":"UNAVAILABLE","status":503}`:               "",
		`<html>`:                                            "",
		``:                                                  "",
	} {
		assert.Equal(t, want, envelope.Result([]byte(doc)), doc)
	}
}
