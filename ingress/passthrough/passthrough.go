// Package passthrough translates requests that are meant for a target to calls: method, path,
// query, headers and body are the caller's, and nothing of them is read but what Weir itself needs.
package passthrough

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/policy/callurl"
	"weir/internal/problem"
	"weir/schemas"
)

// Config of a Handler. All are required.
type Config struct {
	// Policy returns what decides about a caller's calls; Entries is the policy in force.
	Policy  func(who grant.Caller) executor.Policy
	Entries func() *policy.Policy
	// Bodies stores the large bodies of calls.
	Bodies Bodies
	// MaxBody is the largest body in bytes; default 64 MiB.
	MaxBody int64
	// Canceler stops an action whose caller has left.
	Canceler ingress.Canceler
	// Answer is ingress.Config.Reply. left is called at most once, when the caller has gone before the
	// end and was the last on this node who waited for it or read it; it may be nil.
	Answer func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration, left func())
}

// Handler stores requests that are passed through, and answers them. It is safe for concurrent use.
type Handler struct {
	server *ingress.Server
	cfg    Config
}

// New returns a Handler of a server.
func New(s *ingress.Server, cfg Config) *Handler {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 64<<20)
	return &Handler{s, cfg}
}

// Surface is ANY /via/{entry}/{path}.
func (d *Handler) Surface() ingress.Surface {
	out := ingress.Surface{
		Name: "passthrough", Kind: schemas.KindPassthrough, Fail: Refuse, Redrive: d.redrive, Canceled: executor.Canceled,
		Owns: func(path string) bool { return strings.HasPrefix(path, schemas.RoutePassthrough) },
	}
	for _, method := range schemas.Methods() {
		for _, path := range []string{schemas.RoutePassthrough + ":entry", schemas.RoutePassthrough + ":entry/*path"} {
			out.Routes = append(out.Routes, ingress.Route{Method: method, Path: path, Handle: d.via})
		}
	}
	return out
}

// via serves a request for an entry's target.
func (d *Handler) via(c *gin.Context) error {
	who, err := d.server.Sender(c.Request, Token(c.Request.Header))
	if err != nil {
		return err
	}
	ingress.SetTenant(c, who.Tenant)
	if err := fault.Scope(who.Scopes, schemas.ScopeActionsWrite); err != nil {
		return err
	}
	entry, target := split(c.Request.RequestURI)
	origin, ok := d.cfg.Entries().Origin(entry, who.Entries)
	if !ok {
		return unknown(d.cfg.Entries().WithOrigin(who.Entries))
	}
	return d.Serve(c, who, origin+target, entry)
}

// split cuts a request target into the name of an entry and the target of the call, both as they
// were sent. Names of entries have no escapes.
func split(uri string) (entry, target string) {
	rest := strings.TrimPrefix(uri, schemas.RoutePassthrough)
	end := strings.IndexAny(rest, "/?")
	switch {
	case end < 0:
		entry, target = rest, "/"
	case rest[end] == '?':
		entry, target = rest[:end], "/"+rest[end:]
	default:
		entry, target = rest[:end], rest[end:]
	}
	if name, err := url.PathUnescape(entry); err == nil {
		entry = name
	}
	return entry, target
}

// maxNamed is how many entries a refusal names.
const maxNamed = 20

// unknown says which entries could be used.
func unknown(names []string) error {
	text := "no entry that this caller may use has this name and one exact host; "
	more := ""
	if len(names) > maxNamed {
		names, more = names[:maxNamed], " or another of the policy"
	}
	if len(names) > 0 {
		text += "use " + strings.Join(names, ", ") + more + ", or "
	}
	return fault.New(schemas.NotFound, text+"send the call with its whole URL to /v1/execute or through the proxy")
}

// Serve stores the request of a caller as a call of an absolute URL by an entry, or joins the call
// with its Idempotency-Key, and answers. An empty entry stands for the first one that fits. The
// sender was authenticated before. A Weir token in Authorization or X-Api-Key is not passed on. After
// an error nothing was written.
func (d *Handler) Serve(c *gin.Context, who ingress.Identity, target, entry string) error {
	defer d.server.ReserveBody(c)()
	target = callurl.Escaped(target)
	if entry != "" { // of /via
		report := problem.ReportOf(c.Request.Context())
		report.Entry, report.Called = entry, target
	}
	req, body, err := d.request(c, who, target, entry)
	if body != nil {
		defer body.discard(c.Request.Context())
	}
	if err != nil {
		return err
	}
	alone := req.Class == schemas.ClassSafe && req.Name.ID == "" // no other request can join it
	return d.server.Submit(c, req, func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration) {
		body.discard(r.Context())
		var left func()
		if alone {
			left = d.cfg.Canceler.Left(c, d.server, ref) //nolint:contextcheck // c has it
		}
		d.cfg.Answer(w, r, ref, receipt, wait, left)
	})
}

// request translates a request.
func (d *Handler) request(c *gin.Context, who ingress.Identity, target, entry string) (req accept.Request, body *body, err error) {
	r := c.Request
	key, terms, err := accept.ReadHeaders(r.Header, d.server.Now())
	if err != nil {
		return req, nil, err
	}
	own := *r
	own.Header = withoutTokens(r.Header)
	body, err = d.open(c)
	if err != nil {
		return req, body, err
	}
	asked := executor.Request{Call: call(&own, body.start)}
	asked.Call.URL, asked.Call.AllowlistKey = target, entry
	if key != "" {
		asked.Call.IdempotencyKey = strings.TrimSpace(r.Header.Get("Idempotency-Key"))
	}
	key = d.decide(&asked, who, key)
	ungranted := grant.Entry(asked.Call.AllowlistKey, who.Entries)
	keep := ungranted == nil && asked.Kept().Denied == nil && d.server.Acceptor().Refusal(who.Tenant, schemas.KindPassthrough) == nil
	err = body.spool(r.Context(), &asked.Call, keep)
	if err = cmp.Or(err, ungranted); err != nil {
		return req, body, err
	}
	if asked.Decision.Code == schemas.DenyHeader {
		problem.ReportOf(r.Context()).Hint = refusedHeader(d.cfg.Policy(who.Asks(schemas.KindPassthrough, "")), asked.Call)
	}
	req, err = asked.Order().Request(who, schemas.KindPassthrough, accept.NameOf(who.Tenant, who.Keys(route(target, entry)), "", key), terms)
	req.Joins, req.TraceParent = true, r.Header.Get(schemas.HeaderTraceParent)
	if asked.Kept().Denied == nil {
		req.Commit = body.commit(who.Tenant)
	}
	if err == nil {
		req.Whole, err = recognised(asked.Call)
	}
	return req, body, err
}

// decide evaluates a call, and returns its key, which may be in the header that its target reads. Neither
// policy nor rules read the bytes of such a body, so it is decided before they are all here.
func (d *Handler) decide(asked *executor.Request, who ingress.Identity, key string) string {
	decides := d.cfg.Policy(who.Asks(schemas.KindPassthrough, ""))
	asked.Decision, asked.Class = decides.Evaluate(asked.Call)
	if asked.Decision.Code == schemas.DenyHeader && key == "" {
		name := d.cfg.Entries().KeyHeader(asked.Decision.Entry)
		if key = extractKey(&asked.Call, name); key != "" {
			asked.Decision, asked.Class = decides.Evaluate(asked.Call)
		}
	}
	return key
}

// extractKey makes the header in which an entry's target reads keys the key of a call. It does nothing
// for a header that is not there, or is no key.
func extractKey(c *schemas.HTTPCall, name string) (key string) {
	i := slices.IndexFunc(c.Headers, func(h schemas.Header) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 {
		return ""
	}
	key, err := accept.Key([]string{c.Headers[i].Value})
	if err != nil {
		return ""
	}
	c.IdempotencyKey = c.Headers[i].Value
	c.Headers = slices.Delete(c.Headers, i, i+1)
	return key
}

// refusedHeader names the header for which policy refuses a call; empty: it is not one alone. No
// record has the name: a caller may have written anything in it.
func refusedHeader(decides executor.Policy, c schemas.HTTPCall) string {
	all := c.Headers
	if c.Headers = nil; denied(decides, c) { // for a header that is missing
		return ""
	}
	for i := range all {
		c.Headers = all[i : i+1]
		if denied(decides, c) {
			return "the header is " + all[i].Name
		}
	}
	return ""
}

// denied reports whether policy refuses a call for its headers.
func denied(decides executor.Policy, c schemas.HTTPCall) bool {
	d, _ := decides.Evaluate(c)
	return d.Code == schemas.DenyHeader
}

// route scopes Idempotency-Keys to an entry and a target's origin. It must never change.
func route(target, entry string) string {
	origin := target
	if i := strings.Index(target, "://"); i >= 0 {
		if end := strings.IndexAny(target[i+3:], "/?#"); end >= 0 {
			origin = target[:i+3+end]
		}
	}
	return schemas.RoutePassthrough + entry + " " + strings.ToLower(origin)
}

// Refuse writes an error as a problem whose code is in a header too, so that a client can tell it
// from an answer of the target.
func Refuse(c *gin.Context, p problem.Error, err error) schemas.Code {
	c.Writer.Header().Set(schemas.HeaderRefused, string(p.Code))
	problem.Write(c.Writer, c.Request, err)
	return p.Code
}
