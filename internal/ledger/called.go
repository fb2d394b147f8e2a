package ledger

import (
	"strings"

	"github.com/tidwall/gjson"

	"weir/internal/policy"
	"weir/schemas"
)

// Called is the call of an action, without query, fragment and user information. It is empty for
// a sensitive action, and for one that has no call of its own or has not made it yet.
func (s *State) Called() schemas.Called {
	switch {
	case s.Action.Sensitive:
		return schemas.Called{}
	case s.Action.Called != (schemas.Called{}):
		return s.Action.Called
	case len(s.Attempts) > 0 && Remote(s.Kind):
		return CallOf(s.Attempts[0].Method, s.Attempts[0].URL).For(CalledIn(s.Action, string(s.Action.Payload)))
	}
	return CalledIn(s.Action, string(s.Action.Payload))
}

// Remote reports whether only the attempts of a kind name its call: the payload names a repository, and a push's its ref.
func Remote(kind schemas.Kind) bool { return kind == schemas.KindPush || kind == schemas.KindRepo }

// CalledIn is the call in a payload. It is empty if there is none, or the action is sensitive.
func CalledIn(a schemas.Action, payload string) schemas.Called {
	if a.Sensitive {
		return schemas.Called{}
	}
	var call, plan gjson.Result
	switch doc := gjson.Parse(payload); a.Kind { //nolint:exhaustive // the others have no call of their own
	case schemas.KindHTTP, schemas.KindPassthrough:
		call = doc
	case schemas.KindPush, schemas.KindRepo:
		named := doc.Get("repo").Str + doc.Get("name").Str
		if !doc.Get("denied").Exists() { // else the ref is any text of the client's
			named = strings.TrimSpace(named + " " + doc.Get("ref").Str)
		}
		return schemas.Called{Path: strings.ToValidUTF8(named[:min(len(named), longestPath)], "")}
	case schemas.KindPlan:
		plan = doc
	case schemas.KindRun:
		call, plan = doc.Get("call"), doc.Get("plan")
	}
	if plan.Exists() {
		return firstOf(plan.Get(`artifact:proposed\.plan.decisions`))
	}
	return CallOf(call.Get("method").Str, call.Get("url").Str)
}

// firstOf is the first call of a plan, and the number of its calls.
func firstOf(decisions gjson.Result) schemas.Called {
	n := int(decisions.Get("#").Int())
	if n == 0 {
		return schemas.Called{}
	}
	target := decisions.Get("0.target_state")
	method := target.Get("method")
	name := strings.ToUpper(method.String())
	if method.Type == gjson.Null { // or there is none
		name = "GET"
	}
	c := CallOf(name, target.Get("url").Str)
	c.Calls = n
	return c
}

// longestPath is the number of bytes of a path that lists show.
const longestPath = 512

// CallOf is a call by its method and URL. A method that is never sent, and a URL that policy cannot
// read, are left out: text in such a URL may be a credential.
func CallOf(method, url string) schemas.Called {
	var c schemas.Called
	if schemas.KnownMethod(method) {
		c.Method = method
	}
	if u, ok := policy.Read(url, true); ok {
		c.Host, c.Path = u.Authority(), u.Path[:min(len(u.Path), longestPath)]
	}
	return c
}
