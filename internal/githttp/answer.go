package githttp

import (
	"maps"
	"net/http"
	"strconv"
	"sync"

	"weir/internal/gitwire"
	"weir/schemas"
)

// maxHeld is what is kept of the progress that may not be shown yet.
const maxHeld = 64 << 10

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
	held  []byte
}

// Asked is what the client of a push can read, and about which ref.
type Asked struct {
	Ref              string
	Report, SideBand bool
}

// NewAnswer returns an answer to w. letGo waits until nobody else reads the body or
// calls Progress; limit is the most that is read of a push that nobody wants, in bytes.
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

// Progress shows the client text of git's, if it has a band for that. What comes too
// early is kept, as far as there is room, and what comes too late is dropped.
func (a *Answer) Progress(text []byte) {
	if !a.SideBand {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	text = text[:min(len(text), maxHeld)]
	if len(a.held)+len(text) <= maxHeld {
		a.held = append(a.held, text...)
	}
	if a.open && a.body.Whole() && len(a.held) > 0 {
		a.show()
	}
}

// show sends what is held.
func (a *Answer) show() {
	a.begin(0)
	_, _ = a.w.Write(gitwire.AppendProgress(nil, a.held)) // the client is gone if this fails
	_ = http.NewResponseController(a.w).Flush()
	a.held = nil
}

func (a *Answer) begin(length int) {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", ResultType(schemas.GitReceivePack))
	if length > 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	a.w.WriteHeader(http.StatusOK)
}

// Close ends progress. It returns when nobody else touches the request any more, and
// reports whether the answer has begun: then all that can follow is Report.
func (a *Answer) Close() (begun bool) {
	a.letGo()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = false
	return a.begun
}

// Report ends the answer with what git's client reads there, behind the progress that
// was kept. The client is heard out first: while it sends, it does not listen.
func (a *Answer) Report(data []byte) {
	a.Close()
	a.body.Drain(a.limit)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) > 0 {
		data = append(gitwire.AppendProgress(nil, a.held), data...)
	}
	a.held = nil
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
