package telemetry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"weir/internal/fault"
	"weir/schemas"
)

// ErrKind names the kind of an error in one name that is safe to log. The text
// of an error never is: it may hold an address, a URL or a piece of content.
// It is empty for nil, and "other" for an error it does not know.
func ErrKind(err error) string {
	if err == nil {
		return ""
	}
	var public *fault.Error
	var call *fault.Call
	var parked *fault.Terminal
	var code schemas.Code
	switch {
	case errors.As(err, &public):
		code = public.Code
	case errors.As(err, &call):
		code = call.Code
	case errors.As(err, &parked):
		code = parked.Code
	}
	if knownCode(string(code)) {
		return string(code)
	}
	for _, k := range []struct {
		is   error
		word string
	}{
		{fault.ErrFenced, "fenced"},
		{fault.ErrNotFound, "not_found"},
		{fault.ErrGone, "gone"},
		{fault.ErrFull, "full"},
		{fault.ErrUnavailable, "unavailable"},
		{fault.ErrTooLarge, "too_large"},
		{fault.ErrConflict, "conflict"},
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "deadline"},
		{os.ErrDeadlineExceeded, "deadline"},
		{fs.ErrNotExist, "not_exist"},
		{fs.ErrPermission, "permission"},
		{fs.ErrExist, "exists"},
		{syscall.ENOSPC, "no_space"},
		{syscall.EADDRINUSE, "address_in_use"},
		{syscall.ECONNREFUSED, "refused"},
		{syscall.ECONNRESET, "reset"},
		{syscall.EPIPE, "broken_pipe"},
		{syscall.EMFILE, "too_many_files"},
		{net.ErrClosed, "closed"},
		{fs.ErrClosed, "closed"},
		{io.ErrUnexpectedEOF, "unexpected_eof"},
		{io.EOF, "eof"},
		{io.ErrClosedPipe, "closed"},
	} {
		if errors.Is(err, k.is) {
			return k.word
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return other
}

// Panicking names where a panic arose, innermost first, for the log's member "at": functions and lines of
// this program alone. It is for a deferred function that has recovered; the value of the panic and the
// arguments on the stack may hold content.
func Panicking() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var at []string
	for raised := false; len(at) < 8; {
		f, more := frames.Next()
		name, own := strings.CutPrefix(f.Function, "weir/")
		if raised = raised || f.Function == "runtime.gopanic"; raised && own {
			at = append(at, name+":"+strconv.Itoa(f.Line))
		}
		if !more {
			break
		}
	}
	return strings.Join(at, " < ")
}
