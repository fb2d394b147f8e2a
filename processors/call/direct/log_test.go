package direct_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/internal/secrets"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors/call"
	"weir/processors/call/added"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// books are everything that is written: the log, blobs and evidence.
type books struct {
	mu      sync.Mutex
	written []schemas.Append
}

func (b *books) note(m schemas.Append, _ uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = append(b.written, m)
	return nil
}

// events are the types of the log's events so far.
func (b *books) events() (types []schemas.EventType) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.written {
		var ev schemas.Event
		if strings.HasPrefix(m.Subject, "weir.log.") && json.Unmarshal(m.Data, &ev) == nil && ev.Type != "" {
			types = append(types, ev.Type)
		}
	}
	return types
}

// spy is a Secrets that notes how far the log was at each question.
type spy struct {
	added.Secrets
	books *books
	up    *upstream.Server
	asked [][]schemas.EventType
	hits  []int
}

func (s *spy) Resolve(template string) (secrets.Value, []secrets.Value, error) {
	s.asked, s.hits = append(s.asked, s.books.events()), append(s.hits, s.up.Hits())
	return s.Secrets.Resolve(template)
}

// run performs one action over the real client, and returns what was written.
func run(t *testing.T, e policy.Entry, c schemas.HTTPCall, up *upstream.Server) (*books, *spy, settle.Verdict) {
	t.Helper()
	b := &books{}
	log := memlog.New(harness.Layout(), time.Now, memlog.Hooks{After: b.note})
	l := ledger.New(log, harness.Layout(), time.Now)
	var p harness.Policy
	p.Enforce(t, e)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	s := &spy{books: b, up: up, Secrets: secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { v, ok := known[name]; return v, ok }})}
	caller := call.New(l, guard.New(p.InForce, nil), direct.New(client, s, redact.New(nil)), call.Config{
		Worker: "w1", Barrier: harness.NoBarrier,
		Schedule: retry.Schedule{Attempts: 3, Base: time.Millisecond, Cap: time.Millisecond},
	})
	st := harness.Claim(t, l, schemas.Action{Kind: schemas.KindHTTP}, c)
	verdict, err := executor.New(caller, harness.Recorder(log), call.Answers{Blobs: l}).Perform(t.Context(), st, harness.NoStop{})
	require.NoError(t, err)
	return b, s, verdict
}

// TestSecretsAreNeverWritten: they are read after the attempt was written, and no
// record of any kind holds one, in any form, whatever the target answers and
// however the call ends.
func TestSecretsAreNeverWritten(t *testing.T) {
	t.Parallel()
	all := []string{secret, inQuery, inBody, inParts}
	echo := strings.Join(all, " ") + " " + url.QueryEscape(inQuery) + " " + base64.StdEncoding.EncodeToString([]byte(strings.Join(all, ":")))
	type testCase struct {
		method   string
		answers  []upstream.Behaviour
		attempts int
	}
	table.Run(t, map[string]testCase{
		"answered":           {"POST", []upstream.Behaviour{upstream.Respond(200, echo, upstream.Header("X-Echo", secret), upstream.Header("Set-Cookie", inParts))}, 1},
		"a large answer":     {"GET", []upstream.Behaviour{upstream.Respond(200, strings.Repeat("x", 300<<10)+echo)}, 1},
		"failed":             {"GET", []upstream.Behaviour{upstream.Respond(500, echo)}, 3},
		"reset":              {"GET", []upstream.Behaviour{upstream.ResetBeforeResponse()}, 3},
		"nonsense":           {"GET", []upstream.Behaviour{upstream.Raw("HTTP/1.1 200 " + secret + "\r\n" + secret + "\r\n\r\n")}, 3},
		"cut":                {"GET", []upstream.Behaviour{upstream.LyingLength(9999, echo)}, 3},
		"unknown":            {"POST", []upstream.Behaviour{upstream.ResetBeforeResponse()}, 1},
		"redirected":         {"GET", []upstream.Behaviour{upstream.Redirect(302, "/to?a=1"), upstream.Respond(200, echo)}, 2},
		"redirected with it": {"GET", []upstream.Behaviour{upstream.Redirect(302, "/to?a="+url.QueryEscape(inQuery))}, 2},
	}, func(t *testing.T, c testCase) {
		up := upstream.New(t, c.answers...)
		call := schemas.HTTPCall{Method: c.method, URL: up.URL() + "/x?q=1", AllowlistKey: "up"}
		if c.method == "POST" {
			call.Body = []byte(`{"a":1}`)
		}
		b, s, verdict := run(t, full(up.URL()), call, up)

		require.NotEmpty(t, s.asked)
		for i, events := range s.asked {
			require.NotEmpty(t, events)
			assert.Equal(t, schemas.EventAttempt, events[len(events)-1], "question %d came before the attempt was written: %v", i, events)
		}
		assert.Zero(t, s.hits[0])

		attempts := 0
		var wrote bytes.Buffer
		for _, m := range b.written {
			wrote.WriteString(m.Subject + "\n")
			wrote.Write(m.Data)
			wrote.WriteByte('\n')
			if strings.HasPrefix(m.Subject, "weir.evidence.") {
				attempts++
			}
		}
		assert.GreaterOrEqual(t, attempts, c.attempts, "evidence was left")
		doc, err := ledger.Encode(verdict)
		require.NoError(t, err)
		wrote.Write(doc)
		clean(t, wrote.String(), all)
	})
}

// clean asserts that no form of any secret, and no long piece of one, is there.
func clean(t *testing.T, text string, all []string) {
	t.Helper()
	folded := strings.ToUpper(text)
	for _, s := range all {
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		for _, form := range []string{s, s[10:], s[:14], url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(quoted), `"`), hex.EncodeToString([]byte(s))} {
			assert.NotContains(t, folded, strings.ToUpper(form))
		}
		for offset := range 3 {
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + s))
			assert.NotContains(t, text, encoded[4:20])
		}
	}
}
