package ingress

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// Read takes the body of a request by the rules that all surfaces
// share: media type, encoding, size, time, and strict JSON.
func (s *Server) Read(c *gin.Context) ([]byte, error) {
	return s.ReadUpTo(c, s.cfg.MaxBody, strict.Limits{})
}

// MaxBody is the largest body in bytes that Read takes.
func (s *Server) MaxBody() int64 { return s.cfg.MaxBody }

// ReadUpTo is Read with bounds of its own.
func (s *Server) ReadUpTo(c *gin.Context, most int64, limits strict.Limits) ([]byte, error) {
	if len(c.Request.Header["Content-Encoding"]) > 0 {
		return nil, encoded(c)
	}
	wrong := mediaType(c.Request.Header)
	if wrong != nil && len(c.Request.Header.Values("Content-Type")) > 0 {
		return nil, wrong
	}
	body, err := s.bytes(c, most)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err // without a media type, a framing error is reported first
	}
	return body, strict.Check(body, limits)
}

// Stream is the body of a request as it arrives, whatever it is, up to a limit in bytes, of which key is the
// configuration key. Each piece of spoolPiece has the time of a body. Its own errors and those of Read are public.
func (s *Server) Stream(c *gin.Context, limit int64, key string) (io.Reader, error) {
	in, err := s.arriving(c, limit, schemas.SpoolMemory, ", the limit "+key+" of the configuration; send less")
	if err == nil {
		in.more = func() { within(c.Writer, s.cfg.BodyTimeout) }
	}
	return in, err
}

// spoolPiece is how many bytes of a streamed body must arrive in the time of a body.
const spoolPiece = 1 << 20

// Decode is Read into a document of Weir's own, whose members are all known.
func (s *Server) Decode(c *gin.Context, into any) error {
	body, err := s.Read(c)
	if err != nil {
		return err
	}
	return strict.Decode(body, into)
}

// encoded refuses a body that must be decoded first, in whatever coding: a few
// bytes could become any number of them.
func encoded(c *gin.Context) error {
	c.Writer.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 15.5.16
	return fault.New(schemas.UnsupportedEncoding, "encoded bodies are not accepted; send it without Content-Encoding")
}

// mediaType accepts application/json alone, in UTF-8.
func mediaType(h http.Header) error {
	const want = "send Content-Type: application/json"
	fields := h.Values("Content-Type")
	if len(fields) != 1 {
		return fault.New(schemas.UnsupportedMediaType, "the media type is missing, or stands more than once; "+want)
	}
	media, params, err := mime.ParseMediaType(fields[0])
	if err != nil || media != "application/json" {
		return fault.New(schemas.UnsupportedMediaType, "the media type is not accepted; "+want)
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return fault.New(schemas.UnsupportedMediaType, "the media type may have no parameter but charset=utf-8; "+want)
		}
	}
	return nil
}

// bytes reads a whole body.
func (s *Server) bytes(c *gin.Context, limit int64) ([]byte, error) {
	hint := ""
	if limit == s.cfg.MaxBody {
		hint = ", the limit limits.body of the configuration; send less, or through /via/"
	}
	in, err := s.arriving(c, limit, limit, hint)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if n := c.Request.ContentLength; n > 0 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(in); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// arriving is a body that is read to its limit and within its time. A length that is over the limit is
// refused before a byte is read, and before a 100 is sent. memory is the most that it needs.
func (s *Server) arriving(c *gin.Context, limit, memory int64, hint string) (*arriving, error) {
	in := &arriving{w: c.Writer, from: c.Request.Body, limit: limit, hint: hint}
	if c.Request.ContentLength > limit {
		return nil, in.tooLarge()
	}
	if err := s.reserve(c, min(announced(c.Request, limit), memory)); err != nil {
		c.Writer.Header().Set("Connection", "close") // the rest of the body is not read
		return nil, err
	}
	within(c.Writer, s.cfg.BodyTimeout)
	return in, nil
}

// arriving is a body between its limits. Its errors are public.
type arriving struct {
	w          http.ResponseWriter
	from       io.Reader
	got, limit int64
	hint       string // after the size of the limit
	more       func() // allows the time for another piece; may be nil
}

// Read implements io.Reader. An error closes the connection, because the rest of the body is not read.
func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.from.Read(p[:min(int64(len(p)), b.limit-b.got+1)])
	if b.more != nil && (b.got+int64(n))/spoolPiece > b.got/spoolPiece {
		b.more()
	}
	b.got += int64(n)
	switch {
	case b.got > b.limit:
		return 0, b.tooLarge()
	case err == nil, err == io.EOF: //nolint:errorlint // an error that wraps it is no end
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fault.New(schemas.RequestTimeout, "the body did not come in time; send the request again")
	default:
		err = &fault.Error{Code: schemas.InvalidRequest, Message: "the body could not be read to its end; send the request again", Cause: err}
	}
	b.w.Header().Set("Connection", "close")
	return 0, err
}

func (b *arriving) tooLarge() error {
	b.w.Header().Set("Connection", "close")
	return fault.New(schemas.PayloadTooLarge, "the body is larger than "+strconv.FormatInt(b.limit, 10)+" bytes"+b.hint)
}

// announced is how large a body will be at most. None is decompressed.
func announced(r *http.Request, limit int64) int64 {
	if r.ContentLength >= 0 {
		return r.ContentLength
	}
	return limit
}

// within gives a body its time. net/http lifts the deadline once the body was
// read to its end, so that it does not end the wait for the answer. A recorder
// has none.
func within(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d))
}

// ReadNothing accepts a request without a body, or with an empty object.
func (s *Server) ReadNothing(c *gin.Context) error { return s.ReadMaybe(c, &struct{}{}) }

// ReadMaybe decodes the body of a request that may have none.
func (s *Server) ReadMaybe(c *gin.Context, into any) error {
	r := c.Request
	if r.ContentLength == 0 {
		return nil
	}
	if len(r.Header.Values("Content-Type")) == 0 {
		if len(r.Header["Content-Encoding"]) > 0 {
			return encoded(c)
		}
		body, err := s.bytes(c, s.cfg.MaxBody)
		if err == nil && len(body) > 0 {
			return fault.New(schemas.InvalidRequest, "this route takes no body")
		}
		return err
	}
	return s.Decode(c, into)
}
