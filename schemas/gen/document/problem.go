package document

import (
	"maps"
	"net/http"
	"strconv"

	"weir/schemas"
)

// problems are the errors of the routes without an envelope of their own.
func problems() object {
	all := object{
		"BadRequest":     refusal(400, schemas.InvalidRequest, "the parameter limit must be a number from 1 to 1000"),
		"Unauthorized":   refusal(401, schemas.Unauthorized, "a bearer token is needed"),
		"Forbidden":      refusal(403, schemas.Forbidden, "the token does not allow this"),
		"NotFound":       refusal(404, schemas.NotFound, "there is no such action"),
		"NotAcceptable":  refusal(406, schemas.NotAcceptable, "events come as text/event-stream or application/json"),
		"Conflict":       refusal(409, schemas.Conflict, "the action has ended already: succeeded"),
		"InFlight":       refusal(409, schemas.InFlight, "the first request with this key is still running", "Retry-After"),
		"Gone":           gone(),
		"TooLarge":       refusal(413, schemas.PayloadTooLarge, "the body is larger than is allowed"),
		"MediaType":      refusal(415, schemas.UnsupportedMediaType, "the body must be application/json"),
		"Unprocessable":  refusal(422, schemas.ValidationError, "plan.decisions must be a non-string sequence"),
		"OutcomeUnknown": refusal(424, schemas.OutcomeUnknownCode, schemas.UnknownText),
		"RateLimited":    refusal(429, schemas.RateLimited, "too many requests", "Retry-After"),
		"Internal":       refusal(500, schemas.Internal, "the request could not be completed"),
		"Unavailable":    refusal(503, schemas.Unavailable, "the log did not answer; try again", "Retry-After"),
		"Expired":        refusal(504, schemas.DeadlineExceeded, "the plan's deadline passed"),
	}
	maps.Copy(all, taskProblems())
	return all
}

func refusal(status int, code schemas.Code, detail string, headers ...string) object {
	return object{
		"description": http.StatusText(status) + ": " + detail,
		"headers":     withHeaders(headers...),
		"content":     body(problemExample(status, code, detail)),
	}
}

// gone is the answer to a resume from before the history.
func gone() object {
	p := problemExample(410, schemas.StreamGone, "events after this position were dropped; resume just before earliest_id")
	p["earliest_id"] = "1203"
	return object{"description": "Gone: the history begins later", "headers": withHeaders("Link"), "content": body(p)}
}

func body(p object) object {
	return object{"application/problem+json": object{"schema": schema("Problem"), "examples": object{"problem": example("A problem", p)}}}
}

func problemExample(status int, code schemas.Code, detail string) object {
	return object{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail,
		"code": string(code), "request_id": "0199f0c2-7f1e-7c3a-9d55-2f6b0a4c1e10", "retryable": status == 429 || status == 503,
	}
}

// responses puts answers together: those of an operation, and the problems that
// it can have, by name.
func responses(own object, names ...string) object {
	out := object{}
	maps.Copy(out, own)
	for _, name := range names {
		out[strconv.Itoa(problemStatus(name))] = problem(name)
	}
	return out
}

func problemStatus(name string) int {
	return map[string]int{
		"BadRequest": 400, "NotRunning": 400, "Protocol": 400, "NoTask": 404, "PackSize": 413, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "NotAcceptable": 406, "Conflict": 409,
		"InFlight": 409, "Gone": 410, "TooLarge": 413, "MediaType": 415, "Unprocessable": 422, "OutcomeUnknown": 424,
		"RateLimited": 429, "Internal": 500, "Unavailable": 503, "Expired": 504,
	}[name]
}
