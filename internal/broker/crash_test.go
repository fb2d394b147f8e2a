package broker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// crashDir names the variable that makes the test binary a victim.
const crashDir = "WEIR_TEST_CRASH_DIR"

// writeUntilKilled appends from several goroutines and prints the sequence of each record after its
// acknowledgement, without waiting for any barrier.
func writeUntilKilled(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout, Durability: schemas.DurabilityProcess})
	fail(err)
	b, err := Open(context.Background(), Config{Server: s, Layout: layout, AttemptTimeout: 10 * time.Second})
	fail(err)
	for g := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", g, i)
				seq, err := b.Append(context.Background(), claim(id, id))
				fail(err)
				// One write a line: what the parent reads was acknowledged.
				_, err = os.Stdout.WriteString(strconv.FormatUint(seq, 10) + " " + id + "\n")
				fail(err)
			}
		}()
	}
	select {}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())

	const enough = 1000
	acked := map[uint64]string{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var seq uint64
		var id string
		if n, _ := fmt.Sscan(lines.Text(), &seq, &id); n != 2 {
			continue // the last line may be cut
		}
		acked[seq] = id
		if len(acked) == enough {
			require.NoError(t, cmd.Process.Kill()) // SIGKILL, in the middle of its work
		}
	}
	require.Error(t, cmd.Wait())
	require.GreaterOrEqual(t, len(acked), enough)

	n := open(t, embedded.Config{Dir: dir}, Config{})
	found := map[uint64]string{}
	for from := uint64(1); ; {
		page := must(n.Range(t.Context(), schemas.LogStream(0), "weir.log.>", from, 1000))(t)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			found[r.Seq] = string(r.Data)
		}
		from = page[len(page)-1].Seq + 1
	}
	for seq, id := range acked {
		require.Equal(t, id, found[seq], "record %d was acknowledged", seq)
	}
}
