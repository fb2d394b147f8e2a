package githttp_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/githttp"
)

// A client that sends a lot hears why it is refused, however it asks for the connection.
func TestARefusalIsHeard(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		githttp.Refuse(w, r, func() { http.Error(w, "no", http.StatusRequestEntityTooLarge) })
	}))
	t.Cleanup(server.Close)
	data := make([]byte, 20<<20)
	for _, closing := range []bool{false, true} {
		transport := &http.Transport{DisableKeepAlives: closing}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		for _, body := range []func() io.Reader{
			func() io.Reader { return bytes.NewReader(data) },
			func() io.Reader { return io.MultiReader(bytes.NewReader(data)) },
			func() io.Reader { return strings.NewReader("abc") },
			func() io.Reader { return http.NoBody },
		} {
			for range 3 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body())
				require.NoError(t, err)
				resp, err := client.Do(r)
				require.NoError(t, err)
				require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
		}
	}
}

func TestARefusalAsksForNothing(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 1<<20)))
	r.Header.Set("Expect", "100-continue")
	w := httptest.NewRecorder()
	githttp.Refuse(w, r, func() { w.WriteHeader(http.StatusForbidden) })
	left, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Len(t, left, 1<<20, "the client waits for leave to send")
}
