// Package capture keeps what a program under test writes.
package capture

import (
	"bytes"
	"sync"
)

// Buffer is an output that may be read while it is written. Its zero value is
// empty; it is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// Bytes is a copy of what was written so far.
func (b *Buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

// String is Bytes as text.
func (b *Buffer) String() string { return string(b.Bytes()) }
