//go:build e2e

package corpus_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// heard is what came back on a connection.
type heard struct {
	status int // 0: nothing did
	header http.Header
	body   string
	closed bool // the connection was ended
	took   time.Duration
}

// inboundPatience bounds one exchange.
const inboundPatience = 90 * time.Second

func (g *gateway) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(inboundPatience)))
	tcp, ok := c.(*net.TCPConn)
	require.True(t, ok)
	return tcp
}

// send writes bytes on a connection of their own and hears the answer.
func (g *gateway) send(t *testing.T, raw string) heard {
	t.Helper()
	c := g.dial(t)
	go func() { _, _ = io.WriteString(c, raw) }() // ends with the connection
	method, _, _ := strings.Cut(raw, " ")
	began := time.Now()
	h := hear(t, c, method)
	h.took = time.Since(began)
	require.NoError(t, c.Close())
	return h
}

// hear reads one answer. A connection that says that it ends must end.
func hear(t *testing.T, c net.Conn, method string) heard {
	t.Helper()
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "neither an answer nor an end")
		return heard{closed: true}
	}
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	h := heard{status: resp.StatusCode, header: resp.Header, body: string(data)}
	if resp.Close {
		_, err := io.Copy(io.Discard, r)
		h.closed = !errors.Is(err, os.ErrDeadlineExceeded)
		require.True(t, h.closed, "said to end, and did not")
	}
	return h
}

// code is that of an error, in the shape of its surface's contract.
func (h heard) code(t *testing.T) string {
	t.Helper()
	var doc struct {
		Type    string          `json:"type"`
		Title   string          `json:"title"`
		Code    string          `json:"code"`
		Status  json.RawMessage `json:"status"`
		Outputs json.RawMessage `json:"outputs"`
		OK      *bool           `json:"ok"`
		Error   *struct {
			Variant  string          `json:"variant"`
			Message  string          `json:"message"`
			Code     json.RawMessage `json:"code"`
			Metadata struct {
				Code   string `json:"code"`
				Status int    `json:"status"`
			} `json:"metadata"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(h.body), &doc), "an error without a contract: %q", cut(h.body))
	if doc.Outputs != nil {
		require.Equal(t, "application/json", h.header.Get("Content-Type"))
		var refused schemas.RunRefusal
		strict := json.NewDecoder(strings.NewReader(h.body))
		strict.DisallowUnknownFields()
		require.NoError(t, strict.Decode(&refused), cut(h.body))
		require.Contains(t, h.body, `"ok":false`)
		require.Equal(t, schemas.RunFault, refused.Status)
		require.JSONEq(t, `{}`, string(refused.Outputs))
		require.Equal(t, []string{}, refused.Warnings)
		require.NotEmpty(t, refused.Error.Code)
		require.NotEmpty(t, refused.Error.Message)
		require.NotContains(t, h.body, "null")
		return string(refused.Code)
	}
	if doc.OK != nil {
		return h.agent(t).Error.code()
	}
	if doc.Error != nil {
		require.Equal(t, "application/json", h.header.Get("Content-Type"))
		require.NotEmpty(t, doc.Error.Message)
		if doc.Error.Metadata.Code != "" {
			require.Equal(t, h.status, doc.Error.Metadata.Status, "a refusal of a completion, in its own words")
			return doc.Error.Metadata.Code
		}
		require.NotEmpty(t, doc.Error.Variant)
		return strings.Trim(string(doc.Error.Code), `"`)
	}
	require.Equal(t, "application/problem+json", h.header.Get("Content-Type"))
	require.Equal(t, itoa(h.status), string(doc.Status))
	require.NotEmpty(t, doc.Type)
	require.NotEmpty(t, doc.Title)
	return doc.Code
}

// matches compares with a class such as "4xx|close".
func (h heard) matches(class string) bool {
	for want := range strings.SplitSeq(class, "|") {
		switch {
		case want == "close":
			if h.closed {
				return true
			}
		case h.status == 0:
		case strings.HasSuffix(want, "xx"):
			if h.status/100 == int(want[0]-'0') {
				return true
			}
		case itoa(h.status) == want:
			return true
		}
	}
	return false
}
