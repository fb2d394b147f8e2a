package policy

import "weir/schemas"

// Check is one step of a decision. The steps have a fixed order, and the first
// that fails names the denial.
type Check uint8

// The checks, in the order they are made.
const (
	CheckNone Check = iota // nothing failed
	CheckKey
	CheckURL
	CheckScheme
	CheckUserinfo
	CheckHost
	CheckPort
	CheckMethod
	CheckPath
	CheckHeader
	CheckBody
	CheckAddress
	CheckRedirect
)

var checks = [...]struct { //nolint:gochecknoglobals // a constant
	name string
	code schemas.Code
}{
	CheckNone:     {"none", ""},
	CheckKey:      {"key", schemas.DenyKeyUnknown},
	CheckURL:      {"url", schemas.DenyURLInvalid},
	CheckScheme:   {"scheme", schemas.DenyScheme},
	CheckUserinfo: {"userinfo", schemas.DenyUserinfo},
	CheckHost:     {"host", schemas.DenyHost},
	CheckPort:     {"port", schemas.DenyPort},
	CheckMethod:   {"method", schemas.DenyMethod},
	CheckPath:     {"path", schemas.DenyPath},
	CheckHeader:   {"header", schemas.DenyHeader},
	CheckBody:     {"body", schemas.DenyBody},
	CheckAddress:  {"address", schemas.DenyAddress},
	CheckRedirect: {"redirect", schemas.DenyRedirect},
}

// Code is the word of the closed vocabulary for a denial by this check.
func (c Check) Code() schemas.Code { return checks[c].code }

// String is the check's name, for a person.
func (c Check) String() string { return checks[c].name }

// MarshalText writes the name, for explanations.
func (c Check) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
