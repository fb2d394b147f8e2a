package githttp

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

// Upload is what the client of a push sends, on its way to the performer of the action, which has
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
func (u *Upload) In(ctx context.Context) context.Context { return context.WithValue(ctx, uploadKey{}, u) }

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
