package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"weir/schemas"
)

// Config says how the server runs. Dir and Layout are required. It is not checked: internal/config has
// checked what an operator writes.
type Config struct {
	// Dir is the data directory. It is created, marked and locked. Barrier syncs its file system,
	// so a separate one keeps out the writes of other programs.
	Dir string
	// Layout is fixed when the directory is made.
	Layout schemas.Layout
	// Durability is disk or process; default disk.
	Durability schemas.Durability
	// MaxBytes is the wall: once the stored messages take that much, every write to every stream is
	// refused and nothing of it is stored, until records grow old or the wall is raised. The
	// default is what is stored now and three quarters of the free disk.
	MaxBytes int64
	// MaxPayload is the largest message in bytes, headers included; default 8 MiB.
	MaxPayload int32
	// Listen opens a port for observers of the evidence and of tasks, and for the agent API, as
	// "127.0.0.1:4222". Port 0 takes a free one; empty opens none. There is no TLS on it: keep it
	// on loopback or on a network that is trusted with evidence and with the tokens of agents.
	Listen string
	// AcceptLoss starts although acknowledged records are gone from the log, and continues after
	// them. Lost lists them.
	AcceptLoss bool
	// Logger logs failures to write the log and the marks, and consumers that start over. Default: none.
	Logger *slog.Logger
	// Sync and Free replace the sync of the file system and its free bytes: seams for tests.
	Sync func() error
	Free func() (int64, error)
}

func (c Config) withDefaults() Config {
	c.Durability, c.MaxPayload = cmp.Or(c.Durability, schemas.DurabilityDisk), cmp.Or(c.MaxPayload, 8<<20)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Free == nil {
		c.Free = func() (int64, error) { return freeBytes(c.Dir) }
	}
	return c
}

// address reads where to listen and tries it: the server itself would only be silent about a port
// that is taken.
func address(listen string) (host string, port int, err error) {
	l, err := net.Listen("tcp", listen) //nolint:noctx // it returns at once
	if err != nil {
		return "", 0, fmt.Errorf("check that %s is free to listen on: %w", listen, err)
	}
	host, text, _ := net.SplitHostPort(listen)
	port, err = strconv.Atoi(text)
	return host, port, errors.Join(err, l.Close())
}
