package outbound

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"time"

	"weir/schemas"
)

// flow is a body as it comes over the wire.
type flow struct {
	x      *exchange
	idle   time.Duration
	limit  int64
	whole  bool // it is read at once: the time of the phase bounds all of it, and idle nothing
	keep   bool // its connection waits for another request after it
	unread bool // its coding is unknown
	got    int64
	err    error // the final error
}

// Read reads what there is, and waits for no more than idle. Its errors are io.EOF
// and *fault.Call, and may come with bytes.
func (f *flow) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.declared() > f.limit {
		f.err = f.x.fail(schemas.UpstreamTooLarge, errBodyBytes)
		return 0, f.err
	}
	if f.x.ctx.Err() != nil { // buffered bytes are not read any more
		f.err = f.x.fail(schemas.Canceled, errLeft)
		return 0, f.err
	}
	inTime := true
	if !f.whole {
		f.x.within(f.idle)
	}
	n, err := f.x.resp.Body.Read(p)
	if !f.whole {
		inTime = f.x.within(0)
	}
	f.got += int64(n)
	switch {
	case f.unread && n > 0: // without a body there is nothing to decode
		n, err = 0, f.x.fail(schemas.UpstreamEncoding, errCoding)
	case f.got > f.limit:
		n -= int(f.got - f.limit)
		err = f.x.fail(schemas.UpstreamTooLarge, errBodyBytes)
	case errors.Is(err, io.EOF):
		err = io.EOF
	case err != nil:
		err = f.x.bodyFailure(err)
	case !inTime: // it came as the time ran out, which has ended the connection
		err = f.x.fail(schemas.UpstreamTimeout, errPhaseTime)
	}
	f.err = err
	return n, err
}

// declared is the length of the body that the upstream announced; less than zero without one.
func (f *flow) declared() int64 {
	if f.x.resp.Request.Method == http.MethodHead {
		return 0
	}
	return f.x.resp.ContentLength
}

// ended reports whether the message was read to its end.
func (f *flow) ended() bool { return errors.Is(f.err, io.EOF) }

// failed is what broke the message off; nil: nothing has.
func (f *flow) failed() error {
	if f.ended() {
		return nil
	}
	return f.err
}

// unzipped is a body that came as gzip. Flushed bytes can be read at once.
type unzipped struct {
	from *flow
	zip  *gzip.Reader
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.zip == nil {
		zip, err := gzip.NewReader(u.from) // EOF of nothing at all
		if err != nil {
			return 0, err
		}
		u.zip = zip
	}
	return u.zip.Read(p)
}
