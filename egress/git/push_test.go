package git_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/egress/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ref = "refs/heads/work"

var (
	banded = githttp.Asked{Ref: ref, Report: true, SideBand: true}
	report = githttp.Asked{Ref: ref, Report: true}
	mute   = githttp.Asked{Ref: ref}
	bare   = githttp.Asked{Ref: ref, SideBand: true}
)

// answered is what a client that can read what it asked for gets for an end. Begun: it
// has been shown progress.
func answered(t *testing.T, asked githttp.Asked, begun bool, answer func(w http.ResponseWriter, r *http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("PACK"))
	r.Header.Set("User-Agent", "git/2.39.5")
	body, err := githttp.NewBody(rec, r, 100, time.Minute)
	require.NoError(t, err)
	a, _ := githttp.NewAnswer(rec, asked, body, 100)
	if begun {
		_, err := io.ReadAll(body)
		require.NoError(t, err)
		a.Progress([]byte("counting"))
		rec.Body.Reset()
	}
	answer(a, r)
	if rec.Code == http.StatusOK {
		require.True(t, body.Whole(), "the client was heard out")
	}
	return rec
}

func ended(t *testing.T, asked githttp.Asked, begun bool, s schemas.Settled, doc any) *httptest.ResponseRecorder {
	t.Helper()
	var data json.RawMessage
	if doc != nil {
		var err error
		data, err = ledger.Encode(doc)
		require.NoError(t, err)
	}
	return answered(t, asked, begun, func(w http.ResponseWriter, r *http.Request) { git.Push(w, r, &s, data) })
}

// endedFor is ended for another client than git.
func endedFor(t *testing.T, agent string, asked githttp.Asked, s schemas.Settled) *httptest.ResponseRecorder {
	t.Helper()
	return answered(t, asked, false, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("User-Agent", agent)
		git.Push(w, r, &s, nil)
	})
}

func reported(unpack, reason string, sideBand bool) string {
	return string(gitwire.AppendReport(nil, ref, gitwire.Report{Unpack: unpack, Reason: reason}, sideBand))
}

func fatal(sentence string) string { return string(gitwire.AppendFatal(nil, sentence)) }

func TestEndsThatGitReads(t *testing.T) {
	t.Parallel()
	succeeded := schemas.Settled{Outcome: schemas.OutcomeSucceeded}
	rejected := schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.GitRejected}
	denied := schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.GitRefDenied}
	unknown := schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode, Message: "look"}
	for name, tc := range map[string]struct {
		asked githttp.Asked
		s     schemas.Settled
		doc   any
		want  string
	}{
		"succeeded":               {banded, succeeded, schemas.PushResult{Unpack: "ok"}, reported("ok", "", true)},
		"succeeded, no band":      {report, succeeded, schemas.PushResult{}, reported("ok", "", false)},
		"succeeded, neither":      {mute, succeeded, schemas.PushResult{}, ""},
		"succeeded, no report":    {bare, succeeded, schemas.PushResult{}, "0000"},
		"rejected":                {banded, rejected, schemas.PushResult{Unpack: "ok", Reason: "non-fast-forward"}, reported("ok", "non-fast-forward", true)},
		"IN-GIT-047 bad objects":  {banded, rejected, schemas.PushResult{Unpack: "index-pack abnormal exit", Reason: "unpacker error"}, reported("index-pack abnormal exit", "unpacker error", true)},
		"rejected, no band":       {report, rejected, schemas.PushResult{Reason: "hook"}, reported("ok", "hook", false)},
		"rejected, no report":     {bare, rejected, schemas.PushResult{Reason: "hook"}, fatal("hook")},
		"IN-GIT-043 denied":       {banded, denied, schemas.PushResult{Reason: "no"}, reported("ok", "no (GIT_REF_DENIED)", true)},
		"denied, several refs":    {githttp.Asked{Ref: ref, Others: []string{"refs/tags/t"}, Report: true}, denied, schemas.PushResult{Reason: "no"}, "000eunpack ok\n002bng refs/heads/work no (GIT_REF_DENIED)\n0027ng refs/tags/t no (GIT_REF_DENIED)\n0000"},
		"denied, no report":       {bare, denied, schemas.PushResult{Reason: "no"}, fatal("no (GIT_REF_DENIED)")},
		"denied by policy":        {banded, schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost, Message: "not there"}, nil, reported("ok", "not there (DENY_HOST)", true)},
		"nobody knows":            {banded, unknown, schemas.PushResult{}, fatal("look")},
		"nobody knows, no band":   {report, unknown, schemas.PushResult{}, reported("ok", "look", false)},
		"nobody knows, no report": {bare, unknown, nil, fatal("look")},
	} {
		for _, begun := range []bool{false, true} {
			if begun && !tc.asked.SideBand {
				continue
			}
			rec := ended(t, tc.asked, begun, tc.s, tc.doc)
			require.Equal(t, http.StatusOK, rec.Code, name)
			require.Equal(t, "application/x-git-receive-pack-result", rec.Header().Get("Content-Type"), name)
			require.Equal(t, tc.want, rec.Body.String(), name)
		}
	}
}

func TestEndsWithAStatus(t *testing.T) {
	t.Parallel()
	failed := func(code schemas.Code) schemas.Settled {
		return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: code}
	}
	for name, tc := range map[string]struct {
		asked  githttp.Asked
		s      schemas.Settled
		status int
		code   schemas.Code
	}{
		"IN-GIT-041 a bomb":      {banded, failed(schemas.GitPackTooLarge), 413, schemas.GitPackTooLarge},
		"broke off":              {banded, failed(schemas.GitIncomplete), 400, schemas.GitIncomplete},
		"the task ended":         {banded, schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled}, 403, schemas.Canceled},
		"too late":               {banded, schemas.Settled{Outcome: schemas.OutcomeExpired}, 504, schemas.DeadlineExceeded},
		"the upstream":           {banded, failed(schemas.UpstreamConnect), 502, schemas.UpstreamConnect},
		"no code":                {banded, failed(""), 500, schemas.Internal},
		"denied, to the mute":    {mute, schemas.Settled{Outcome: schemas.OutcomeDenied}, 403, schemas.GitRefDenied},
		"rejected, to the mute":  {mute, failed(schemas.GitRejected), 422, schemas.GitRejected},
		"nobody knows, the mute": {mute, schemas.Settled{Outcome: schemas.OutcomeUnknown}, 424, schemas.OutcomeUnknownCode},
	} {
		rec := endedFor(t, "another", tc.asked, tc.s)
		require.Equal(t, tc.status, rec.Code, name)
		require.Equal(t, problem.MediaType, rec.Header().Get("Content-Type"), name)
		require.Contains(t, rec.Body.String(), `"code":"`+string(tc.code)+`"`, name)
		rec = ended(t, tc.asked, false, tc.s, nil)
		if !tc.asked.SideBand {
			require.Equal(t, tc.status, rec.Code, name)
			require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"), name)
			require.Regexp(t, `^[a-z].+ \(`+string(tc.code)+`\)\n$`, rec.Body.String(), name)
			continue
		}
		require.Equal(t, http.StatusOK, rec.Code, "%s: git shows the reason, and of another status its number", name)
		require.Regexp(t, `error: [a-z].+ \(`+string(tc.code)+`\)`, rec.Body.String(), name)
		begun := ended(t, tc.asked, true, tc.s, nil)
		require.Equal(t, http.StatusOK, begun.Code, name)
		require.Equal(t, rec.Body.String(), begun.Body.String(), "%s, when the answer had begun", name)
		rec = ended(t, tc.asked, false, tc.s, schemas.PushResult{Reason: "because of that"})
		require.Equal(t, fatal("because of that ("+string(tc.code)+")"), rec.Body.String(), name)
	}
}

// TestADenialThatIsNotReadAsAReport: a client that still sends reads no report.
func TestADenialThatIsNotReadAsAReport(t *testing.T) {
	t.Parallel()
	rec, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("PACK and more"))
	body, err := githttp.NewBody(rec, r, 100, time.Minute)
	require.NoError(t, err)
	a, _ := githttp.NewAnswer(rec, banded, body, 4)
	git.Push(a, r, &schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.GitRefDenied, Message: "no"}, nil)
	require.Equal(t, fatal("no (GIT_REF_DENIED)"), rec.Body.String())
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	down := errors.New("dial 10.0.0.1: down")
	rec := answered(t, banded, false, func(w http.ResponseWriter, r *http.Request) { git.Refuse(w, r, down) })
	require.Equal(t, http.StatusInternalServerError, rec.Code)
	require.NotContains(t, rec.Body.String(), "10.0.0.1")
	rec = answered(t, banded, true, func(w http.ResponseWriter, r *http.Request) { git.Refuse(w, r, down) })
	require.Equal(t, fatal("something went wrong on our side (INTERNAL)"), rec.Body.String())
	rec = answered(t, banded, false, func(w http.ResponseWriter, r *http.Request) {
		git.Push(w, r, &schemas.Settled{Outcome: schemas.OutcomeSucceeded}, json.RawMessage(`{`))
	})
	require.Equal(t, http.StatusInternalServerError, rec.Code, "a document that cannot be read")
	w := httptest.NewRecorder()
	git.Push(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), &schemas.Settled{Outcome: schemas.OutcomeSucceeded}, nil)
	require.Equal(t, http.StatusInternalServerError, w.Code, "an answer that is none")
}
