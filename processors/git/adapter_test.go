package git_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/outbound"
	"weir/internal/policy/evaluate"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors/git"
	"weir/schemas"
)

const ref = "refs/heads/work"

// talk is a push of a pack that is all here.
func talk() git.PushCall {
	return git.PushCall{
		Command:      gitwire.Command{Old: gitwire.Zero, New: gitwire.Zero, Ref: ref},
		Capabilities: []string{gitwire.CapReport, gitwire.CapSideBand},
		Pack:         func() (io.Reader, int64, error) { return bytes.NewReader(gitwire.EmptyPack()), 32, nil },
	}
}

// do makes a push to a server.
func do(t *testing.T, s *upstream.Server, tk git.PushCall, rules ...schemas.Rule) (git.Word, int, error) {
	t.Helper()
	r := newEnv(t, options{})
	r.allow(s.URL())
	r.book.Put(t, rules...)
	pass, d := r.guard.Check(schemas.HTTPCall{Method: "POST", URL: s.URL() + "/app.git/git-receive-pack"}, evaluate.Scope{Tenant: tenant})
	require.True(t, d.Allowed, d.Reason)
	e, err := r.forward.Push(tk).Open(t.Context(), pass)
	require.NoError(t, err)
	defer e.Close()
	reply, err := e.Do(t.Context(), pass, nil)
	var w git.Word
	if err != nil {
		return w, 0, err
	}
	if reply.Answer.Body != nil {
		require.NoError(t, json.Unmarshal(reply.Answer.Body, &w))
	}
	return w, reply.Answer.Status, err
}

func result(body string) upstream.Behaviour {
	return upstream.Respond(200, body, upstream.Header("Content-Type", gitwire.ResultType(schemas.GitReceivePack)))
}

func report(rep gitwire.Report) string { return string(gitwire.AppendReport(nil, ref, rep, true)) }

func TestWordOfAServer(t *testing.T) {
	t.Parallel()
	refused := func(text string) *string { return &text }
	type testCase struct {
		answer upstream.Behaviour
		want   git.Word
		status int
		code   schemas.Code
	}
	table.Run(t, map[string]testCase{
		"updated": {
			answer: result(report(gitwire.Report{Unpack: "ok"})),
			want:   git.Word{Unpack: "ok", Updated: true}, status: 200,
		},
		"refused, with a reason": {
			answer: result(report(gitwire.Report{Unpack: "ok", Reason: "hook declined " + basic})),
			want:   git.Word{Unpack: "ok", Reason: "hook declined [REDACTED]"}, status: 200,
		},
		"not unpacked": {
			answer: result(report(gitwire.Report{Unpack: "index-pack failed"})),
			want:   git.Word{Unpack: "index-pack failed", Reason: "index-pack failed"}, status: 200,
		},
		"broken off by the server": {
			answer: result(string(gitwire.AppendFatal(nil, "no "+basic))),
			want:   git.Word{Refused: refused("error: no [REDACTED]")}, status: 200,
		},
		"nothing of the ref": {answer: result(string(gitwire.AppendReport(nil, "refs/heads/other", gitwire.Report{Unpack: "ok"}, true))), code: schemas.UpstreamProtocol},
		"nothing":            {answer: result(""), code: schemas.UpstreamProtocol},
		"half":               {answer: result("0030\x01000eunp"), code: schemas.UpstreamProtocol},
		"cut off":            {answer: upstream.Raw("HTTP/1.1 200 OK\r\nContent-Type: " + gitwire.ResultType(schemas.GitReceivePack) + "\r\nContent-Length: 99\r\n\r\n0030"), code: schemas.UpstreamTruncated},
		"a page":             {answer: upstream.Respond(200, "<html>", upstream.Header("Content-Type", "text/html")), code: schemas.UpstreamProtocol},
		"not found":          {answer: upstream.Respond(404, "none"), status: 404},
	}, func(t *testing.T, c testCase) {
		s := upstream.New(t, c.answer)
		got, status, err := do(t, s, talk())
		s.WaitIdle()
		require.Equal(t, 1, s.Hits())
		received := s.Ledger()[0]
		assert.Equal(t, "Basic "+basic, received.Header("Authorization"))
		assert.Equal(t, gitwire.RequestType(schemas.GitReceivePack), received.Header("Content-Type"))
		assert.NotEmpty(t, received.Header("Content-Length"))
		if c.code != "" {
			failed(t, err, c.code, true)
			return
		}
		require.NoError(t, err)
		want, _ := json.Marshal(c.want)
		have, _ := json.Marshal(got)
		assert.Contains(t, []string{string(want), strings.ReplaceAll(string(want), "[REDACTED]", "REDACTED")}, string(have))
		assert.Equal(t, c.status, status)
	})
}

func failed(t *testing.T, err error, code schemas.Code, sent bool) {
	t.Helper()
	c := harness.As[*fault.Call](t, err)
	assert.Equal(t, code, c.Code)
	assert.Equal(t, sent, c.Sent)
}

// packed is a pack of a size.
func packed(size int64, pack io.Reader) func() (io.Reader, int64, error) {
	return func() (io.Reader, int64, error) { return pack, size, nil }
}

func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	tk := talk()
	tk.Pack = func() (io.Reader, int64, error) { return nil, 0, errors.New("gone") }
	_, _, err := do(t, s, tk)
	failed(t, err, schemas.Canceled, false)

	tk = talk()
	tk.Pack = packed(100, io.MultiReader(strings.NewReader("PACK"), iotest.ErrReader(errors.New("the task has ended"))))
	_, _, err = do(t, s, tk)
	failed(t, err, schemas.Canceled, false)

	word, status, err := do(t, s, talk(), rulebook.MockText("m", s.URL()+"/*", 200, gitwire.ResultType(schemas.GitReceivePack), report(gitwire.Report{Unpack: "ok"})))
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.True(t, word.Updated)
	s.WaitIdle()
	assert.Zero(t, s.Hits())
}

func TestProgressIsScrubbed(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, result(string(gitwire.AppendProgress(nil, []byte("hello "+basic+"\n")))+
		report(gitwire.Report{Unpack: "ok"})))
	var heard strings.Builder
	tk := talk()
	tk.Progress = func(b []byte) { heard.Write(b) }
	_, _, err := do(t, s, tk)
	require.NoError(t, err)
	assert.Contains(t, heard.String(), "hello ")
	assert.NotContains(t, heard.String(), basic)
}

// TestHalfAPushIsNone: one that is too large to be read before breaks off in the middle.
func TestHalfAPushIsNone(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	tk := talk()
	tk.Pack = packed(2<<20, io.MultiReader(strings.NewReader("PACK"), iotest.ErrReader(errors.New("gone"))))
	_, _, err := do(t, s, tk)
	failed(t, err, schemas.Canceled, true)
	require.ErrorIs(t, err, outbound.ErrBody)
	s.WaitIdle()
	assert.Zero(t, s.Hits())
}
