// Package git reads what a push asks for, and decides whether its asker may have it,
// before git or an upstream sees a byte. The routes that only read are egress's.
package git

import (
	"context"
	"time"

	"weir/internal/githttp"
	"weir/internal/task"
	"weir/schemas"
)

// Hosted is the repositories on this node's disk, see internal/git.
type Hosted interface {
	// Here returns git.ErrNoRepo where a repository is not on this node.
	Here(id string) error
}

type everywhere struct{}

func (everywhere) Here(string) error { return nil }

// Config of the push route. What has no default says so.
type Config struct {
	// Grant says what the holder of a token may do with repositories. Required.
	Grant func(ctx context.Context, token string) (task.Grant, error)
	// Repos finds repositories. Required.
	Repos githttp.Repos
	// Reserve has this process execute a push that is about to be accepted, and returns how; see
	// processors.Pipeline. Execute returns when the push has ended, or cannot go on here. Required.
	Reserve func(ref schemas.Ref) (execute func(context.Context), release func())
	// Hosted knows which repositories are on this node; default: all are.
	Hosted Hosted
	// Hold keeps the lease of who pushes until it is released; default: nobody has one.
	Hold func(g task.Grant) (release func())
	// Pushes is how many one task may have on their way at a time; default 4.
	Pushes int
	// Slots is how many pushes of all tenants may be on their way to this node at a time, and TenantShare the percentage
	// of them that one tenant leaves to the next; see limits.Percent. Default 0 and 100: nothing is divided.
	Slots, TenantShare int
	// MaxPack is the most that one push may bring, in bytes, as it is sent and as it is
	// decoded; default 1 GiB.
	MaxPack int64
	// Timeout bounds how long a push may take to come; default 10 min.
	Timeout time.Duration
}

// WithDefaults fills in what was left out.
func (c Config) WithDefaults() Config {
	if c.Hold == nil {
		c.Hold = func(task.Grant) func() { return func() {} }
	}
	if c.Hosted == nil {
		c.Hosted = everywhere{}
	}
	if c.Pushes <= 0 {
		c.Pushes = 4
	}
	if c.TenantShare <= 0 {
		c.TenantShare = 100
	}
	if c.MaxPack <= 0 {
		c.MaxPack = 1 << 30
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	return c
}
