package problem

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// FromGit reports whether the real git asks, or says that it does.
func FromGit(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "git/") }

// WriteGit is Write for a route of git. A client of git gets the sentence alone, as
// text: it shows that to the person, and nothing of anything else. Without a token the
// answer asks for one the way in which git gives it.
func WriteGit(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="weir"`)
	}
	if !FromGit(r) {
		Write(w, r, err)
		return
	}
	text := cmp.Or(e.Detail, e.Title) + " (" + string(e.Code) + ")\n"
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	e.Remedy(h)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(e.Status)
	_, _ = w.Write([]byte(text)) // the client is gone if this fails
}
