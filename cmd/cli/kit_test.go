package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/client"
	"weir/internal/weirtest/table"
)

// weir runs the program with something on standard input, and returns its exit code and what it printed.
func weir(t *testing.T, in string, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = program(t.Context(), args, environ, Streams{In: strings.NewReader(in), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// program is the program without the commands that need a node.
func program(ctx context.Context, args, environ []string, s Streams) int {
	return Run(ctx, args, &Env{Streams: s, Environ: environ}, func(*Env) []*cobra.Command { return nil })
}

// command runs the program with nothing but its arguments.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, "", nil, args...)
}

// clientOf is a client without a token.
func clientOf(t *testing.T, url string) *api {
	t.Helper()
	c, err := client.New(url, "")
	require.NoError(t, err)
	return &api{Client: c}
}

// served is the URL of a Weir.
func served(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	return newServer(t, handler).URL
}

// newServer is a Weir: each of its answers has an id.
func newServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r-1")
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// always is a server that answers every request alike.
func always(t *testing.T, status int, kind, body string, header ...string) (url string) {
	t.Helper()
	return served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		setAll(w.Header(), header...)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// desk is a server that answers with documents. run runs the program against it, and expects an exit code.
func desk(t *testing.T, answer func(r *http.Request) any) (run func(want int, args ...string) (out, said string)) {
	t.Helper()
	url := served(t, func(w http.ResponseWriter, r *http.Request) { assert.NoError(t, json.NewEncoder(w).Encode(answer(r))) })
	return func(want int, args ...string) (string, string) {
		t.Helper()
		code, out, said := weir(t, "", []string{"WEIR_URL=" + url}, args...)
		require.Equal(t, want, code, said)
		return out, said
	}
}

// example is a run of the program against a server that gives every request one answer.
type example struct {
	args   string // with spaces between
	status int    // of the answer; 0: 200
	kind   string // its media type; empty: JSON
	answer string
	code   int
	out    string // all of standard output
	errs   string // parts of standard error, with | between; empty: there is none
}

// examples runs them, and the arguments before each. The answers have more headers.
func examples(t *testing.T, before string, cases map[string]example, header ...string) {
	t.Helper()
	table.Run(t, cases, func(t *testing.T, x example) {
		server := always(t, cmp.Or(x.status, http.StatusOK), cmp.Or(x.kind, "application/json"), x.answer, header...)
		code, out, errs := command(t, append(strings.Fields(before+" "+x.args), "--server", server)...)
		assert.Equal(t, x.code, code, errs)
		assert.Equal(t, x.out, out)
		assert.Equal(t, x.errs == "", errs == "", errs)
		for part := range strings.SplitSeq(x.errs, "|") {
			assert.Contains(t, errs, part)
		}
		assert.NotContains(t, errs, "\x1b")
	})
}
