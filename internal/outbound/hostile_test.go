package outbound_test

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

const ok200 = "HTTP/1.1 200 OK\r\n"

// badAnswer is what an upstream does, and what a call that reads it fails with.
type badAnswer struct {
	behaviour upstream.Behaviour
	code      schemas.Code
	status    int
}

func badAnswers() map[string]badAnswer {
	return map[string]badAnswer{
		"infinite body":              {upstream.InfiniteBody(), schemas.UpstreamTooLarge, 200},
		"infinite chunks":            {upstream.InfiniteChunked(), schemas.UpstreamTooLarge, 200},
		"one byte over":              {upstream.BodyBytes(bodyLimit + 1), schemas.UpstreamTooLarge, 200},
		"far over, by its own word":  {upstream.RawOpen(ok200 + "Content-Length: 99999999999\r\n\r\n"), schemas.UpstreamTooLarge, 200},
		"bomb":                       {upstream.GzipBomb(1 << 26), schemas.UpstreamTooLarge, 200},
		"compressed nothing":         {upstream.GzipEmptyMembers(), schemas.UpstreamTooLarge, 200},
		"gzip cut":                   {upstream.GzipTruncated(), schemas.UpstreamEncoding, 200},
		"gzip and garbage":           {upstream.GzipTrailingGarbage(), schemas.UpstreamEncoding, 200},
		"gzip that is none":          {upstream.Encoding("gzip", "plain text"), schemas.UpstreamEncoding, 200},
		"gzip with a wrong checksum": {upstream.Encoding("gzip", wrongSum()), schemas.UpstreamEncoding, 200},
		"two coding fields":          {upstream.Respond(200, upstream.Compress("x"), upstream.Header("Content-Encoding", "gzip"), upstream.Header("Content-Encoding", "gzip")), schemas.UpstreamEncoding, 200},
		"zstd":                       {upstream.Encoding("zstd", "x"), schemas.UpstreamEncoding, 200},
		"gzip cut by the connection": {upstream.LyingLengthOf("Content-Encoding: gzip\r\n", 500, upstream.Compress("text")), schemas.UpstreamTruncated, 200},
		"length over the body":       {upstream.LyingLength(10, "hello"), schemas.UpstreamTruncated, 200},
		"chunks without end":         {upstream.ChunkedNoTerminator(), schemas.UpstreamTruncated, 200},
		"no last line after chunks":  {upstream.Raw(ok200 + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"), schemas.UpstreamTruncated, 200},
		"truncated failure":          {upstream.Raw("HTTP/1.1 503 No\r\nContent-Length: 10\r\n\r\nhello"), schemas.UpstreamTruncated, 503},
		"reset in the body":          {upstream.ResetMidBody(), schemas.UpstreamTruncated, 200},
		"reset":                      {upstream.ResetBeforeResponse(), schemas.UpstreamReset, 0},
		"closed":                     {upstream.CloseBeforeResponse(), schemas.UpstreamReset, 0},
		"closed in the headers":      {upstream.Raw(ok200 + "Content-Le"), schemas.UpstreamReset, 0},
		"two lengths":                {upstream.Raw(ok200 + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nok"), schemas.UpstreamProtocol, 0},
		"chunk size that is none":    {upstream.Raw(ok200 + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), schemas.UpstreamProtocol, 200},
		"unknown transfer coding":    {upstream.Raw(ok200 + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"version 9.9":                {upstream.Raw("HTTP/9.9 200 OK\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"status that is no number":   {upstream.Raw("HTTP/1.1 abc OK\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"status 999":                 {upstream.Raw("HTTP/1.1 999 OK\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"TLS on a plain port":        {upstream.Raw("\x16\x03\x01\x02\x00"), schemas.UpstreamProtocol, 0},
		"another protocol":           {upstream.Raw("SSH-2.0-OpenSSH_9.6\r\n"), schemas.UpstreamProtocol, 0},
		"another protocol, reset": {upstream.Answer(func(x *upstream.Exchange) {
			x.Write("+PONG")
			x.Reset()
		}), schemas.UpstreamProtocol, 0},
		"reset after an interim answer": {upstream.Answer(func(x *upstream.Exchange) {
			x.Write("HTTP/1.1 103 Early Hints\r\n\r\n")
			x.Reset()
		}), schemas.UpstreamReset, 0},
		"closed in the headers after an interim answer": {upstream.Raw("HTTP/1.1 103 Early Hints\r\n\r\n" + ok200 + "Content-Le"), schemas.UpstreamReset, 0},
		"header without colon":                          {upstream.Raw(ok200 + "NoColonHere\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"space before a colon":                          {upstream.Raw(ok200 + "X-A : b\r\nContent-Length: 0\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"switched protocols":                            {upstream.RawOpen("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), schemas.UpstreamProtocol, 0},
		"one long header":                               {upstream.HeaderBytes(10 << 20), schemas.UpstreamHeadersTooLarge, 0},
		"a header just over":                            {upstream.HeaderBytes(64<<10 + 1), schemas.UpstreamHeadersTooLarge, 200},
		"endless header":                                {upstream.EndlessHeader(), schemas.UpstreamHeadersTooLarge, 0},
		"endless status line":                           {upstream.RawOpen("HTTP/1.1 200 " + strings.Repeat("O", 128<<10)), schemas.UpstreamHeadersTooLarge, 0},
		"many headers":                                  {upstream.HeaderCount(300), schemas.UpstreamHeadersTooLarge, 200},
		"interim answers":                               {upstream.InformationalFlood(100_000), schemas.UpstreamHeadersTooLarge, 0},
		"long trailer":                                  {upstream.TrailerBytes(10 << 20), schemas.UpstreamHeadersTooLarge, 200},
	}
}

// TestHostileUpstream: whatever an upstream does, one call is one request, the code says what happened, and a status that
// came is kept. What is wrong is told by the same word whether an answer is read whole or as it comes.
func TestHostileUpstream(t *testing.T) {
	t.Parallel()
	r := outbound.Request{Body: []byte(`{"a":1}`), IdempotencyKey: "k"}
	for name, c := range badAnswers() {
		for _, streamed := range []bool{false, true} {
			t.Run(name+", streamed "+strconv.FormatBool(streamed), func(t *testing.T) {
				t.Parallel()
				s, cl := upstream.New(t, c.behaviour), client(t, outbound.Config{MaxBodyBytes: bodyLimit})
				var err error
				if streamed {
					var got *outbound.Stream
					if got, err = stream(t, cl, s, http.MethodPost, "/x", r, outbound.StreamLimits{}); err == nil {
						assert.Equal(t, c.status, got.Status, "an answer whose headers came has its status")
						_, err = io.Copy(io.Discard, got)
						_, again := got.Read(make([]byte, 1))
						assert.Equal(t, err, again, "it stays so")
					}
				} else {
					_, err = call(t, cl, s, http.MethodPost, "/x", r)
				}
				got := failure(t, err, c.code, true)
				if c.code != schemas.UpstreamProtocol || c.status != 0 { // whether the status line made sense differs
					assert.Equal(t, c.status, got.Status)
				}
				s.WaitHits(1)
				s.WaitIdle()
				assert.Equal(t, []int{1, 1}, []int{s.Hits(), s.Accepted()})
				assert.Equal(t, map[bool]string{false: "gzip", true: "identity"}[streamed], s.Ledger()[0].Header("Accept-Encoding"))
			})
		}
	}
}

const bodyLimit = 1 << 20

func wrongSum() string {
	whole := []byte(upstream.Compress("text"))
	whole[len(whole)-8] ^= 1
	return string(whole)
}

// oddAnswer looks odd and is in order.
type oddAnswer struct {
	behaviour upstream.Behaviour
	method    string
	status    int
	body      string
}

func oddAnswers() map[string]oddAnswer {
	return map[string]oddAnswer{
		"exactly the limit":             {behaviour: upstream.BodyBytes(bodyLimit), status: 200, body: strings.Repeat("x", bodyLimit)},
		"exactly the limit, compressed": {behaviour: upstream.GzipBomb(bodyLimit), status: 200, body: strings.Repeat("\x00", bodyLimit)},
		"exactly the limit of headers":  {behaviour: upstream.HeaderBytes(64<<10 - 64), status: 200, body: "ok"},
		"two members":                   {behaviour: upstream.Encoding("gzip", upstream.Compress("one ")+upstream.Compress("two")), status: 200, body: "one two"},
		"unknown coding of nothing":     {behaviour: upstream.Encoding("zstd", ""), status: 200},
		"gzip of nothing at all":        {behaviour: upstream.Encoding("gzip", ""), status: 200},
		"gzip of the empty text":        {behaviour: upstream.Gzip(""), status: 200},
		"a second answer":               {behaviour: upstream.Raw(ok200 + "Content-Length: 2\r\n\r\nok" + ok200 + "Content-Length: 6\r\n\r\nforged"), status: 200, body: "ok"},
		"length below the body":         {behaviour: upstream.LyingLength(2, "okay"), status: 200, body: "ok"},
		"until the connection ends":     {behaviour: upstream.Raw(ok200 + "\r\nto the end"), status: 200, body: "to the end"},
		"version 1.0":                   {behaviour: upstream.Raw("HTTP/1.0 200 OK\r\n\r\nold"), status: 200, body: "old"},
		"chunks":                        {behaviour: upstream.Raw(ok200 + "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n"), status: 200, body: "ok"},
		"a trailer":                     {behaviour: upstream.TrailerBytes(10), status: 200, body: "ok"},
		"some interim answers":          {behaviour: upstream.InformationalFlood(20), status: 200, body: "ok"},
		"204":                           {behaviour: upstream.Respond(204, ""), status: 204},
		"304 with a length":             {behaviour: upstream.Raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"), status: 304},
		"HEAD":                          {behaviour: upstream.Respond(200, "never sent"), method: http.MethodHead, status: 200},
		"HEAD of something large":       {behaviour: upstream.BodyBytes(bodyLimit * 2), method: http.MethodHead, status: 200},
		"a redirect":                    {behaviour: upstream.Redirect(302, "/next"), status: 302},
		"a failure with a body":         {behaviour: upstream.Respond(500, "<html>"), status: 500, body: "<html>"},
		"early, then closed":            {behaviour: upstream.Early(func(x *upstream.Exchange) { x.Write(upstream.Message("", 413, "large")) }), status: 413, body: "large"},
	}
}

func TestOddButWhole(t *testing.T) {
	t.Parallel()
	for name, c := range oddAnswers() {
		for _, streamed := range []bool{false, true} {
			t.Run(name+", streamed "+strconv.FormatBool(streamed), func(t *testing.T) {
				t.Parallel()
				s := upstream.New(t, c.behaviour)
				cl, method := client(t, outbound.Config{MaxBodyBytes: bodyLimit}), cmp.Or(c.method, http.MethodGet)
				var got outbound.Response
				if streamed {
					answer, err := stream(t, cl, s, method, "/x", outbound.Request{}, outbound.StreamLimits{})
					require.NoError(t, err)
					got.Status = answer.Status
					got.Body, err = io.ReadAll(answer)
					require.NoError(t, err)
					_, err = answer.Read(make([]byte, 1))
					require.Equal(t, io.EOF, err, "the end stays the end")
				} else {
					whole, err := call(t, cl, s, method, "/x", outbound.Request{})
					require.NoError(t, err)
					got = *whole
				}
				assert.Equal(t, c.status, got.Status)
				assert.Equal(t, c.body, string(got.Body))
				s.WaitIdle() // without a Close: nothing is held after the end
				assert.Equal(t, 1, s.Hits(), "nothing is followed or sent again")
			})
		}
	}
}

// TestNobodyReads: the body cannot be sent to the end; the time limit of the
// headers covers the sending too.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.AcceptHang())
	_, err := call(t, client(t, outbound.Config{HeaderTimeout: moment}), s, http.MethodPost, "/", outbound.Request{Body: make([]byte, 16<<20)})
	timedOut(t, err, 0)
}
