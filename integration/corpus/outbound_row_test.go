//go:build e2e

package corpus_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/weirtest/upstream"
)

// outboundRow is one line of the corpus. What only some rows have stays raw.
type outboundRow struct {
	ID       string                     `json:"id"`
	Category string                     `json:"category"`
	Policy   outboundPolicy             `json:"policy"`
	Request  map[string]json.RawMessage `json:"request"`
	Resolver map[string][]dnsAnswer     `json:"resolver"`
	Upstream behaviourSpec              `json:"upstream"`
	Expected string                     `json:"expected"` // allow or deny
	Code     string                     `json:"code"`
	Sent     [2]int                     `json:"sent"`
	Level    string                     `json:"level"` // strict: the code is advice
	Static   bool                       `json:"static"`
	Assert   map[string]json.RawMessage `json:"assert"`
	Why      string                     `json:"why"`

	line   []byte
	unread error // what keeps the line from being a row
}

type outboundPolicy struct {
	Entries      []map[string]json.RawMessage `json:"entries"`
	AllowedHosts []string                     `json:"allowed_hosts"`
	SelfPorts    []int                        `json:"self_ports"`
	SelfHosts    []string                     `json:"self_hosts"`
}

// dnsAnswer is one answer of the resolver: a list, or one word.
type dnsAnswer []string

func (a *dnsAnswer) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = dnsAnswer{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return errors.New("an answer is neither a list nor a word")
	}
	*a = list
	return nil
}

// outboundFile is the corpus.
const outboundFile = "testdata/outbound.jsonl"

// otherOutbound names another file of rows to run instead.
const otherOutbound = "WEIR_OUTBOUND_CASES"

func readOutbound(t *testing.T) []outboundRow {
	t.Helper()
	paths := []string{outboundFile, "testdata/outbound_own.jsonl"}
	if other := os.Getenv(otherOutbound); other != "" {
		paths = []string{other}
	}
	var rows []outboundRow
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 16<<20)
		for n := 1; lines.Scan(); n++ {
			line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
			if len(line) == 0 {
				continue
			}
			var r outboundRow
			r.unread = readStrictly(line, &r)
			r.line = line
			r.ID = cmp.Or(r.ID, path+":"+itoa(n))
			rows = append(rows, r)
		}
		require.NoError(t, lines.Err())
	}
	require.NotEmpty(t, rows)
	return rows
}

// readStrictly reads one JSON document and refuses members that nothing would use.
func readStrictly(doc []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// requestMembers are sent in this order.
var requestMembers = []string{"method", "url", "allowlist_key", "headers", "params", "body", "response_schema", "idempotency_key"}

// dnsWords are the answers of a resolver that are no addresses.
var dnsWords = []string{upstream.NXDomain, upstream.ServFail, upstream.DNSTimeout, upstream.EmptyAnswer}

// lacks names what the row says and the harness does not know; "" lets it run.
func (r *outboundRow) lacks() string {
	switch {
	case r.unread != nil:
		return "reader of this row: " + r.unread.Error()
	case r.Expected != "allow" && r.Expected != "deny":
		return fmt.Sprintf("verdict %q", r.Expected)
	case r.Level != "must" && r.Level != "strict":
		return fmt.Sprintf("level %q", r.Level)
	case len(r.Policy.SelfHosts) > 0:
		return "node with names of its own (self_hosts)"
	}
	for name, value := range r.Request {
		if !slices.Contains(requestMembers, name) {
			return fmt.Sprintf("request member %q", name)
		}
		if _, err := written(value); err != nil {
			return err.Error()
		}
	}
	for _, answers := range r.Resolver {
		for _, item := range slices.Concat(answers...) {
			if _, err := netip.ParseAddr(item); err != nil && !slices.Contains(dnsWords, item) && !strings.HasPrefix(item, upstream.CNAME) {
				return fmt.Sprintf("resolver answer %q", item)
			}
		}
	}
	if _, err := r.behaviours(); err != nil {
		return err.Error()
	}
	for name := range r.Assert {
		if _, ok := outboundChecks[name]; !ok {
			return fmt.Sprintf("assertion %q", name)
		}
	}
	if point := text(r.Assert["crash_at"]); r.asserts("crash_at") && crashPoints[point] == nil {
		return fmt.Sprintf("crash point %q", point)
	}
	if cfg, err := config.Parse("row.yaml", r.configuration("data", r.Policy), nil, nil); err != nil {
		return "configuration for this policy: " + err.Error()
	} else if _, err := cfg.Compile(); err != nil {
		return "configuration for this policy: " + err.Error()
	}
	return ""
}

// text reads a member that is a string; "" where it is none.
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// is reports whether a member is the JSON literal true.
func is(raw json.RawMessage) bool { return string(raw) == "true" }

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// list reads a member that is a string or a list of strings, or either in "|".
func list(t *testing.T, raw json.RawMessage) []string {
	t.Helper()
	var answer dnsAnswer
	require.NoError(t, json.Unmarshal(raw, &answer))
	return answer
}

// number reads a member that is a whole number.
func number(t *testing.T, raw json.RawMessage) int {
	t.Helper()
	var n int
	require.NoError(t, json.Unmarshal(raw, &n))
	return n
}

func (r *outboundRow) url() string { return text(r.Request["url"]) }

func (r *outboundRow) scheme() string {
	scheme, _, _ := strings.Cut(strings.ToLower(r.url()), ":")
	return scheme
}

// asserts reports whether the row has a further check of this name.
func (r *outboundRow) asserts(name string) bool {
	_, ok := r.Assert[name]
	return ok
}

// generated is content that is described instead of written out.
type generated struct {
	Gen   string `json:"gen"`
	Unit  string `json:"unit"`
	Count int    `json:"count"`
	Depth int    `json:"depth"`
	Text  string `json:"text"`
}

// written is a value of the corpus as the JSON text it stands for: its own bytes, or
// those that it describes. The text may be no JSON: then that is what the row is about.
func written(raw json.RawMessage) (string, error) {
	var described struct {
		Gen json.RawMessage `json:"gen"`
	}
	_ = json.Unmarshal(raw, &described) // most values are no objects
	if described.Gen == nil {
		return string(raw), nil
	}
	var g generated
	if err := readStrictly(raw, &g); err != nil {
		return "", fmt.Errorf("generator %s: %w", cut(string(raw)), err)
	}
	switch g.Gen {
	case "repeat":
		if b, err := json.Marshal(g.Unit); err != nil || string(b) != `"`+g.Unit+`"` {
			return "", fmt.Errorf("generator that repeats %q, which JSON must escape", g.Unit)
		}
		return `"` + strings.Repeat(g.Unit, g.Count) + `"`, nil
	case "nest":
		return strings.Repeat("[", g.Depth) + strings.Repeat("]", g.Depth), nil
	case "json":
		return g.Text, nil
	case "schema_bomb":
		return schemaBomb(40), nil
	}
	return "", fmt.Errorf("generator %q", g.Gen)
}

// schemaBomb is small and takes 2^n steps to find that nothing fits.
func schemaBomb(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d` + itoa(n) + `","$defs":{"d0":{"type":"null"}`)
	for i := 1; i <= n; i++ {
		ref := `{"$ref":"#/$defs/d` + itoa(i-1) + `"}`
		b.WriteString(`,"d` + itoa(i) + `":{"anyOf":[` + ref + "," + ref + "]}")
	}
	b.WriteString("}}")
	return b.String()
}
