//go:build nightly

package clock_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/clock"
)

// told is a program that tells its time, and how long it has run, for each line it reads.
const told = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	begun := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(time.Now().Unix(), int(time.Since(begun).Hours()))
	}
}
`

// TestTurn: a clock is turned while its program runs, and what the program measures is not.
func TestTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "told.go"), []byte(told), 0o600))
	args, err := clock.Overlay(dir)
	require.NoError(t, err)
	build := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", "told"}, args...), "told.go")...)
	build.Dir = dir
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	c, err := clock.New(filepath.Join(dir, "clock"))
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "told"))
	cmd.Env = append(os.Environ(), c.Environ()...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	for _, by := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		require.NoError(t, c.Turn(by))
		before := time.Now().Add(by).Unix()
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		var unix int64
		var ran int
		_, err = fmt.Sscan(lines.Text(), &unix, &ran)
		require.NoError(t, err)
		require.GreaterOrEqual(t, unix, before, by)
		require.LessOrEqual(t, unix, time.Now().Add(by).Unix(), by)
		require.Zero(t, ran, "hours")
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
