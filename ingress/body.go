package ingress

import (
	"bytes"
	"cmp"
	"context"
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
func (s *Server) Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return s.ReadUpTo(w, r, s.cfg.MaxBody, s.cfg.Limits)
}

// MaxBody is the largest body in bytes that Read takes.
func (s *Server) MaxBody() int64 { return s.cfg.MaxBody }

// ReadUpTo is Read with bounds of its own; zero limits are the server's.
func (s *Server) ReadUpTo(w http.ResponseWriter, r *http.Request, most int64, limits strict.Limits) ([]byte, error) {
	if limits == (strict.Limits{}) {
		limits = s.cfg.Limits
	}
	if err := plain(w, r.Header); err != nil {
		return nil, err
	}
	wrong := mediaType(r.Header)
	if wrong != nil && len(r.Header.Values("Content-Type")) > 0 {
		return nil, wrong
	}
	body, err := s.bytes(w, r, most)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err // without a media type, a framing error is reported first
	}
	return body, strict.Check(body, limits)
}

// ReadBytes takes the body of a request whatever it is, up to most bytes; key is the
// configuration key that sets the limit.
func (s *Server) ReadBytes(w http.ResponseWriter, r *http.Request, most int64, key string) ([]byte, error) {
	body, err := s.bytes(w, r, most)
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.PayloadTooLarge {
		err = fault.New(schemas.PayloadTooLarge, "the body is larger than "+strconv.FormatInt(most, 10)+" bytes, the limit "+key+" of the configuration; send less")
	}
	return body, err
}

// Decode is Read into a document of Weir's own, whose members are all known.
func (s *Server) Decode(c *gin.Context, into any) error {
	body, err := s.Read(c.Writer, c.Request)
	if err != nil {
		return err
	}
	return strict.Decode(body, into)
}

// plain refuses a body that must be decoded first, in whatever coding: a few
// bytes could become any number of them.
func plain(w http.ResponseWriter, h http.Header) error {
	if len(h.Values("Content-Encoding")) == 0 {
		return nil
	}
	w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 15.5.16
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

// bytes reads a body to its limit and within its time. A length that is over
// the limit is refused before a byte is read, and before a 100 is sent.
func (s *Server) bytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(w, limit)
	}
	if body, ok := r.Body.(Reserver); ok {
		if err := body.Reserve(r.Context(), announced(r, limit)); err != nil {
			w.Header().Set("Connection", "close") // the rest of the body is not read
			return nil, err
		}
	}
	within(w, s.cfg.BodyTimeout)
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case n > limit:
		return nil, tooLarge(w, limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, fault.New(schemas.RequestTimeout, "the body did not come in time; send the request again")
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, &fault.Error{Code: schemas.InvalidRequest, Message: "the body could not be read to its end; send the request again", Cause: err}
	}
	return buf.Bytes(), nil
}

// Reserver is a request's body that must reserve room for the bytes that it may have before
// the first is read. If Reserve fails, the request is refused and its connection closed.
type Reserver interface {
	Reserve(ctx context.Context, n int64) error
}

// announced is how large a body will be at most, decompressed.
func announced(r *http.Request, limit int64) int64 {
	if r.ContentLength >= 0 && len(r.Header["Content-Encoding"]) == 0 {
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

// tooLarge also closes the connection, because the rest of the body is not read.
func tooLarge(w http.ResponseWriter, limit int64) error {
	w.Header().Set("Connection", "close")
	return fault.New(schemas.PayloadTooLarge, "the body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
}

// ReadNothing accepts a request without a body, or with an empty object.
func (s *Server) ReadNothing(w http.ResponseWriter, r *http.Request) error {
	return s.ReadMaybe(w, r, &struct{}{})
}

// ReadMaybe decodes the body of a request that may have none.
func (s *Server) ReadMaybe(w http.ResponseWriter, r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return nil
	}
	if len(r.Header.Values("Content-Type")) == 0 {
		if err := plain(w, r.Header); err != nil {
			return err
		}
		body, err := s.bytes(w, r, s.cfg.MaxBody)
		if err == nil && len(body) > 0 {
			return fault.New(schemas.InvalidRequest, "this route takes no body")
		}
		return err
	}
	body, err := s.Read(w, r)
	if err != nil {
		return err
	}
	return strict.Decode(body, into)
}
