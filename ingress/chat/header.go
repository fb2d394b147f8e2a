package chat

import (
	"net/http"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// forwarded are the headers of a request that its dialect has the upstream read.
func forwarded(d schemas.Dialect, h http.Header) ([]schemas.Header, error) {
	switch d.Family() {
	case schemas.DialectMessages:
		version, err := dated(h.Values("Anthropic-Version"))
		if err != nil {
			return nil, err
		}
		list := []schemas.Header{{Name: "anthropic-version", Value: version}}
		return betas(list, "anthropic-beta", h)
	case schemas.DialectResponses, schemas.DialectEmbeddings:
		return betas(nil, "openai-beta", h)
	default:
		return nil, nil
	}
}

// firstVersion is the version of the Messages protocol for requests that name none.
const firstVersion = "2023-06-01"

// dated reads the version of the protocol, which is a date.
func dated(fields []string) (string, error) {
	switch len(fields) {
	case 0:
		return firstVersion, nil
	case 1:
		if _, err := time.Parse(time.DateOnly, fields[0]); err == nil {
			return fields[0], nil
		}
	}
	return "", fault.New(schemas.InvalidRequest, "the header anthropic-version must be a date, once, such as "+firstVersion)
}

// maxBetas is how long the list of a request's betas may be, in bytes.
const maxBetas = 2048

// betaSigns are the characters of such a list.
const betaSigns = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:=/, "

// betas adds the header that lists the betas which a request uses, where there are any.
func betas(to []schemas.Header, name string, h http.Header) ([]schemas.Header, error) {
	list := strings.Join(h.Values(name), ",")
	if list == "" {
		return to, nil
	}
	if len(list) > maxBetas || strings.ContainsFunc(list, func(r rune) bool { return !strings.ContainsRune(betaSigns, r) }) {
		return nil, fault.New(schemas.InvalidRequest, "the header "+name+" must list names of betas, such as "+
			"context-1m-2025-08-07, of letters, digits and - _ . : = /, with commas between them; send at most 2048 bytes")
	}
	return append(to, schemas.Header{Name: name, Value: list}), nil
}
