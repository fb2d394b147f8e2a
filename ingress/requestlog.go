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

// log counts a request that was answered, and writes its line.
func (m *middleware) log(c *gin.Context, start time.Time, id string) {
	r, report := stateOf(c), problem.ReportOf(c.Request.Context())
	surface, status, took := cmp.Or(r.surface.Name, report.Surface), c.Writer.Status(), m.Now().Sub(start)
	// A client that is gone does not receive an answer.
	if c.Request.Context().Err() != nil && (!c.Writer.Written() || status == http.StatusServiceUnavailable) {
		status = statusClientGone
	}
	stream := strings.HasPrefix(c.Writer.Header().Get("Content-Type"), "text/event-stream")
	m.Metrics.Answered(surface, c.Request.Method, stream, status, took)
	attrs := []slog.Attr{
		slog.String("method", c.Request.Method), slog.Int("status", status),
		slog.Duration("duration_ms", took), slog.String("request_id", id),
	}
	for _, a := range []struct{ key, value string }{
		{"route", c.FullPath()},
		{"surface", surface},
		{"tenant", r.tenant},
		{"action_id", r.action},
		{"code", string(report.Code)},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	level := slog.LevelInfo
	if status >= http.StatusInternalServerError && !targetFailed(report.Code) {
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
