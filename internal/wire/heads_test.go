package wire

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeads(t *testing.T) {
	t.Parallel()
	const noLength = "the length of the body cannot be read"
	long, blank := strings.Repeat("x", 5000), strings.Repeat(" ", 130)
	for name, tc := range map[string]struct{ raw, why string }{
		"plain":                        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		"a body":                       {"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nbGET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		"a body of lines":              {"POST / HTTP/1.1\r\nContent-Length: 24\r\n\r\nContent-Length: 1\n \n\n\n\n\nGET / HTTP/1.1\r\n\r\n", ""},
		"chunked":                      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n", ""},
		"blank lines between":          {"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx\r\nGET / HTTP/1.1\r\n\r\n", ""},
		"HTTP/1.0":                     {"GET / HTTP/1.0\r\n\r\n", ""},
		"a value that looks like one":  {"GET / HTTP/1.1\r\nX: Content-Length: 1\r\nContent-Length-X: 1\r\nTransfer-Encoding-X: 1\r\n\r\n", ""},
		"coding and length":            {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "the body has both a length and a transfer coding"},
		"length and coding":            {"POST / HTTP/1.1\r\ncontent-LENGTH:3\r\ntransfer-encoding:chunked\r\n\r\n", "the body has both a length and a transfer coding"},
		"both, in the second":          {"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabPOST / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", "the body has both a length and a transfer coding"},
		"both, behind long lines":      {"POST /" + long + " HTTP/1.1\r\nX: " + long + "\r\nContent-Length: 3\r\nTransfer-Encoding: " + long + "\r\n\r\n", "the body has both a length and a transfer coding"},
		"coding in HTTP/1.0":           {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 knows no transfer coding"},
		"coding in HTTP/1.0, far away": {"POST /" + long + " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 knows no transfer coding"},
		"two equal lengths":            {"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", "the length of the body appears more than once"},
		"folded":                       {"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", "a header field is folded over several lines"},
		"folded by a tab":              {"GET / HTTP/1.1\r\nX: a\r\n\tb\r\n\r\n", "a header field is folded over several lines"},
		"bare LF":                      {"GET / HTTP/1.1\nHost: a\n\n", "a line ends without a carriage return"},
		"bare LF at the end":           {"GET / HTTP/1.1\r\nHost: a\r\n\n", "a line ends without a carriage return"},
		"a length behind spaces":       {"POST / HTTP/1.1\r\nContent-Length:" + blank + "5\r\n\r\n", noLength},
		"a length behind tabs":         {"POST / HTTP/1.1\r\nContent-Length:" + strings.Repeat("\t", 130) + "5\r\n\r\n", noLength},
		"a length before spaces":       {"POST / HTTP/1.1\r\nContent-Length: 5" + blank + "\r\n\r\n", noLength},
		"a length behind zeros":        {"POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat("0", 130) + "5\r\n\r\n", noLength},
		"a few zeros":                  {"POST / HTTP/1.1\r\nContent-Length: 0001\r\n\r\n\nGET / HTTP/1.1\r\n\r\n", ""},
		"no length":                    {"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", noLength},
		"a length with a sign":         {"POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n", noLength},
		"a list of lengths":            {"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n", noLength},
		"a length too large":           {"POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n", noLength},
		"a long line before a length":  {"POST / HTTP/1.1\r\nX: " + long + "\r\nContent-Length: 1\r\n\r\n\nGET / HTTP/1.1\r\n\r\n", ""},
		"CRs before HTTP/1.0":          {"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n\r\r\nPOST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 knows no transfer coding"},
		"bare LF after a long line":    {"GET /" + long + " HTTP/1.1\n", "a line ends without a carriage return"},
	} {
		for _, step := range []int{1, 2, 3, 7, 100_000} {
			var h heads
			for raw := tc.raw; raw != ""; {
				n := min(step, len(raw))
				h.see([]byte(raw[:n]))
				raw = raw[n:]
			}
			require.Equal(t, tc.why, h.bad(), "%s, %d bytes at a time", name, step)
		}
	}
}

// FuzzHeadsBesideNetHTTP: where net/http reads another length of a body, or a
// coding, the verdict is bad. Else requests could hide behind the difference.
func FuzzHeadsBesideNetHTTP(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.0\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat("0", 130) + "5\r\n\r\nabcde")
	f.Add("POST / HTTP/1.1\r\nContent-Length: " + strings.Repeat(" ", 130) + "5\r\n\r\nabcde")
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding: " + strings.Repeat(" ", 130) + "chunked\r\n\r\n0\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\n\r\n\r\r\nPOST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\nContent-Length: 1\r\n\r\nx")
	f.Fuzz(func(t *testing.T, raw string) {
		var h heads
		src := strings.NewReader(raw)
		buf := bufio.NewReader(src)
		for fed, method := 0, ""; ; {
			if method == http.MethodPost { // as net/http's server does
				for range 4 {
					if c, err := buf.Peek(1); err == nil && (c[0] == '\r' || c[0] == '\n') {
						_, _ = buf.Discard(1)
					}
				}
			}
			req, err := http.ReadRequest(buf)
			if err != nil {
				return
			}
			at := len(raw) - src.Len() - buf.Buffered()
			h.see([]byte(raw[fed:at]))
			if h.done {
				return
			}
			if len(req.TransferEncoding) > 0 || h.lines > 0 || len(h.line) > 0 {
				t.Fatalf("not seen: %q", raw[fed:at])
			}
			if req.ContentLength < 0 {
				return // the preface of HTTP/2, behind which nothing is read
			}
			if h.body != uint64(req.ContentLength) {
				t.Fatalf("%d bytes, for net/http %d: %q", h.body, req.ContentLength, raw[fed:at])
			}
			n, err := io.Copy(io.Discard, req.Body)
			if err != nil {
				return
			}
			h.see([]byte(raw[at : at+int(n)]))
			fed, method = at+int(n), req.Method
		}
	})
}

func TestSeeingCostsNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun forbids it
	raw := []byte("POST /v1/execute HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	var h heads
	h.see(raw)
	require.Zero(t, testing.AllocsPerRun(100, func() { h.see(raw) }))
}
