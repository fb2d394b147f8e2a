package githttp

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"weir/internal/gitwire"
	"weir/schemas"
)

// Answer is the answer to a push. It begins with the first progress that is shown,
// and that is not before the client has sent everything: until then it can still be
// a refusal with any status. Progress is for any goroutine, the rest for the handler's.
type Answer struct {
	http.ResponseWriter
	Asked
	body   *Body
	limit  int64
	upload *Upload

	mu     sync.Mutex
	out    *Stream
	closed bool

	drained bool
}

// Asked is what the client of a push can read, and about which refs.
type Asked struct {
	Ref              string
	Others           []string // refs of the same push
	Report, SideBand bool
}

// NewAnswer returns an answer to w, and the upload of the push's body, whose progress it shows. Limit is the most that
// is read of a refused push, in bytes.
func NewAnswer(w http.ResponseWriter, asked Asked, body *Body, limit int64) (*Answer, *Upload) {
	u := &Upload{Body: body}
	a := &Answer{
		ResponseWriter: w, Asked: asked, body: body, limit: limit, upload: u,
		out: NewStream(w, gitwire.ResultType(schemas.GitReceivePack)),
	}
	u.Progress = a.Progress
	return a, u
}

// Progress shows the client text of git's, if it has a band for that. The text is dropped while
// the client still sends, and after the answer has ended.
func (a *Answer) Progress(text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.SideBand && !a.closed && a.body.Whole() {
		_, _ = a.out.Write(gitwire.AppendProgress(nil, text)) // the client is gone if this fails
	}
}

// Close ends progress. It returns when nothing else touches the request any more, and
// reports whether the answer has begun: then all that can follow is Report.
func (a *Answer) Close() (begun bool) {
	a.upload.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.out.Begun()
}

// Heard reads what is left of the body, to the limit, and reports whether that is all: a client that still sends
// reads no report of git's, but shows an error.
func (a *Answer) Heard() bool {
	a.Close()
	if !a.drained {
		a.drained = true
		a.body.Drain(a.limit)
	}
	return a.body.Whole()
}

// Report ends the answer with what git's client reads there. The client is heard out first: while
// it sends, it does not listen.
func (a *Answer) Report(data []byte) {
	a.Heard()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.out.Begun() && len(data) > 0 {
		a.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	a.out.Begin()
	_, _ = a.Write(data) // the client is gone if this fails
}

// Unwrap is for http.ResponseController.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Upload is what the client of a push sends, on its way to the executor of the action, which has
// it from its context: it never goes to the log.
type Upload struct {
	// Body is what the client sends. It fails when the client is gone.
	Body io.Reader
	// Progress receives what the client can see while the push goes on.
	Progress func([]byte)

	taken   atomic.Bool
	reading sync.WaitGroup
}

type uploadKey struct{}

// In returns a context that carries the upload.
func (u *Upload) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, uploadKey{}, u)
}

// TakeUpload returns the upload of a context, once, and nil if there is none or it was taken.
func TakeUpload(ctx context.Context) *Upload {
	u, _ := ctx.Value(uploadKey{}).(*Upload)
	if u == nil || u.taken.Swap(true) {
		return nil
	}
	return u
}

// Receive has read read the body, and returns its error or the cause of ctx's end, whichever comes
// first: a client may send nothing for long. Read may then go on until the client sends more.
func (u *Upload) Receive(ctx context.Context, read func(io.Reader) error) error {
	done := make(chan error, 1)
	u.reading.Go(func() { done <- read(u.Body) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait returns when nothing reads the body any more.
func (u *Upload) Wait() { u.reading.Wait() }

// Stream is an answer of 200 that begins with its first byte, and holds nothing back.
type Stream struct {
	w         http.ResponseWriter
	mediaType string
	begun     bool
}

// NewStream returns an answer to w.
func NewStream(w http.ResponseWriter, mediaType string) *Stream {
	return &Stream{w: w, mediaType: mediaType}
}

// Begun reports whether the answer has begun.
func (s *Stream) Begun() bool { return s.begun }

// Begin begins the answer, unless it has begun.
func (s *Stream) Begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.mediaType)
		s.w.WriteHeader(http.StatusOK)
	}
}

// Write sends p at once.
func (s *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.Begin()
	n, err := s.w.Write(p)
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	return n, err
}
