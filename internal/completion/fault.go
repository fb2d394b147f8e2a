package completion

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Fault is an error in the words of a provider.
type Fault struct {
	// Status is its code if that is an HTTP status, or the status of its keyword, or 0.
	Status int `json:"status,omitempty"`
	// Message is one line of at most 4 KiB.
	Message string `json:"message,omitempty"`
	// Code, Type and Param are the error's further members, if they are keywords such as
	// context_length_exceeded; otherwise empty. Of nested errors the innermost with any of them
	// counts.
	Code  string `json:"code,omitempty"`
	Type  string `json:"type,omitempty"`
	Param string `json:"param,omitempty"`
}

const (
	maxMessage = 4 << 10
	// maxPlain is how long an answer may be that is a message itself.
	maxPlain = 1 << 10
	// maxFault is the longest answer that is read, and maxFaults how deep errors may be nested
	// in it.
	maxFault  = 256 << 10
	maxFaults = 8
)

// ReadFault reads the error out of an answer that is no success, in any of the forms
// that providers have; nil: there is none to read, as in the page of a proxy.
func ReadFault(body []byte) *Fault {
	if len(body) > maxFault {
		return nil
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\uFEFF")))
	var f Fault
	if doc, ok := normalize(body); ok {
		f.read(Parse(doc), maxFaults)
	} else if len(body) > 0 && len(body) <= maxPlain && utf8.Valid(body) && !strings.ContainsRune("<{[", rune(body[0])) {
		f.Message = string(body)
	}
	if f.Message = line(f.Message, maxMessage); f.Message == "" && f.Status == 0 {
		return nil
	}
	return &f
}

// read reads a value that is or holds an error. Fields that are set stay.
func (f *Fault) read(v gjson.Result, left int) {
	switch {
	case left == 0:
	case v.Type == gjson.String:
		if f.Message == "" {
			f.Message = strings.TrimSpace(v.Str)
		}
	case v.IsArray():
		for _, e := range v.All() {
			if f.Message == "" {
				f.read(e, left-1)
			}
		}
	case v.IsObject():
		f.readObject(v, left)
	}
}

func (f *Fault) readObject(v gjson.Result, left int) {
	for _, name := range []string{"error", "errors", "fault"} {
		if inside := v.Get(name); says(inside) {
			f.read(inside, left-1)
		}
	}
	for _, name := range []string{"message", "Message", "msg", "error_description", "error_message", "faultstring", "detail", "details", "reason", "title"} {
		if f.Message == "" {
			f.read(v.Get(name), left-1)
		}
	}
	if raw := object(v.Get("metadata")).Get("raw"); raw.Type == gjson.String {
		f.add(raw.Str, left)
	}
	f.words(word(v.Get("code")), word(v.Get("type")), word(v.Get("param")))
	for _, name := range []string{"code", "status", "status_code", "statusCode", "http_status", "type"} {
		if f.Status == 0 {
			f.Status = statusOf(v.Get(name))
		}
	}
}

// words takes those of an error, unless one inside of it has told its own.
func (f *Fault) words(code, kind, param string) {
	if f.Code != "" || f.Type != "" || f.Param != "" {
		return
	}
	if kind == "error" { // of an object that only says that it is one
		kind = ""
	}
	f.Code, f.Type, f.Param = code, kind, param
}

// maxWord is the longest word of an error.
const maxWord = 128

// word is a text that is a keyword or a path such as messages[0].content, else empty.
func word(v gjson.Result) string {
	s := v.Str
	if len(s) > maxWord || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-:/[]$") != "" {
		return ""
	}
	return s
}

// add joins what the provider behind the provider has said.
func (f *Fault) add(raw string, left int) {
	inside := Fault{Message: strings.TrimSpace(raw)}
	if doc, ok := normalize([]byte(raw)); ok {
		inside = Fault{}
		inside.read(Parse(doc), left-1)
		f.words(inside.Code, inside.Type, inside.Param)
	}
	switch {
	case inside.Message == "" || strings.Contains(f.Message, inside.Message):
	case f.Message == "":
		f.Message = inside.Message
	default:
		f.Message += ": " + inside.Message
	}
}

// statusOf returns the HTTP status of a code or of its keyword; 0: none.
func statusOf(v gjson.Result) int {
	if s := statuses[strings.ToLower(v.Str)]; s != 0 {
		return s
	}
	if n, err := strconv.Atoi(v.String()); err == nil && n >= 400 && n <= 599 {
		return n
	}
	return 0
}

// statuses are the words for which another provider may be asked, and those for which none needs to
// be, by the HTTP status that they stand for.
var statuses = func() map[string]int { //nolint:gochecknoglobals // a constant
	all := map[string]int{}
	for status, words := range map[int]string{
		429: "rate_limit_exceeded rate_limit_error ratelimiterror insufficient_quota resource_exhausted too_many_requests",
		500: "server_error api_error internal_error internal_server_error internalservererror internal",
		503: "overloaded_error overloaded unavailable service_unavailable serviceunavailableerror engine_overloaded",
		504: "timeout timeout_error deadline_exceeded gateway_timeout vector_store_timeout",
		400: `invalid_request_error badrequesterror invalid_argument context_length_exceeded content_filter content_policy_violation
			invalid_prompt invalid_image invalid_image_format invalid_base64_image invalid_image_url invalid_image_mode
			image_too_large image_too_small image_parse_error image_file_too_large image_file_not_found empty_image_file
			unsupported_image_media_type failed_to_download_image image_content_policy_violation`,
		413: "request_too_large",
		401: "authentication_error invalid_api_key unauthenticated unauthorized",
		402: "insufficient_credits billing_error payment_required",
		403: "permission_error permission_denied forbidden",
		404: "not_found_error not_found model_not_found",
	} {
		for word := range strings.FieldsSeq(words) {
			all[word] = status
		}
	}
	return all
}()

// says reports whether an error member holds an error.
func says(v gjson.Result) bool { return !hollow(v) && v.Type != gjson.False }

// line is a text in one line of no more than so many bytes, without what a terminal
// would take for more than text.
func line(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s))
}
