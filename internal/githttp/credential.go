package githttp

import (
	"encoding/base64"
	"strings"
)

// maxCredential bounds what is looked at of an Authorization header.
const maxCredential = 1024

// Token is what an Authorization header holds: the token of Bearer, or where basic is
// allowed the password of Basic, whoever the user. ok is false unless there is exactly one
// header with one of the two.
func Token(fields []string, basic bool) (token string, ok bool) {
	if len(fields) != 1 || len(fields[0]) > maxCredential {
		return "", false
	}
	scheme, given, _ := strings.Cut(fields[0], " ")
	given = strings.TrimLeft(given, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		token = given
	case basic && strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(given)
		if err != nil {
			return "", false
		}
		_, token, ok = strings.Cut(string(pair), ":")
		if !ok {
			return "", false
		}
	}
	return token, token != ""
}
