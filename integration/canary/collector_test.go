//go:build e2e

package canary_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	tracing "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/internal/weirtest/capture"
)

// collector receives spans. It keeps them without names of models, and its answers are canaries.
type collector struct {
	url   string
	got   capture.Buffer
	keyed atomic.Bool // its credential came
}

func collect(t *testing.T, g *garden) *collector {
	t.Helper()
	c := &collector{}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.take(t, r, g.secret("collector"))
		w.Header().Set("X-Collector", g.plant("collector's header"))
		switch asked.Add(1) % 4 {
		case 1:
			http.Error(w, g.plant("why spans are refused"), http.StatusBadRequest)
		case 2:
			raw, _ := proto.Marshal(&tracing.ExportTraceServiceResponse{PartialSuccess: &tracing.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: g.plant("why a span is refused")}})
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(raw)
		default:
			w.Header().Set("Content-Type", "application/x-protobuf")
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) take(t *testing.T, r *http.Request, key string) {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	var req tracing.ExportTraceServiceRequest
	if err != nil || !assert.NoError(t, proto.Unmarshal(data, &req)) {
		return // the program was killed
	}
	if r.Header.Get("X-Collector-Key") == key {
		c.keyed.Store(true)
		r.Header.Del("X-Collector-Key")
	}
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				if strings.HasPrefix(s.GetName(), "chat ") {
					s.Name = "chat"
				}
				s.Attributes = slices.DeleteFunc(s.GetAttributes(), func(a *common.KeyValue) bool { return strings.HasSuffix(a.GetKey(), ".model") })
			}
		}
	}
	var b bytes.Buffer
	_ = r.Header.Write(&b) // to memory: cannot fail
	fmt.Fprintf(&c.got, "%s %s\n%s%s\n", r.Method, r.URL, b.String(), protojson.Format(&req))
}
