package cli

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal returns both ends of a pseudo terminal: the output of the program can be read at the person's end.
func terminal(t *testing.T) (program, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("this machine has no pseudo terminals: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return program, person
}

// TestATerminalGetsNoBytes: a binary body goes to a file or a pipe, and to a terminal on request.
func TestATerminalGetsNoBytes(t *testing.T) {
	t.Parallel()
	server := "--server=" + always(t, http.StatusOK, "application/json", `{"status":200,"body":"AFs=","body_encoding":"base64"}`, "Weir-Action-Id", "a-1")
	for _, tt := range []struct{ flag, out, errs string }{
		{"-i", "HTTP/1.1 200 OK\r\n\r\n", "weir: binary answer of 2 bytes, not printed; use -o FILE, or see: weir actions show a-1 --json\nstatus 200, action a-1\n"},
		{"-o-", "\x00[", "status 200, action a-1\n"},
	} {
		out, person := terminal(t)
		var errs strings.Builder
		code := program(t.Context(), []string{"exec", tt.flag, "GET", "http://x/", server}, nil, Streams{In: strings.NewReader(""), Out: out, Err: &errs})
		require.Equal(t, ExitOK, code)
		require.Equal(t, tt.errs, errs.String())
		got := make([]byte, len(tt.out))
		_, err := io.ReadFull(person, got)
		require.NoError(t, err)
		require.Equal(t, tt.out, string(got))
	}
}

// TestATerminalGetsNoControlCharacters of a body, and a line end after it.
func TestATerminalGetsNoControlCharacters(t *testing.T) {
	t.Parallel()
	server := "--server=" + always(t, http.StatusOK, "application/json", `{"status":200,"headers":[{"name":"a","value":"\u009b"}],"body":"\u001b[2Ja\r\nb\u009b\u202ec"}`)
	out, person := terminal(t)
	code := program(t.Context(), []string{"exec", "-i", "GET", "http://x/", server}, nil, Streams{In: strings.NewReader(""), Out: out, Err: io.Discard})
	require.Equal(t, ExitOK, code)
	lines := bufio.NewReader(person)
	for _, want := range []string{"HTTP/1.1 200 OK", `a: \u009b`, "", `\u001b[2Ja`, `b\u009b\u202ec`} {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want+"\r\n", line)
	}
}
