package agent

import (
	"encoding/json"
	"slices"

	"weir/schemas"
)

// errorMember is the error in a document's error member, as an object or as a text; nil if there is
// none.
func errorMember(members map[string]json.RawMessage) *schemas.RunError {
	told := schemas.RunError{Code: string(schemas.TaskFailed), Message: NoWords}
	raw := present(members["error"])
	inner := object(raw)
	words, isText := text(raw)
	switch {
	case isText && words != "":
		told.Message = words
		return &told
	case inner != nil && failureOf(inner):
		if code, ok := text(inner["code"]); ok && schemas.ValidID(code) {
			told.Code = code
		}
		if words, ok := text(inner["message"]); ok && words != "" {
			told.Message = words
		}
		told.Details = details(inner["details"], "details")
		return &told
	case raw != nil && inner == nil && !isText && !empty(raw):
		told.Details = details(raw, "error")
		return &told
	}
	return nil
}

// frameworkError is the error of a document that is known to contain one, in the forms of common agent
// frameworks: under detail or message.
func frameworkError(members map[string]json.RawMessage) *schemas.RunError {
	told := schemas.RunError{Code: string(schemas.TaskFailed), Message: NoWords}
	for _, name := range []string{"message", "detail"} {
		raw := present(members[name])
		if words, ok := text(raw); ok && words != "" {
			told.Message = words
		} else if raw != nil {
			told.Details = details(raw, name)
		}
	}
	return &told
}

// failureOf reports whether an error object says anything: the zero value of a type
// is what some agents send in place of none.
func failureOf(inner map[string]json.RawMessage) bool {
	for _, raw := range inner {
		if !empty(raw) {
			return true
		}
	}
	return false
}

func empty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "{}", "[]", "false", "0"}, string(present(raw)))
}

// details is an object as it came, and anything else as the one member of an
// object; nil where there is nothing, or nothing in it.
func details(raw json.RawMessage, name string) json.RawMessage {
	raw = present(raw)
	switch {
	case raw == nil, raw[0] == '{' && len(object(raw)) == 0:
		return nil
	case raw[0] == '{':
		return raw
	}
	return slices.Concat(json.RawMessage(`{"`+name+`":`), raw, json.RawMessage("}"))
}

// protocolError is the error of an agent whose reported end violates the protocol.
func protocolError(message string) *schemas.RunError {
	return &schemas.RunError{
		Code: string(schemas.TaskFailed), Message: message,
		Details: json.RawMessage(`{"code":"` + string(schemas.UpstreamProtocol) + `"}`),
	}
}
