package call

import (
	"net/url"
	"slices"
	"strings"

	"weir/schemas"
)

// Fingerprint names a call without its values, as the HTTP connector document
// has it: METHOD scheme://host[:port]/path? and the sorted unique names of the
// query. The path is as it was sent; user information never shows.
func Fingerprint(c schemas.HTTPCall) string {
	rest, _, _ := strings.Cut(c.URL, "#")
	rest, query, _ := strings.Cut(rest, "?")
	scheme, authority, ok := strings.Cut(rest, "://")
	if !ok {
		return c.Method + " ?"
	}
	host, path, _ := strings.Cut(authority, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	return c.Method + " " + scheme + "://" + host + "/" + path + "?" + strings.Join(names(query), ",")
}

// Host is the host that a call names, as far as its URL tells, in lower case and
// without port or user information: for the words of a refusal.
func Host(c schemas.HTTPCall) string {
	_, rest, _ := strings.Cut(c.URL, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		rest, _, _ = strings.Cut(inner, "]")
	} else {
		rest, _, _ = strings.Cut(rest, ":")
	}
	return strings.ToLower(rest)
}

// names are the sorted unique names of a query.
func names(query string) []string {
	var found []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if name != "" {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
