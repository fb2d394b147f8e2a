package ingress

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/internal/problem"
	"weir/schemas"
)

// line is the log line of a request without its duration. A stream keeps it until the stream ends.
type line struct {
	start                                      time.Time
	method, id, route, surface, tenant, action string
	status                                     int
	code                                       schemas.Code
	stream                                     bool
}

func lineOf(c *gin.Context, start time.Time, id string) line {
	report := problem.ReportOf(c.Request.Context())
	l := line{
		start: start, method: c.Request.Method, id: id, route: c.FullPath(), status: c.Writer.Status(),
		surface: cmp.Or(marked(c).Name, report.Surface), tenant: c.GetString(keyTenant), action: c.GetString(keyAction),
		code: report.Code, stream: strings.HasPrefix(c.Writer.Header().Get("Content-Type"), "text/event-stream"),
	}
	// A client that is gone does not receive an answer.
	if c.Request.Context().Err() != nil && (!c.Writer.Written() || l.status == http.StatusServiceUnavailable) {
		l.status = statusClientGone
	}
	return l
}

func (m *middleware) log(l line) {
	took := m.Now().Sub(l.start)
	m.Metrics.Answered(l.surface, l.method, l.stream, l.status, took)
	attrs := []slog.Attr{
		slog.String("method", l.method), slog.Int("status", l.status),
		slog.Duration("duration_ms", took), slog.String("request_id", l.id),
	}
	for _, a := range []struct{ key, value string }{
		{"route", l.route}, {"surface", l.surface}, {"tenant", l.tenant}, {"action_id", l.action},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if l.code != "" {
		attrs = append(attrs, slog.String("code", string(l.code)))
	}
	level := slog.LevelInfo
	if l.status >= http.StatusInternalServerError && !targetFailed(l.code) {
		level = slog.LevelError
	}
	m.Logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// targetFailed reports whether a code describes a failure of the target, model, agent or upstream
// repository. Weir works as intended then, and its operator has nothing to mend.
func targetFailed(code schemas.Code) bool {
	switch code {
	case schemas.HTTPFailure, schemas.RetriesExhausted, schemas.ResponseNotJSON, schemas.ResponseSchemaInvalid,
		schemas.PostconditionFailed, schemas.OutcomeUnknownCode, schemas.Canceled, schemas.DeadlineExceeded,
		schemas.AgentUnavailable, schemas.TaskFailed, schemas.ModelFailed, schemas.GitRejected:
		return true
	default:
		return slices.Contains(schemas.UpstreamCodes(), code)
	}
}
