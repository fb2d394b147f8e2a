// Package git serves what git reads of a repository, and words the ends of pushes.
package git

import (
	"context"
	"io"
	"time"

	"weir/internal/githttp"
	"weir/internal/task"
	"weir/schemas"
)

// Source is where the objects of repositories are. Both methods write nothing before
// they know that there is an answer: an error without a byte written gets a status of
// its own, and should be a public one.
type Source interface {
	// Advertise writes the answer to GET info/refs, with the service line where the
	// protocol has one. Protocol is 0 or 2.
	Advertise(ctx context.Context, repo schemas.Repo, g task.Grant, service string, protocol int, w io.Writer) error
	// UploadPack writes the answer to one request of a fetch. The request is well-formed.
	UploadPack(ctx context.Context, repo schemas.Repo, g task.Grant, protocol int, in []byte, w io.Writer) error
}

// Config of the reading routes. What has no default says so.
type Config struct {
	// Grant says what the holder of a token may do with repositories. Required.
	Grant func(ctx context.Context, token string) (task.Grant, error)
	// Repos finds repositories. Required.
	Repos githttp.Repos
	// Hosted has the repositories of this node, and Proxied those of upstream servers; of
	// one that is nil nothing is served.
	Hosted, Proxied Source
	// Hold keeps the lease of who fetches until it is released; default: nobody has one.
	Hold func(g task.Grant) (release func())
	// Fetches is how many one task may have on their way at a time; default 4.
	Fetches int
	// Over is closed when a task has ended or its lease is lost; see internal/board.
	// Default: it never is. It ends an answer that is under way.
	Over func(ref schemas.Ref, lease int) (over <-chan struct{}, forget func())
	// MaxRequest is the largest request of a fetch in bytes, decoded; default 8 MiB.
	MaxRequest int64
	// Timeout bounds one request and its answer; default 10 min.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Over == nil {
		c.Over = func(schemas.Ref, int) (<-chan struct{}, func()) { return nil, func() {} }
	}
	if c.Hold == nil {
		c.Hold = func(task.Grant) func() { return func() {} }
	}
	if c.Fetches <= 0 {
		c.Fetches = 4
	}
	if c.MaxRequest <= 0 {
		c.MaxRequest = 8 << 20
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	return c
}
