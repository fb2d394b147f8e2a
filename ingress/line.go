package ingress

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// line is what the one line of a request says, but for how long it took. A stream
// holds it until its end.
type line struct {
	start                                      time.Time
	method, id, route, surface, tenant, action string
	status                                     int
	code                                       any
}

func lineOf(c *gin.Context, start time.Time, id string) line {
	l := line{
		start: start, method: c.Request.Method, id: id, route: c.FullPath(), status: c.Writer.Status(),
		surface: marked(c).Name, tenant: c.GetString(keyTenant), action: c.GetString(keyAction),
	}
	l.code, _ = c.Get(keyCode)
	// Errors after the client has disconnected, and because of it, have no reader.
	if c.Request.Context().Err() != nil && (!c.Writer.Written() || l.status == http.StatusServiceUnavailable) {
		l.status = statusClientGone
	}
	return l
}

func (m *middleware) log(l line) {
	attrs := []slog.Attr{
		slog.String("method", l.method), slog.Int("status", l.status),
		slog.Duration("duration_ms", m.Now().Sub(l.start)), slog.String("request_id", l.id),
	}
	for _, a := range []struct{ key, value string }{
		{"route", l.route}, {"surface", l.surface}, {"tenant", l.tenant}, {"action_id", l.action},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if l.code != nil {
		attrs = append(attrs, slog.Any("code", l.code))
	}
	level := slog.LevelInfo
	if l.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	m.Logger.LogAttrs(context.Background(), level, "request", attrs...)
}
