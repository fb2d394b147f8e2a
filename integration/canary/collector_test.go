//go:build e2e

package canary_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracing "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/internal/weirtest/capture"
)

// collector takes spans, and says canaries about them.
type collector struct {
	at       string         // its base URL
	sent     capture.Buffer // the heads of the requests, and
	requests chan *tracing.ExportTraceServiceRequest
	key      atomic.Bool // its credential has come
}

// collect starts one whose credential is in the environment of this process.
func collect(t *testing.T, g *garden) *collector {
	t.Helper()
	c := &collector{requests: make(chan *tracing.ExportTraceServiceRequest, 10000)}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key="+g.secret("of a collector"))
	var asked atomic.Int64
	answers := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) {
			raw, err := proto.Marshal(&tracing.ExportTraceServiceResponse{PartialSuccess: &tracing.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: g.plant("why a span is not taken")}})
			if assert.NoError(t, err) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				_, _ = w.Write(raw)
			}
		},
		func(w http.ResponseWriter) {
			w.Header().Set("X-Collector", g.plant("collector's header"))
			http.Error(w, g.plant("why spans are refused"), http.StatusBadRequest)
		},
		func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/x-protobuf") },
		func(w http.ResponseWriter) {
			http.Redirect(w, httptest.NewRequest(http.MethodPost, "/", nil), "/"+g.plant("where spans are sent on to"), http.StatusTemporaryRedirect)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.take(t, r, g.text(t, "of a collector"))
		answers[int(asked.Add(1)-1)%len(answers)](w)
	}))
	t.Cleanup(server.Close)
	c.at = server.URL
	return c
}

// take notes a request: what it holds beside the collector's own credential.
func (c *collector) take(t *testing.T, r *http.Request, key string) {
	t.Helper()
	body, _ := io.ReadAll(r.Body) // half of it is none, see below
	if r.Header.Get("X-Collector-Key") == key {
		c.key.Store(true)
		r.Header.Del("X-Collector-Key")
	}
	fmt.Fprintf(&c.sent, "%s %s\n", r.Method, r.URL)
	_ = r.Header.Write(&c.sent) // to memory: cannot fail
	var req tracing.ExportTraceServiceRequest
	if assert.NoError(t, proto.Unmarshal(body, &req)) {
		c.requests <- &req
	}
}

// data are all spans without the names of models, which callers and providers make up, as
// text, and what is of no closed set in them. Nothing more may come.
func (c *collector) data(t *testing.T) (text []byte, bad []string) {
	t.Helper()
	close(c.requests)
	var b bytes.Buffer
	b.Write(c.sent.Bytes())
	for req := range c.requests {
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					named := valueOf(s.GetAttributes(), "gen_ai.request.model")
					bad = append(bad, checkSpan(s.GetAttributes())...)
					if s.GetName() == "chat "+named {
						s.Name = "chat"
					}
					s.Attributes = slices.DeleteFunc(s.GetAttributes(), func(a *common.KeyValue) bool {
						return strings.HasSuffix(a.GetKey(), ".model")
					})
				}
			}
		}
		raw, err := protojson.Marshal(req)
		require.NoError(t, err)
		b.Write(append(raw, '\n'))
	}
	return b.Bytes(), bad
}

// leak sends a text the way that spans come.
func (c *collector) leak(t *testing.T, text string) {
	t.Helper()
	raw, err := proto.Marshal(&tracing.ExportTraceServiceRequest{ResourceSpans: []*traces.ResourceSpans{{SchemaUrl: text}}})
	require.NoError(t, err)
	resp, err := http.Post(c.at, "application/x-protobuf", bytes.NewReader(raw))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

func valueOf(list []*common.KeyValue, key string) string {
	for _, a := range list {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// spanText are the texts that an attribute of a span may have.
var spanText = map[string]*regexp.Regexp{
	"gen_ai.operation.name":          regexp.MustCompile(`^chat$`),
	"gen_ai.request.model":           modelName,
	"gen_ai.response.model":          modelName,
	"gen_ai.provider.name":           regexp.MustCompile(`^(any:any|slow:any|cut:any|spent:any|window:any|named:any|first|second|third|fourth|wire[.a-z]*|nobody|forged|inside|poison|unresolved|keyless|unpriced|talker)$`),
	"gen_ai.response.finish_reasons": finishReason,
	"error.type":                     regexp.MustCompile(`^([A-Z][A-Z_]{2,40}|_OTHER|[45][0-9]{2})$`),
	"weir.action_id":                 regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`),
	"weir.tenant":                    regexp.MustCompile(`^(owner|stranger|default)$`),
	"weir.kind":                      regexp.MustCompile(`^[a-z]{3,8}$`),
	"weir.entry":                     regexp.MustCompile(`^[A-Za-z0-9._:@*+/-]{0,160}$`),
	"http.request.method":            regexp.MustCompile(`^[A-Z]{3,8}$`),
	"http.route":                     regexp.MustCompile(`^/[A-Za-z0-9._:/*-]*$`),
	"weir.outcome":                   regexp.MustCompile(`^[a-z_]{2,20}$`),
}

var (
	modelName    = regexp.MustCompile(`^[A-Za-z0-9._:@+/-]{1,256}$`)
	finishReason = regexp.MustCompile(`^(stop|length|tool_calls|content_filter|function_call|error|other)$`)
)

// checkSpan is the positive check of a span: whatever it says is of its closed set.
func checkSpan(list []*common.KeyValue) (bad []string) {
	for _, a := range list {
		texts := []*common.AnyValue{a.GetValue()}
		if l := a.GetValue().GetArrayValue(); l != nil {
			texts = l.GetValues()
		}
		for _, v := range texts {
			text, ok := v.GetValue().(*common.AnyValue_StringValue)
			if form := spanText[a.GetKey()]; ok && (form == nil || !form.MatchString(text.StringValue)) {
				bad = append(bad, "a text as "+a.GetKey())
			}
		}
	}
	return bad
}
