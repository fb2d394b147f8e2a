package corpus_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// checked is a row that can tell what of it the harness does not know.
type checked[R any] interface {
	*R
	check() error
}

// readRows reads a corpus and the rows of ours beside it. A line that the harness does not
// understand fails the test; the others are returned.
func readRows[R any, P checked[R]](t *testing.T, corpus string) (rows []R) {
	t.Helper()
	for _, path := range []string{"testdata/" + corpus + ".jsonl", "testdata/" + corpus + "_own.jsonl"} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		n := 0
		for line := range bytes.Lines(data) {
			n++
			var r R
			err := readStrictly(line, &r)
			if err == nil {
				err = P(&r).check()
			}
			if assert.NoError(t, err, "%s:%d", path, n) {
				rows = append(rows, r)
			}
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

// readStrictly reads one JSON document and refuses members that no field takes.
func readStrictly(doc []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// encode writes a value as JSON. The values of this package always can be.
func encode(v any) json.RawMessage {
	doc, err := json.Marshal(v)
	must(err)
	return doc
}

// generators make texts that are too long to be written down, or that are no JSON.
var generators = map[string]func(spec map[string]any) string{
	"repeat":      func(s map[string]any) string { return strings.Repeat(member(s, "unit"), count(s, "count")) },
	"nest_array":  func(s map[string]any) string { return nested("[", "", "]", count(s, "depth")) },
	"nest":        func(s map[string]any) string { return nested("[", "", "]", count(s, "depth")) },
	"json":        func(s map[string]any) string { return member(s, "text") },
	"schema_bomb": func(map[string]any) string { return schemaBomb(40) },
	"nest_object": func(s map[string]any) string { return nested(`{"a":`, "1", "}", count(s, "depth")) },
	"long_key":    func(s map[string]any) string { return `{"` + strings.Repeat("k", count(s, "count")) + `":1}` },
	"long_string": func(s map[string]any) string { return `{"a":"` + strings.Repeat("x", count(s, "count")) + `"}` },
	"hash_collide": func(s map[string]any) string {
		all := make([]string, count(s, "count"))
		for i := range all {
			all[i] = fmt.Sprintf(`"k%015d":1`, i)
		}
		return "{" + strings.Join(all, ",") + "}"
	},
	"template": func(s map[string]any) string { // a text with something long in one place
		return strings.ReplaceAll(member(s, "text"), "BIG", strings.Repeat(member(s, "unit"), count(s, "count")))
	},
	"gzip_bomb": func(s map[string]any) string { return upstream.CompressedZeros(int64(count(s, "decoded"))) },
}

func nested(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func member(spec map[string]any, name string) string {
	s, _ := spec[name].(string)
	return s
}

func count(spec map[string]any, name string) int {
	n, _ := spec[name].(float64)
	return int(n)
}
