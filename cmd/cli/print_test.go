package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// unsafeText has one character of each sort that a terminal obeys or does not show, and others
// that it shows.
const unsafeText = "a\u009b31m\u202eb\u2066c\u200fd\u061ce\u2028f\U000e0041g é 語 👩\u200d💻"

// TestABodyGoesToAPipeAsItIs: a pipe gets the body without escapes.
func TestABodyGoesToAPipeAsItIs(t *testing.T) {
	t.Parallel()
	_, server := provider(t, llm.Config{Default: llm.Act{Texts: []string{unsafeText}}})
	code, out, errs := saying(t, "", "chat", "m", "Hi", server)
	require.Equal(t, ExitOK, code, errs)
	assert.Equal(t, unsafeText+"\n", out)
	code, out, errs = saying(t, "", "chat", "m", "Hi", server, "--json")
	require.Equal(t, ExitOK, code, errs)
	assert.Contains(t, out, `\u009b`)
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "",
		"a\n\tb":             "a\n\tb",
		"a\r\x1b[2J\x00\x7f": `a\u000d\u001b[2J\u0000\u007f`,
		"\x9b é":             "\ufffd é",
		"\U0001f600\ufeff":   "\U0001f600" + `\ufeff`,
	} {
		var out bytes.Buffer
		n, err := printer{to: &out}.Write([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, len(text), n)
		assert.Equal(t, want, out.String())
	}
	assert.Equal(t, `a\u000a\u0009b`, oneLine("a\n\tb"))
}

// FuzzTail reads whatever a server says as `weir tail` does, and shows it.
func FuzzTail(f *testing.F) {
	for _, s := range []string{
		"id: 1\nevent: settled\ndata: {\"settled\":{\"outcome\":\"succeeded\"},\"time\":\"t\"}\n\n", "data: []\n\n", "data: {\"settled\":1}\nevent: settled\n\n", "event: \ndata: {\"\":{\"a\":\"" + strings.Repeat("é", 300) + "\"}}\n\n",
		"data: {\ndata: }\n\n", "data: null\n\n", "data: {\"time\":{},\"code\":null}\n\n", ":\n\n", "\x00", "data: \xff\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for e, err := range sse.Read(bytes.NewReader(wire), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil {
				return
			}
			var plain, raw bytes.Buffer
			_ = (&api{Streams: Streams{Out: &plain}}).showEvent(e)
			require.NoError(t, (&api{Streams: Streams{Out: &raw}, asJSON: true}).showEvent(e))
			require.Equal(t, e.Data+"\n", raw.String(), "a program gets what was sent")
		}
	})
}

// TestTellReload has a line for each node, and says where they differ.
func TestTellReload(t *testing.T) {
	t.Parallel()
	for want, done := range map[string]schemas.Reload{
		"policy v2 is in force, in place of v1\n": {Version: "v2", Previous: "v1", Changed: true},
		"nothing changed: policy v1 is in force\nthat is node n: the others have files of their own, and --all asks each\n": {Version: "v1", Previous: "v1", Node: "n"},
		"egress a: nothing changed: policy v2 is in force\nworker b: policy v2 is in force, in place of v1\n": {Nodes: []schemas.NodeReport{
			{Node: "a", Role: "egress", Version: "v2", Previous: "v2"}, {Node: "b", Role: "worker", Version: "v2", Previous: "v1", Changed: true},
		}},
		"egress a: nothing changed: policy v2 is in force\nworker b: policy v1 is in force as before: nothing was changed: it is wrong\nthe 2 nodes do not have the same policy\n": {Nodes: []schemas.NodeReport{
			{Node: "a", Role: "egress", Version: "v2", Previous: "v2"}, {Node: "b", Role: "worker", Version: "v1", Error: "nothing was changed: it is wrong"},
		}},
		"worker b: it has not reported its result in time\nthe 1 nodes do not have the same policy\n": {Nodes: []schemas.NodeReport{
			{Node: "b", Role: "worker", Error: "it has not reported its result in time"},
		}},
	} {
		var out bytes.Buffer
		printReload(&out, done)
		require.Equal(t, want, out.String())
	}
}
