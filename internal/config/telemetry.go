package config

import (
	"net/url"
	"strings"
)

// checkTelemetry judges what Weir says about itself. The endpoint's text is not repeated:
// it may hold a password by mistake.
func (r *reader) checkTelemetry(t Telemetry) {
	r.oneOf("telemetry.log_level", t.LogLevel, "debug", "info", "warn", "error")
	r.oneOf("telemetry.log_format", t.LogFormat, "json", "text")
	const key = "telemetry.otlp.endpoint"
	raw := t.OTLP.Endpoint
	if raw == "" {
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		r.wrong(key, "is not a URL that begins with http:// or https:// and a host, such as http://127.0.0.1:4318")
	case u.User != nil:
		r.wrong(key, "holds a user name or a password; give the collector's credential in OTEL_EXPORTER_OTLP_HEADERS")
	case strings.ContainsAny(raw, "?#"):
		r.wrong(key, "has a query or a fragment; leave it out")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1/traces"):
		r.wrong(key, "ends in /v1/traces, which is added to it; leave that out")
	}
}
