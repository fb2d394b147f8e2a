package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

// TestExecBatch: a file of requests in either form is one batch, each item has a line, and the exit
// code is the worst of all.
func TestExecBatch(t *testing.T) {
	t.Parallel()
	const ok = `{"index":0,"action_id":"a","status":200,"result":{"status":201,"headers":[],"body":null}}`
	type testCase struct {
		file, answer string
		sent         int
		exit         int
		out          string
	}
	table.Run(t, map[string]testCase{
		"a list": {`[{"method":"GET"}]`, ok, 1, ExitOK, "0\t201\ta\t-\t-\n"},
		"lines":  {"{}\n{}\n", ok + "\n" + `{"index":1,"action_id":"b","status":202,"receipt":{"id":"b"}}`, 2, ExitOK, "0\t201\ta\t-\t-\n1\t-\tb\t-\taccepted\n"},
		"failed": {"{}", `{"index":0,"action_id":"a","status":502,"error":{"variant":"HttpFailure","message":"no\n","code":"HTTP_FAILURE","status":404}}`, 1, ExitFailed, "0\t404\ta\tHTTP_FAILURE\tno\\u000a\n"},
		"bad":    {"{}", `{"index":0,"status":400,"error":{"variant":"MissingArgument","message":"url","code":"VALIDATION_ERROR"}}`, 1, ExitUsage, "0\t-\t-\tVALIDATION_ERROR\turl\n"},
		"the worst": {
			"{}{}{}",
			`{"index":2,"status":424,"action_id":"c","error":{"variant":"OutcomeUnknown","message":"m","code":"OUTCOME_UNKNOWN"}}` + ok + `{"index":1,"status":403,"action_id":"b","error":{"variant":"DisallowedHost","message":"d","code":"DENY_HOST"}}`,
			3, ExitUnknown, "2\t-\tc\tOUTCOME_UNKNOWN\tm\n0\t201\ta\t-\t-\n1\t-\tb\tDENY_HOST\td\n",
		},
		"cut off": {"{}{}", ok, 2, ExitFailed, "0\t201\ta\t-\t-\n"},
	}, func(t *testing.T, tc testCase) {
		var sent struct{ Requests []json.RawMessage }
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewDecoder(r.Body).Decode(&sent)
			if r.Header.Get("Accept") == schemas.MediaNDJSON && r.Header.Get("Idempotency-Key") == "k" {
				_, _ = io.WriteString(w, tc.answer)
			}
		}))
		t.Cleanup(s.Close)
		code, out, errs := weir(t, tc.file, nil, "exec", "--batch", "-", "--idempotency-key", "k", "--server", s.URL)
		require.Equal(t, tc.exit, code, errs)
		require.Equal(t, tc.out, out)
		require.Len(t, sent.Requests, tc.sent)
	})
}

func TestExecBatchRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.ndjson")
	require.NoError(t, os.WriteFile(file, []byte("{}\n{,}"), 0o600))
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"--batch", file}, "request 2 is not JSON"},
		{[]string{"--batch", os.DevNull}, "has 0 requests"},
		{[]string{"--batch", file, "-d", "{}"}, "--data belongs to one call"},
		{[]string{"--batch", file, "GET", "http://x/"}, "no arguments with --batch"},
		{[]string{"GET"}, "a method and a URL, or --batch FILE"},
		{[]string{"--batch", file + "x"}, "no such file"},
	} {
		code, _, errs := command(t, append([]string{"exec", "--server", "http://127.0.0.1:1"}, tc.args...)...)
		require.Equal(t, ExitUsage, code, errs)
		require.Contains(t, errs, tc.says)
	}
	refused := always(t, http.StatusBadRequest, "application/json", `{"error":{"variant":"InvalidArgumentValue","message":"no list","code":"VALIDATION_ERROR"}}`)
	code, _, errs := weir(t, "{}", nil, "exec", "--batch", "-", "--server", refused)
	require.Equal(t, ExitUsage, code, errs)
	require.Contains(t, errs, "no list")
}
