//go:build e2e

package integration_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// observerEnv makes the test binary an observer: a NATS client in a process of
// its own that prints what its durable consumer receives.
const observerEnv = "WEIR_TEST_OBSERVER"

// observe reads count records of one entry through the durable consumer and
// prints each on a line. It acknowledges all of them.
func observe(credentials, entry string, count int) error {
	raw, err := os.ReadFile(credentials)
	if err != nil {
		return err
	}
	var c struct {
		URL      string `json:"url"`
		User     string `json:"user"`
		Password string `json:"password"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	nc, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password), nats.Timeout(30*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := contextWithTimeout(30 * time.Second)
	defer cancel()
	consumer, err := js.CreateOrUpdateConsumer(ctx, schemas.EvidenceStream, jetstream.ConsumerConfig{
		Durable: "ledger", AckPolicy: jetstream.AckExplicitPolicy,
		FilterSubject: schemas.EvidenceFilter("default", "", entry, "", false),
	})
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	for range count {
		m, err := consumer.Next(jetstream.FetchMaxWait(20 * time.Second))
		if err != nil {
			return fmt.Errorf("next: %w", err)
		}
		fmt.Printf("%s\n", m.Data())
		if err := m.DoubleAck(ctx); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
	}
	return nil
}

// runObserver is the observer process: it reports how it ended on stderr.
func runObserver() int {
	count, _ := strconv.Atoi(os.Getenv("WEIR_TEST_COUNT"))
	if err := observe(os.Getenv(observerEnv), os.Getenv("WEIR_TEST_ENTRY"), count); err != nil {
		fmt.Fprintln(os.Stderr, "observer:", err)
		return 1
	}
	return 0
}

// observer starts the process and returns the records it printed once it ended.
func observer(t *testing.T, credentials, entry string, count int) []schemas.Evidence {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), observerEnv+"="+credentials, "WEIR_TEST_ENTRY="+entry, "WEIR_TEST_COUNT="+strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var records []schemas.Evidence
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		records = append(records, decode[schemas.Evidence](t, scan.Text()))
	}
	require.NoError(t, cmd.Wait())
	return records
}

// TestEvidenceReachesAnotherProcess follows the evidence of one entry with a NATS
// client in another process, over two lives of it: each record arrives once.
func TestEvidenceReachesAnotherProcess(t *testing.T) {
	t.Parallel()
	upstream := newLedgerServer(t)
	upstream.open()
	dir := t.TempDir()
	w := serve(t, dir, "--config", policyFile(t, upstream.URL), "--nats-listen", "127.0.0.1:0")
	require.NotEmpty(t, w.NATS)
	credentials := filepath.Join(dir, "nats-credentials.json")
	info, err := os.Stat(credentials)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	call := func(i int, key string) {
		body := fmt.Sprintf(`{"method":"POST","url":"%s/%d","allowlist_key":%q,"body":{}}`, upstream.URL, i, key)
		w.request(t, http.MethodPost, "/v1/execute", body)
	}
	for i := range 6 {
		call(i, "up")
		call(i, "nobody") // denied: evidence of another entry
	}
	first := observer(t, credentials, "up", 4)
	for i := range 3 {
		call(6+i, "up")
	}
	rest := observer(t, credentials, "up", 5)
	seen := map[string]bool{}
	for _, e := range append(first, rest...) {
		assert.False(t, seen[e.ID], "record %s arrived twice", e.ID)
		seen[e.ID] = true
		assert.Equal(t, "up", e.Entry)
		assert.Equal(t, schemas.EvidenceAttempt, e.Kind)
	}
	assert.Len(t, seen, 9)
}
