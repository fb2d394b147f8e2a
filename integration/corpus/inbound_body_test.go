//go:build e2e

package corpus_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

// bodyMakers make the bodies that are too long to be written down.
var bodyMakers = map[string]func(spec map[string]any) string{
	"nest_array": func(s map[string]any) string {
		n := count(s, "depth")
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	},
	"nest_object": func(s map[string]any) string {
		n := count(s, "depth")
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	},
	"long_key":    func(s map[string]any) string { return `{"` + strings.Repeat("k", count(s, "count")) + `":1}` },
	"long_string": func(s map[string]any) string { return `{"a":"` + strings.Repeat("x", count(s, "count")) + `"}` },
	"hash_collide": func(s map[string]any) string {
		var b strings.Builder
		b.WriteString("{")
		for i := range count(s, "count") {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"k%015d":1`, i)
		}
		return b.String() + "}"
	},
	// A text with something long in one place.
	"template": func(s map[string]any) string {
		text, _ := s["text"].(string)
		unit, _ := s["unit"].(string)
		return strings.ReplaceAll(text, "BIG", strings.Repeat(unit, count(s, "count")))
	},
	"gzip_bomb": func(s map[string]any) string { return upstream.CompressedZeros(int64(count(s, "decoded"))) },
}

func count(spec map[string]any, name string) int {
	n, _ := spec[name].(float64)
	return int(n)
}

// text gives a value of a row: a string, bytes in base64, or what is generated.
func (r *inboundRow) text(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var s string
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &s) == nil {
		return s
	}
	var spec map[string]any
	require.NoError(t, json.Unmarshal(raw, &spec))
	if b64, ok := spec["b64"].(string); ok {
		data, err := base64.StdEncoding.DecodeString(b64)
		require.NoError(t, err)
		return string(data)
	}
	name, _ := spec["gen"].(string)
	if name == "repeat" {
		unit, _ := spec["unit"].(string)
		return strings.Repeat(unit, count(spec, "count"))
	}
	require.Contains(t, bodyMakers, name)
	return bodyMakers[name](spec)
}

// bytes are the request as it goes over the wire.
func (r *inboundRow) bytes(t *testing.T, g *gateway) string {
	t.Helper()
	if r.Method == methodRaw {
		return r.placeRaw(g.fill(t, r, r.Raw))
	}
	body := r.body(t, g)
	return r.head(t, g, int64(len(body))) + body
}

// body is the row's, byte for byte, with its placeholders filled in. Bytes in base64
// and generated ones have no placeholders, but for a template.
func (r *inboundRow) body(t *testing.T, g *gateway) string {
	t.Helper()
	body := r.text(t, r.Body)
	if strings.HasPrefix(string(r.Body), `"`) || strings.Contains(string(r.Body), `"template"`) {
		body = g.fill(t, r, body)
	}
	return r.adapt(body, g.upstream.URL)
}

// head is all that stands before a body.
func (r *inboundRow) head(t *testing.T, g *gateway, size int64) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: gw.test\r\n", r.Method, r.place(r.Method, g.fill(t, r, r.Path)))
	sized := false
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		value := g.fill(t, r, r.text(t, r.Headers[name]))
		// The one way that a line break has into a value is a folded line.
		value = strings.ReplaceAll(value, "\r\n", "\r\n ")
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		sized = sized || strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding")
	}
	if !sized && (size > 0 || r.Method == http.MethodPost) {
		b.WriteString("Content-Length: " + strconv.FormatInt(size, 10) + "\r\n")
	}
	return b.String() + "\r\n"
}

var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)(?:\*(\d+))?\}`)

// fill puts the fixture's values in the places of a text.
func (g *gateway) fill(t *testing.T, r *inboundRow, text string) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		parts := placeholder.FindStringSubmatch(m)
		if parts[2] != "" {
			n, err := strconv.Atoi(parts[2])
			require.NoError(t, err)
			unit, ok := r.Gen[parts[1]].(string)
			require.True(t, ok, "the row has no gen for the placeholder %s", m)
			return strings.Repeat(unit, n)
		}
		value, ok := g.value(t, r, parts[1])
		require.True(t, ok, "the harness has no value for the placeholder %s", m)
		return value
	})
}
