//go:build failpoints && unix

package failpoint

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain comes to points in the place of the tests where it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_VICTIM") == "" {
		os.Exit(m.Run())
	}
	At(Claimed, "somebody's")
	lost := Lost(Appended, "weir.log.0.event.t.http.mine")
	again := Lost(Appended, "weir.log.0.event.t.http.mine")
	_, _ = os.Stdout.WriteString(map[bool]string{true: "lost", false: "told"}[lost && !again])
	data, _ := io.ReadAll(Halfway(MidBody, "/mine", bytes.NewReader([]byte("whole")), 5))
	_, _ = os.Stdout.Write(data)
	At(Claimed, "mine")
	_, _ = os.Stdout.WriteString(" alive")
}

func victim(t *testing.T, arm string) (out string, state *exec.ExitError, notes string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notes")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "WEIR_TEST_VICTIM=1", "WEIR_FAILPOINT="+arm, "WEIR_FAILPOINT_LOG="+path)
	data, err := cmd.Output()
	if err != nil {
		require.ErrorAs(t, err, &state)
	}
	text, _ := os.ReadFile(path)
	return string(data), state, string(text)
}

func TestKillAndLose(t *testing.T) {
	t.Parallel()
	out, state, notes := victim(t, "appended@mine=lose; claimed@mine=kill")
	require.Equal(t, "lostwhole", out)
	status, ok := state.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal())
	require.Equal(t, "appended weir.log.0.event.t.http.mine lose\nclaimed mine kill\n", notes)
}

// TestTheNthTime: a point without a part fits every id, and acts at one time alone.
func TestTheNthTime(t *testing.T) {
	t.Parallel()
	out, state, notes := victim(t, "claimed#2=kill")
	require.Equal(t, "toldwhole", out)
	require.NotNil(t, state)
	require.Equal(t, "claimed mine kill\n", notes)
	out, state, notes = victim(t, "claimed#3=kill;midbody@other=kill")
	require.Equal(t, "toldwhole alive", out)
	require.Nil(t, state)
	require.Empty(t, notes)
	out, state, _ = victim(t, "midbody@/mine=kill")
	require.Equal(t, "told", out)
	require.NotNil(t, state)
}

// TestWhatCannotBeRead: a fault that never comes would have its test pass for nothing.
func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"claimed", "claimed=explode", "claimed#0=kill", "claimed#x=kill", "=kill", "@mine=kill"} {
		_, err := parse(spec)
		require.Error(t, err, spec)
		_, state, _ := victim(t, spec)
		require.NotNil(t, state, spec)
		require.Equal(t, 2, state.ExitCode(), spec)
	}
}
