package githttp

import (
	"context"
	"io"
	"maps"
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
	Asked
	w      http.ResponseWriter
	body   *Body
	limit  int64
	letGo  func()
	header http.Header

	mu    sync.Mutex
	open  bool // Open was called, and Close was not
	begun bool
}

// Asked is what the client of a push can read, and about which ref.
type Asked struct {
	Ref              string
	Report, SideBand bool
}

// NewAnswer returns an answer to w. letGo waits until nothing else reads the body or
// calls Progress; limit is the most that is read of a refused push, in bytes.
func NewAnswer(w http.ResponseWriter, asked Asked, body *Body, limit int64, letGo func()) *Answer {
	return &Answer{Asked: asked, w: w, body: body, limit: limit, letGo: letGo}
}

// Open lets progress through. From here on the headers that were set so far belong to
// the answer, and Header returns those that a refusal has.
func (a *Answer) Open() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.header = a.w.Header().Clone()
	a.open = true
}

// Progress shows the client text of git's, if it has a band for that. The text is dropped while
// the client still sends, and after the answer has ended.
func (a *Answer) Progress(text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.SideBand || !a.open || !a.body.Whole() || len(text) == 0 {
		return
	}
	a.begin(0)
	_, _ = a.w.Write(gitwire.AppendProgress(nil, text)) // the client is gone if this fails
	_ = http.NewResponseController(a.w).Flush()
}

func (a *Answer) begin(length int) {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", gitwire.ResultType(schemas.GitReceivePack))
	if length > 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	a.w.WriteHeader(http.StatusOK)
}

// Close ends progress. It returns when nothing else touches the request any more, and
// reports whether the answer has begun: then all that can follow is Report.
func (a *Answer) Close() (begun bool) {
	a.letGo()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = false
	return a.begun
}

// Report ends the answer with what git's client reads there. The client is heard out first: while
// it sends, it does not listen.
func (a *Answer) Report(data []byte) {
	a.Close()
	a.body.Drain(a.limit)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(len(data))
	_, _ = a.w.Write(data) // the client is gone if this fails
}

// Header are those of a refusal.
func (a *Answer) Header() http.Header {
	if a.header == nil {
		return a.w.Header()
	}
	return a.header
}

// WriteHeader begins a refusal. Close has returned false.
func (a *Answer) WriteHeader(status int) {
	if a.header != nil {
		h := a.w.Header()
		clear(h)
		maps.Copy(h, a.header)
	}
	a.w.WriteHeader(status)
}

// Write writes the body of a refusal.
func (a *Answer) Write(data []byte) (int, error) { return a.w.Write(data) }

// Unwrap is for http.ResponseController.
func (a *Answer) Unwrap() http.ResponseWriter { return a.w }

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
