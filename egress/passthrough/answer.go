// Package passthrough answers with what targets answered: status, headers and body as they came.
package passthrough

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/egress"
	"weir/egress/executor"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/redact"
	"weir/internal/wire"
	"weir/schemas"
)

// answer writes the answer in the result of an ended call, or returns the error that says why there
// is none. An answer that does not fit the schema of its entry is not given as the target's.
func answer(s *egress.Server, w http.ResponseWriter, r *http.Request, ref schemas.Ref, end *schemas.Settled, doc json.RawMessage) error {
	res, err := read(doc)
	switch {
	case err != nil:
		return err
	case res.Answer == nil, res.Variant == schemas.VariantSchemaValidationFailed:
		return refused(r, ref, end, res)
	case res.Answer.Streamed:
		live(s, w, r, ref, nil)
		return nil
	default:
		return write(w, r, res)
	}
}

// write writes an answer as it came, and says if it comes from a probe.
func write(w http.ResponseWriter, r *http.Request, res schemas.HTTPResult) error {
	a := res.Answer
	body, ok := a.Bytes()
	if !ok {
		return fault.New(schemas.Poison, "the stored answer cannot be read")
	}
	ofHead := r.Method == http.MethodHead
	head(w.Header(), r, a.Headers, a.Hidden, ofHead)
	if res.Reconciled {
		w.Header().Set(schemas.HeaderReconciled, "true")
	}
	if bodied(a.Status) && (!ofHead || len(body) > 0) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(a.Status)
	if bodied(a.Status) && !ofHead {
		_, _ = w.Write(body) // the client is gone if it fails
	}
	return nil
}

// bodied reports whether an answer with this status may have a body.
func bodied(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// policyHeader is the header by which a browser does not run a target's page as one of this node's.
const policyHeader = "Content-Security-Policy"

// head sets the header fields of an answer as they came, in place of those that Weir's own answers
// have. See placed for those of an answer at /via.
func head(h http.Header, r *http.Request, fields, hidden []schemas.Header, keepLength bool) {
	for _, name := range []string{"Cache-Control", "X-Content-Type-Options", "X-Request-Id"} {
		h.Del(name)
	}
	h["Date"], h["Content-Type"] = nil, nil // net/http adds none of its own then
	if problem.ReportOf(r.Context()).Called != "" {
		h.Set(policyHeader, "sandbox") // whatever the request says of itself: not every browser says it
	}
	var named []string
	for _, f := range fields {
		if strings.EqualFold(f.Name, "Connection") {
			named = wire.Named(named, f.Value)
		}
	}
	seen := map[string]bool{policyHeader: true} // a second policy only restricts more
	for _, f := range plain(fields, hidden) {
		name := http.CanonicalHeaderKey(f.Name)
		if wire.PerConnection(name) || slices.Contains(named, name) || strings.HasPrefix(name, "Weir-") || name == "Content-Length" && !keepLength {
			continue
		}
		var ok bool
		if f.Value, ok = placed(r, name, f.Value); !ok {
			continue
		}
		if !seen[name] {
			seen[name] = true
			h.Del(name)
		}
		h.Add(name, f.Value)
	}
}

// plain are fields with the values that are hidden in them.
func plain(fields, hidden []schemas.Header) []schemas.Header {
	if len(hidden) == 0 {
		return fields
	}
	out := slices.Clone(fields)
	for i := range out {
		if f := out[i]; len(hidden) > 0 && f.Name == hidden[0].Name && (f.Value == redact.Mark || f.Value == redact.Binary) {
			out[i], hidden = hidden[0].AsCame(), hidden[1:]
		}
	}
	return out
}

// refused is the problem of a call without an answer that may be given.
func refused(r *http.Request, ref schemas.Ref, s *schemas.Settled, res schemas.HTTPResult) error {
	p := &problem.Error{Problem: executor.Refused(ref, s, res)}
	if s.Outcome == schemas.OutcomeUnknown {
		p.Code = s.Outcome.Code()
		if s.Resolution == nil {
			p.Detail += " (" + stream.ResolveURL(ref.ID) + ")"
		}
	}
	if d := res.Decision; d != nil {
		p.Rule, p.Reason = d.Entry, d.Reason
	}
	if hint := problem.ReportOf(r.Context()).Hint; hint != "" {
		p.Detail += " (" + hint + ")"
	}
	return p
}

// fail writes an error as a problem whose code is in a header too.
func fail(w http.ResponseWriter, r *http.Request, _ schemas.Ref, err error) {
	w.Header().Set(schemas.HeaderRefused, string(problem.Of(err).Code))
	problem.Write(w, r, err)
}
