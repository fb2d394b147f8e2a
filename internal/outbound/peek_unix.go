//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package outbound

import (
	"errors"
	"net"
	"syscall"
)

func canPeek(c net.Conn) bool {
	_, ok := c.(syscall.Conn)
	return ok
}

// readable reports whether a read would return at once: with bytes, with the
// end or with an error.
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
