package executor

import (
	"net/http"
	"strings"

	"weir/schemas"
)

// Error is a body that is refused before anything is stored.
type Error struct {
	Variant string
	Message string // the documented display text
	Code    schemas.Code
}

func (e *Error) Error() string { return e.Variant + ": " + e.Message }

// Status is the HTTP status of a variant that ingress answers. The variants
// of calls that were made are rendered elsewhere.
func Status(variant string) int {
	switch variant {
	case schemas.VariantDisallowedHost:
		return http.StatusForbidden
	case schemas.VariantInvalidSchema, schemas.VariantInvalidPostcondition, schemas.VariantUnsupportedPostcondition:
		return http.StatusUnprocessableEntity
	case schemas.VariantUnsupportedPrimitive, schemas.VariantMissingArgument, schemas.VariantInvalidArgumentValue,
		schemas.VariantInvalidMethod, schemas.VariantInvalidURL, schemas.VariantInvalidHeaderName, schemas.VariantInvalidHeaderValue:
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

func missing(name string) error {
	return &Error{Variant: schemas.VariantMissingArgument, Message: "missing required argument '" + name + "'", Code: schemas.ValidationError}
}

func badArgument(name, what string) *Error {
	return &Error{Variant: schemas.VariantInvalidArgumentValue, Message: "invalid argument '" + name + "': " + what, Code: schemas.ValidationError}
}

// badURL says what policy found wrong with a URL.
func badURL(d schemas.Decision) error {
	why := "it must be absolute, and written as RFC 3986 says"
	switch {
	case d.Code == schemas.DenyScheme:
		why = "write http:// or https:// before the host"
	case d.Code == schemas.DenyURLInvalid && d.Reason != "":
		why = d.Reason
	}
	return &Error{Variant: schemas.VariantInvalidURL, Message: "invalid url: " + why, Code: d.Code}
}

// maxShown bounds what a message repeats of a name the caller chose.
const maxShown = 64

// maxSentence bounds what a message takes over from a checker.
const maxSentence = 400

// shown is a short text from the caller, made safe for a message.
func shown(s string) string { return clip(s, maxShown) }

// sentence is a checker's word on the caller's document.
func sentence(err error) string { return clip(err.Error(), maxSentence) }

// clip shortens a text, and replaces what a terminal would not print.
func clip(s string, most int) string {
	cut := len(s) > most
	if cut {
		s = strings.ToValidUTF8(s[:most], "")
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (0x80 <= r && r < 0xa0) || (0x202a <= r && r <= 0x202e) || (0x2066 <= r && r <= 0x2069) {
			return '\ufffd'
		}
		return r
	}, s)
	if cut {
		return s + "…"
	}
	return s
}
