package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/weirtest/gitkit"
)

// firstEnv makes the test's program one that is the first of its container: whose parent is gone becomes its child.
const firstEnv = "WEIR_GIT_TEST_FIRST"

// first runs a push that is killed hard in the middle, and says whether it has children then, dead ones too.
func first(dir string) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	g, err := Open(context.Background(), Config{Dir: dir, grace: 1})
	if err != nil {
		panic(err)
	}
	var from, to string
	if _, err := fmt.Fscanln(os.Stdin, &from, &to); err != nil {
		panic(err)
	}
	_, err = g.ReceivePack(context.Background(), "r1", pushOf("work", from, to, io.MultiReader(os.Stdin, goneReader{})))
	g.Close()
	_, none := unix.Wait4(-1, nil, unix.WNOHANG, nil)
	fmt.Print(errors.Is(err, errGone), errors.Is(none, unix.ECHILD))
}

type goneReader struct{}

func (goneReader) Read([]byte) (int, error) { return 0, errGone }

func TestNothingIsLeftForTheFirstProcess(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	from := begin(t, g)
	pack, oid := gitkit.GoodCommit(noise(1<<20), from)
	g.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), firstEnv+"="+g.cfg.Dir)
	cmd.Stdin = io.MultiReader(bytes.NewReader([]byte(from+" "+oid+"\n")), bytes.NewReader(pack[:len(pack)/2]))
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "true true", string(out))
}
