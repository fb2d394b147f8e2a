package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestCallText(t *testing.T) {
	t.Parallel()
	called := schemas.Called{Method: "GET", Host: "h.example", Path: "/a"}
	plan := schemas.Called{Method: "PUT", Host: "h.example", Path: "/a", Calls: 3}
	for want, e := range map[string]schemas.ActionEntry{
		"GET h.example/a":      {Kind: schemas.KindRun, Agent: "HTTP_EXECUTE", Called: called},
		"PUT h.example/a (+2)": {Kind: schemas.KindPlan, Called: plan},
		"run FETCH":            {Kind: schemas.KindRun, Agent: "FETCH"},
		"chat openai/gpt-5":    {Kind: schemas.KindChat, ModelUse: schemas.ModelUse{Model: "openai/gpt-5"}},
		"task coder":           {Kind: schemas.KindTask, Agent: "coder"},
		"push":                 {Kind: schemas.KindPush},
	} {
		require.Equal(t, want, entryCall(e))
	}
	require.Equal(t, "chat m", viewCall(schemas.ActionView{Kind: schemas.KindChat, Result: []byte(`{"model":"m"}`)}))
	require.Equal(t, "chat responses m", viewCall(schemas.ActionView{Kind: schemas.KindChat, Result: []byte(`{"dialect":"responses","model":"m"}`)}))
	require.Equal(t, "chat", viewCall(schemas.ActionView{Kind: schemas.KindChat, Result: []byte(`[]`)}))
}

func TestEvidenceText(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"method":"GET","request_fingerprint":"GET https://h.example/a?key,b","status":404,"duration_ms":12}`: "GET h.example/a  404  12ms",
		`{"method":"POST","target":"POST https://h.example/a?","reason":"no entry"}`:                           "POST h.example/a  no entry",
		`{"effect_ref":"e","method":"PUT","url":"http://h.example/a?b=c#d","status":200}`:                      "PUT h.example/a  200",
		`{"method":"GET","request_fingerprint":"hmac-sha256:00","status":200,"duration_ms":3}`:                 "GET  200  3ms",
		`{"model_asked":"fast","model":"openai/gpt-5","status":200,"duration_ms":1500}`:                        "openai/gpt-5  200  1.5s",
		`{"repo":"shop","ref":"refs/heads/a","result":"ok","duration_ms":5}`:                                   "shop refs/heads/a  5ms",
		`{"status":"succeeded","artifact_refs":{}}`:                                                            "succeeded",
		`[]`: "", `null`: "", `{"method":1}`: "",
	} {
		require.Equal(t, want, evidenceText([]byte(payload)), payload)
	}
}

func TestTailLine(t *testing.T) {
	t.Parallel()
	at, ms := time.Date(2026, 11, 1, 12, 0, 0, 5e6, time.Local), 3.0
	e := schemas.ActionEntry{ID: "a-1", Kind: "http", Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/a"}, Created: at, Status: "accepted"}
	line := func(colour bool) string {
		var out strings.Builder
		require.NoError(t, printCells(printer{to: &out, colour: colour}, "  ", tailCells(e)))
		return out.String()
	}
	require.Equal(t, "12:00:00.005  a-1  accepted   GET h.example/a\n", line(false))
	e.Status, e.HTTPStatus, e.Code, e.DurationMS, e.Caller = "failed", 503, schemas.HTTPFailure, &ms, "shop"
	require.Equal(t, "12:00:00.005  a-1  failed     GET h.example/a  503  HTTP_FAILURE  3ms  shop\n", line(false))
	require.Contains(t, line(true), "a-1  \x1b[31mfailed   \x1b[0m  GET")
	require.Equal(t, "12:00:00", listTime(at, at.Add(time.Hour)))
	require.Equal(t, "2026-11-01 12:00:00", listTime(at, at.Add(24*time.Hour)))
}
