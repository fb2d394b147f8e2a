// Package session reads and writes the cookie that a browser is signed in by, and tells the
// console's own requests from those that other pages make it send.
package session

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/schemas"
)

// cookie is the name of the cookie. Under TLS its prefix has browsers refuse one that another
// host of the same domain, or a page without TLS, tries to put in its place.
func cookie(public string) string {
	if secure(public) {
		return "__Host-weir_console"
	}
	return "weir_console"
}

// secure reports whether browsers reach this node by TLS. Without a configured https URL there may
// be no TLS, and the browser would not send such a cookie back.
func secure(public string) bool { return strings.HasPrefix(public, "https://") }

// Of is the session that a request of the console's own comes with. It is none where the
// request brings an Authorization of its own, which then counts alone.
func Of(r *http.Request, public string) (value string, ok bool) {
	if len(r.Header.Values("Authorization")) > 0 || !Own(r, public) {
		return "", false
	}
	cookies := r.CookiesNamed(cookie(public))
	if len(cookies) != 1 || cookies[0].Value == "" {
		return "", false
	}
	return cookies[0].Value, true
}

// Own reports whether a request came from a page of this origin. A browser sends the console's
// header only for such a page, because no preflight from another origin is answered. The browser
// also sends the page's origin, in Origin or in Sec-Fetch-Site. Public is this node's external URL.
func Own(r *http.Request, public string) bool {
	if values := r.Header.Values(schemas.HeaderConsole); len(values) != 1 || values[0] != "1" {
		return false
	}
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) > 0 {
		return len(site) == 1 && site[0] == "same-origin"
	}
	origin := r.Header.Values("Origin")
	if len(origin) == 0 {
		return true
	}
	u, err := url.Parse(origin[0])
	return err == nil && len(origin) == 1 && u.Host != "" && (strings.EqualFold(u.Host, r.Host) || strings.EqualFold(origin[0], public))
}

// Without is the value of a Cookie header without sessions of consoles, which no target gets.
func Without(cookies string) string {
	var rest []string
	for pair := range strings.SplitSeq(cookies, ";") {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if name != cookie("") && name != cookie("https://") {
			rest = append(rest, pair)
		}
	}
	return strings.TrimSpace(strings.Join(rest, ";"))
}

// Set has the browser keep a session until it ends, out of reach of scripts and of other sites.
func Set(w http.ResponseWriter, public, value string, until time.Time) {
	write(w, public, value, max(1, int(time.Until(until).Seconds())))
}

// Clear has the browser forget it.
func Clear(w http.ResponseWriter, public string) { write(w, public, "", -1) }

func write(w http.ResponseWriter, public, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure as far as can be
		Name: cookie(public), Value: value, Path: "/", MaxAge: age, Secure: secure(public), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}
