package git

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"weir/internal/gitwire"
)

// heldBack is how much of a pack is kept until everything else about its push is right:
// its checksum, without which git takes none of it.
const heldBack = 20

// piece is how much of a pack is passed on at a time.
const piece = 64 << 10

// errDone ends the reading of a pack that nobody wants any more.
var errDone = errors.New("the push is over")

// pack is a client's pack on its way. It is read on a goroutine of its own, because a
// client may say nothing for long: whoever takes the pack can be let go at any time. It
// is an io.ReadCloser for that one: of all of it or, where it is spooled, of its end.
type pack struct {
	*io.PipeReader

	in    *gitwire.PackReader
	out   *io.PipeWriter
	spool io.Writer // takes the pack but for its end; nil: whoever reads the pack takes it as it comes
	last  func() error
	line  *gitwire.Lineage // of its commits, once all of it was read; nil: nobody asks
	size  atomic.Int64

	mu    sync.Mutex
	whole bool
	cause error
}

// errSlip: the reading of a pack has panicked. What it reads is whatever a client sends.
var errSlip = errors.New("the pack cannot be read here")

// receive makes a pack of body, which send begins to read. Last is asked when all of it is there
// and right, before its end goes out; its error keeps that back. Follow has its commits kept.
func receive(body io.Reader, limits gitwire.PackLimits, follow bool, last func() error) *pack {
	p := &pack{in: gitwire.NewPackReader(body, limits), last: last}
	if follow {
		p.line = p.in.Follow()
	}
	p.PipeReader, p.out = io.Pipe()
	return p
}

// send reads the pack. Over is called when its body will be touched no more.
func (p *pack) send(over func()) {
	go func() {
		defer over()
		defer func() {
			if recover() != nil {
				p.abort(errSlip)
			}
		}()
		p.run()
	}()
}

func (p *pack) run() {
	buf, held := make([]byte, heldBack+piece), 0
	for {
		n, err := p.in.Read(buf[held:])
		held += n
		p.size.Add(int64(n))
		switch {
		case errors.Is(err, io.EOF) && err == io.EOF: //nolint:errorlint // the clean end, and no other
			if p.called() && p.release() {
				_, _ = p.out.Write(buf[:held])
				_ = p.out.Close()
			}
			return
		case err != nil:
			p.abort(err)
			return
		case held <= heldBack:
			continue
		}
		if err := p.pass(buf[:held-heldBack]); err != nil {
			return
		}
		held = copy(buf, buf[held-heldBack:held])
	}
}

// pass hands on what is not the end.
func (p *pack) pass(b []byte) error {
	if p.spool == nil {
		_, err := p.out.Write(b) // fails where nobody reads on
		return err
	}
	_, err := p.spool.Write(b)
	if err != nil {
		p.abort(err)
	}
	return err
}

// called waits, of a spooled pack, for the call of arrive and then for the first read of the end. It reports false
// where they do not come any more. A write of nothing to the pipe waits for one read.
func (p *pack) called() bool {
	if p.spool == nil {
		return true
	}
	_, arrived := p.out.Write(nil)
	_, read := p.out.Write(nil)
	return arrived == nil && read == nil
}

// arrive waits until a spooled pack is there and right, but for its end, which is then read from the pack. The
// error is what has kept it from that.
func (p *pack) arrive() error {
	_, err := p.Read(nil)
	return err
}

// release reports whether the pack's end may go out.
func (p *pack) release() bool {
	if err := p.last(); err != nil {
		p.abort(err)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = p.cause == nil
	return p.whole
}

// abort keeps the pack's end back, and ends the reading of what is before it. It
// reports false where the end is out already, and then does nothing.
func (p *pack) abort(cause error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.whole {
		return false
	}
	if p.cause == nil {
		p.cause = cause
	}
	_ = p.out.CloseWithError(p.cause)
	return true
}

// end lets go of the pack.
func (p *pack) end() { _ = p.CloseWithError(errDone) }

// released reports whether the pack's end is out.
func (p *pack) released() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.whole
}

// failure is what has kept the pack's end back; nil: nothing has, so far.
func (p *pack) failure() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// bytes is how much of the pack was read.
func (p *pack) bytes() int64 {
	if p == nil {
		return 0
	}
	return p.size.Load()
}

// Close is a transport's, which is done with the pack, whole or not.
func (p *pack) Close() error {
	p.end()
	return nil
}
