package schemas

import (
	"slices"
	"strings"
)

// Dialect names a protocol of models. The empty Dialect of a stored order is DialectChat.
type Dialect string

// The dialects that Weir serves. DialectCount is the part of Messages that counts the tokens of a
// request: an upstream that speaks DialectMessages answers it.
const (
	DialectChat       Dialect = "chat"
	DialectResponses  Dialect = "responses"
	DialectMessages   Dialect = "messages"
	DialectCount      Dialect = "count_tokens"
	DialectEmbeddings Dialect = "embeddings"
)

// Dialects lists the dialects that an upstream can speak.
func Dialects() []Dialect {
	return []Dialect{DialectChat, DialectResponses, DialectMessages, DialectEmbeddings}
}

// The routes of the dialects besides RouteChat, each also under the other ChatBases.
const (
	RouteResponses  = "/responses"
	RouteMessages   = "/messages"
	RouteCount      = "/messages/count_tokens"
	RouteEmbeddings = "/embeddings"
)

// Route is the path of a dialect's requests, here and below an upstream's URL.
func (d Dialect) Route() string {
	switch d {
	case DialectResponses:
		return RouteResponses
	case DialectMessages:
		return RouteMessages
	case DialectCount:
		return RouteCount
	case DialectEmbeddings:
		return RouteEmbeddings
	default:
		return RouteChat
	}
}

// Family is the dialect that an upstream must speak to answer this one.
func (d Dialect) Family() Dialect {
	switch d {
	case "":
		return DialectChat
	case DialectCount:
		return DialectMessages
	default:
		return d
	}
}

// AllDialects lists the dialects that have a route, DialectCount among them.
func AllDialects() []Dialect { return append(Dialects(), DialectCount) }

// DialectOf is the dialect of a path: of its route, or of a path below one, under any of ChatBases. ok is
// false for any other path.
func DialectOf(path string) (d Dialect, ok bool) {
	for _, base := range ChatBases() {
		for _, each := range AllDialects() {
			after, is := strings.CutPrefix(path, base+each.Route())
			if is && (after == "" || after[0] == '/') { // the route below that of DialectMessages is last
				d, ok = each, true
			}
		}
	}
	return d, ok
}

// Speaks reports whether an upstream answers requests of a dialect. One that lists no dialects
// answers all.
func (u ModelUpstream) Speaks(d Dialect) bool {
	return len(u.Dialects) == 0 || slices.Contains(u.Dialects, d.Family())
}

// Operation is gen_ai.operation.name of OpenTelemetry's conventions for a call of a dialect. They
// have no name for a count of tokens.
func (d Dialect) Operation() string {
	switch d {
	case DialectCount, DialectEmbeddings:
		return string(d)
	default:
		return string(DialectChat)
	}
}

const responsePrefix = "resp_"

// ResponseID is the id by which callers know the answer of an action of DialectResponses. The
// provider's own id is in the action's result.
func ResponseID(action string) string { return responsePrefix + action }

// ResponseAction is the action behind a ResponseID; ok is false for any other text.
func ResponseAction(id string) (action string, ok bool) {
	action, ok = strings.CutPrefix(id, responsePrefix)
	return action, ok && ValidID(action)
}
