package githttp_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/githttp"
	"weir/internal/gitwire"
)

// trial is an answer to a push of three bytes that nobody has read yet.
type trial struct {
	*githttp.Answer
	rec  *httptest.ResponseRecorder
	body *githttp.Body
}

func try(t *testing.T, asked githttp.Asked) *trial {
	t.Helper()
	tr := &trial{rec: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("abc"))
	var err error
	tr.body, err = githttp.NewBody(tr.rec, r, 100, time.Minute)
	require.NoError(t, err)
	tr.rec.Header().Set("Weir-Action-Id", "a-1")
	tr.Answer, _ = githttp.NewAnswer(tr.rec, asked, tr.body, 100)
	return tr
}

func (tr *trial) read(t *testing.T) {
	t.Helper()
	_, err := io.ReadAll(tr.body)
	require.NoError(t, err)
}

func progress(text string) string { return string(gitwire.AppendProgress(nil, []byte(text))) }

var banded = githttp.Asked{Ref: "refs/heads/work", Report: true, SideBand: true}

// TestProgress is shown while the answer is open and the whole push is here, and to a client that
// has a band for it.
func TestProgress(t *testing.T) {
	t.Parallel()
	tr := try(t, banded)
	tr.Progress([]byte("two"))
	require.Empty(t, tr.rec.Body.String(), "the client still sends")
	tr.read(t)
	tr.Progress([]byte("three"))
	require.Equal(t, progress("three"), tr.rec.Body.String())
	require.Equal(t, "application/x-git-receive-pack-result", tr.rec.Header().Get("Content-Type"))
	require.Equal(t, "a-1", tr.rec.Header().Get("Weir-Action-Id"))
	require.True(t, tr.Close())
	tr.Progress([]byte("four"))
	tr.Report([]byte("end"))
	require.Equal(t, http.StatusOK, tr.rec.Code)
	require.Equal(t, progress("three")+"end", tr.rec.Body.String())
	require.Empty(t, tr.rec.Header().Get("Content-Length"))

	tr = try(t, banded)
	tr.Report([]byte("end"))
	require.Equal(t, strconv.Itoa(tr.rec.Body.Len()), tr.rec.Header().Get("Content-Length"))
	require.True(t, tr.body.Whole(), "the client was heard out")

	tr = try(t, githttp.Asked{Report: true})
	tr.read(t)
	tr.Progress([]byte("one"))
	require.False(t, tr.Close())
	tr.Report([]byte("end"))
	require.Equal(t, "end", tr.rec.Body.String())
}

func TestARefusalHasItsOwnHeaders(t *testing.T) {
	t.Parallel()
	tr := try(t, banded)
	require.False(t, tr.Close())
	tr.Header().Set("Content-Type", "text/plain")
	tr.WriteHeader(http.StatusForbidden)
	_, err := tr.Write([]byte("no"))
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, tr.rec.Code)
	require.Equal(t, "text/plain", tr.rec.Header().Get("Content-Type"))
	require.Equal(t, "a-1", tr.rec.Header().Get("Weir-Action-Id"))
}

// A client that sends does not listen: it is answered when it has sent everything, and
// it may take its time for that.
func TestAClientIsHeardOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, closes := exchange(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := githttp.NewBody(w, r, 1<<20, time.Hour)
			if err != nil {
				t.Error(err)
			}
			a, _ := githttp.NewAnswer(w, banded, body, 1<<20)
			a.Report([]byte("no"))
		}, func(client net.Conn) {
			_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 600000\r\n\r\n")
			for range 6 {
				time.Sleep(29 * time.Second)
				if _, err := io.WriteString(client, strings.Repeat("x", 100_000)); err != nil {
					t.Error(err)
				}
			}
		})
		require.Equal(t, "no", got)
		require.False(t, closes, "the connection is good for more")
	})
}
