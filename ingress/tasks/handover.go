package tasks

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
)

// handOver answers with a leased task. If the answer cannot be sent, the lease's token is lost, so
// handOver returns the task at once instead of waiting for the lease to expire. If the answer was
// sent and not received, this stays unknown.
func (h handlers) handOver(c *gin.Context, v Access, answer func(w http.ResponseWriter) (given bool)) {
	out := &handover{ResponseWriter: c.Writer, gone: c.Request.Context().Err}
	if !answer(out) || !out.out() {
		// If that fails as well, the worker takes the task back in time.
		_ = h.Tasks.Return(c.Request.Context(), v)
	}
}

// handover is an answer of which one has to know whether it went out.
type handover struct {
	http.ResponseWriter
	// gone is the reason why the client is gone; nil: it is connected.
	gone   func() error
	status int
	err    error
}

// Unwrap is for http.ResponseController.
func (h *handover) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *handover) WriteHeader(status int) {
	if h.status != 0 {
		return
	}
	if h.status, h.err = status, h.gone(); h.err == nil {
		h.ResponseWriter.WriteHeader(status)
	}
}

func (h *handover) Write(p []byte) (n int, err error) {
	h.WriteHeader(http.StatusOK)
	if h.err == nil {
		n, h.err = h.ResponseWriter.Write(p)
	}
	return n, h.err
}

// out reports whether the answer went out, and was what had been asked for.
func (h *handover) out() bool {
	if h.status != http.StatusOK || h.err != nil {
		return false
	}
	w := h.ResponseWriter // gin's does not say how a flush ended
	if in, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		w = in.Unwrap()
	}
	err := http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}
