//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package outbound

import (
	"errors"
	"syscall"
)

// canPeek: a look shows whether a connection is still open and silent.
const canPeek = true

// readable reports whether a read would return at once: with bytes, with the
// end or with an error. Only a test's connection cannot tell.
func (s *socket) readable() bool {
	c, ok := s.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	ready := true
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		for {
			_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if !errors.Is(err, syscall.EINTR) {
				ready = !errors.Is(err, syscall.EAGAIN)
				return true
			}
		}
	})
	return ready || err != nil
}
