package app

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// One letter is read by itself, however many lie behind it.
func TestDeadShowReadsOneLetter(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RequestURI()
		_, _ = io.WriteString(w, `{"items":[{"seq":17,"action_id":"a","code":"POISON"}],"next":"17"}`)
	}))
	t.Cleanup(s.Close)
	show := func(seq string) (code int, out, said string) {
		var o, e bytes.Buffer
		code = Main(t.Context(), []string{"dead", "show", seq, "--json", "--server", s.URL}, nil, Streams{Out: &o, Err: &e})
		return code, o.String(), e.String()
	}

	code, out, _ := show("17")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, `"seq":17`)
	require.Equal(t, "/v1/dead-letters?cursor=16&limit=1", <-asked)
	require.Empty(t, asked)

	code, out, said := show("16") // the first letter behind 15 is another
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Equal(t, "weir: there is no dead letter 16; `weir dead ls` lists them\n", said)
}
