package githttp

import (
	"mime"
	"net/http"
	"strings"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/schemas"
)

// Protocol is the version of git's protocol that a request asks for: 2 or, without a
// word about it, 0. Of the rest of what the header may say nothing is served, and
// nothing of it is passed on.
func Protocol(h http.Header) (int, error) {
	fields := h.Values("Git-Protocol")
	if len(fields) == 0 {
		return 0, nil
	}
	if len(fields) == 1 {
		switch version, ok := strings.CutPrefix(fields[0], "version="); {
		case version == "2" && ok:
			return 2, nil
		case version == "0" && ok:
			return 0, nil
		case ok && number(version):
			return 0, fault.New(schemas.GitProtocolRequired, "this version of git's protocol is not served; set protocol.version to 2")
		}
	}
	return 0, fault.New(schemas.InvalidRequest, "Git-Protocol must be version=2, or left out")
}

func number(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == ""
}

// MediaType refuses a request whose body is not what the client of a service sends.
func MediaType(h http.Header, service string) error {
	want := gitwire.RequestType(service)
	fields := h.Values("Content-Type")
	if len(fields) == 1 {
		if media, _, err := mime.ParseMediaType(fields[0]); err == nil && media == want {
			return nil
		}
	}
	return fault.New(schemas.UnsupportedMediaType, "send Content-Type: "+want)
}

// ResultType is the media type of a service's answer.
func ResultType(service string) string { return gitwire.ResultType(service) }
