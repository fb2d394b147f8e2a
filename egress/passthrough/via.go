package passthrough

import (
	"net/http"
	"net/url"
	"strings"

	"weir/internal/policy"
	"weir/internal/policy/callurl"
	"weir/internal/problem"
	"weir/schemas"
)

// placed is the value of a header field of a target for the client of a request; not ok: it gets none.
// /via puts targets below a path of this node, so that what a field says of paths, hosts and the whole
// origin would there be of the node.
func placed(r *http.Request, name, value string) (placed string, ok bool) {
	via := problem.ReportOf(r.Context())
	if via.Called == "" {
		return value, true
	}
	switch name {
	case "Location", "Content-Location":
		value = located(via, r.Host, value)
		return value, value != ""
	case "Set-Cookie":
		return confined(via, value), true
	case "Alt-Svc", "Clear-Site-Data", "Nel", "Refresh", "Report-To", "Reporting-Endpoints", "Service-Worker-Allowed", "Strict-Transport-Security":
		return "", false
	default:
		return value, true
	}
}

// located is where a reference of a target leads: through the entry within the origin of the call, and
// else to its whole URL. It is empty for one that cannot be read in one way, or that leads to the node
// itself, whose Host header is own: its client would send the token for Weir there.
func located(via *problem.Report, own, reference string) string {
	called, err := url.Parse(via.Called)
	if err != nil {
		return ""
	}
	to, err := called.Parse(callurl.Escaped(reference)) // else url.URL decodes the escapes beside raw characters
	if err != nil {
		return ""
	}
	whole, below := to.String(), schemas.RoutePassthrough+via.Entry
	if to.Scheme != "http" && to.Scheme != "https" {
		return whole
	}
	from, _ := policy.Read(via.Called, true)
	at, ok := policy.Split(to.Scheme+"://"+to.Host+"/", false)
	p, plain := policy.Split(whole, true) // without it, the client may resolve dots in the path
	switch {
	case !ok:
		return ""
	case strings.EqualFold(at.Authority(), strings.TrimSuffix(strings.TrimSuffix(own, ":443"), ":80")):
		if plain && strings.HasPrefix(p.Path, below+"/") {
			return whole // of a target that knows where it is reached
		}
		return ""
	case plain && at.Scheme == from.Scheme && at.Authority() == from.Authority():
		if fragment := to.EscapedFragment(); fragment != "" {
			return below + p.Target + "#" + fragment
		}
		return below + p.Target
	default:
		return whole
	}
}

// confined is a cookie of a target that its client sends to the entry alone.
func confined(via *problem.Report, cookie string) string {
	parts := strings.Split(cookie, ";")
	kept, path := parts[:1], ""
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "path": // the last one counts
			path = strings.TrimSpace(value)
		case "domain":
		default:
			kept = append(kept, part)
		}
	}
	if !strings.HasPrefix(path, "/") { // RFC 6265, section 5.1.4
		called, _ := policy.Read(via.Called, true)
		path = called.Path[:max(strings.LastIndexByte(called.Path, '/'), 0)]
	}
	if path == "/" {
		path = ""
	}
	return strings.Join(kept, ";") + "; Path=" + schemas.RoutePassthrough + via.Entry + path
}
