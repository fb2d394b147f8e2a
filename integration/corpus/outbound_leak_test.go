//go:build e2e

package corpus_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkAbsentIn looks for the canary where the row says.
func checkAbsentIn(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	canary := text(x.Assert["canary"])
	require.NotEmpty(t, canary)
	assert.Contains(t, x.stage.server.Ledger()[0].Target, canary, "what did not arrive could not have leaked")
	for _, sink := range list(t, want) {
		found := ""
		switch sink {
		case "logs", "traces": // there is no other trace than the log
			found = x.lane.log.String()
		case "metrics":
			found = x.lane.ask(t, http.MethodGet, "/metrics", "").body
		case "evidence":
			evidence := x.evidence(t)
			require.NotEmpty(t, evidence)
			found = string(mustEncode(t, evidence))
		default:
			t.Fatalf("sink %q is not known", sink)
		}
		require.NotEmpty(t, found, sink)
		for _, form := range forms(canary) {
			assert.NotContains(t, found, form, sink)
		}
	}
}

// checkAbsentEverywhere looks for secrets in everything that Weir shows, logs
// and stores: the files of all streams, objects and consumers.
func checkAbsentEverywhere(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	secrets := list(t, want)
	x.secretWasThere(t, secrets[0])
	sinks := map[string]string{
		"the log": x.lane.log.String(), "what the owner is shown": x.shown + x.reply.body,
		"metrics": x.lane.ask(t, http.MethodGet, "/metrics", "").body,
		"disk":    x.stored(t),
	}
	if x.id != "" {
		sinks["evidence"] = string(mustEncode(t, x.evidence(t)))
		for _, there := range []string{x.id, x.url()} {
			require.True(t, strings.Contains(sinks["disk"], there), "the streams cannot be read as they lie there") //nolint:testifylint // the content is long
		}
	}
	for name, content := range sinks {
		require.NotEmpty(t, content, name)
		for _, secret := range secrets {
			for _, form := range forms(secret) {
				assert.False(t, strings.Contains(content, form), "%s has %q", name, form) //nolint:testifylint // the content is long
			}
		}
	}
}

// secretWasThere shows that the secret took part: on the wire, or in what the
// upstream said. A secret that is refused in a request never left.
func (x *trial) secretWasThere(t *testing.T, secret string) {
	t.Helper()
	if x.sent == 0 {
		return
	}
	for _, got := range x.stage.server.Ledger() {
		for _, h := range got.Headers {
			if strings.Contains(h.Value, secret) {
				return
			}
		}
	}
	t.Errorf("no request brought the secret: nothing could have leaked")
}

// stored is all that lies in the data directory.
func (x *trial) stored(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	require.NoError(t, filepath.WalkDir(x.lane.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	}))
	return all.String()
}

// forms are the ways in which a text may lie somewhere.
func forms(s string) []string {
	all := []string{s, hex.EncodeToString([]byte(s)), strings.ToLower(s), strings.ToUpper(s)}
	for shift := range 3 { // the three alignments, without what the neighbours colour
		enc := base64.StdEncoding.EncodeToString(append(make([]byte, shift), s...))
		from, to := (shift*4+2)/3, len(enc)-4
		if from < to {
			all = append(all, enc[from:to])
		}
	}
	var percent strings.Builder
	for i := range len(s) {
		percent.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{s[i]})))
	}
	return append(all, percent.String())
}
