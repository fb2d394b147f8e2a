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

// Code is the word of the closed vocabulary for a denial by this check.
func (c Check) Code() schemas.Code {
	switch c {
	case CheckKey:
		return schemas.DenyKeyUnknown
	case CheckURL:
		return schemas.DenyURLInvalid
	case CheckScheme:
		return schemas.DenyScheme
	case CheckUserinfo:
		return schemas.DenyUserinfo
	case CheckHost:
		return schemas.DenyHost
	case CheckPort:
		return schemas.DenyPort
	case CheckMethod:
		return schemas.DenyMethod
	case CheckPath:
		return schemas.DenyPath
	case CheckHeader:
		return schemas.DenyHeader
	case CheckBody:
		return schemas.DenyBody
	case CheckAddress:
		return schemas.DenyAddress
	case CheckRedirect:
		return schemas.DenyRedirect
	case CheckNone:
	}
	return ""
}

// String is the check's name, for a person.
func (c Check) String() string {
	switch c {
	case CheckKey:
		return "key"
	case CheckURL:
		return "url"
	case CheckScheme:
		return "scheme"
	case CheckUserinfo:
		return "userinfo"
	case CheckHost:
		return "host"
	case CheckPort:
		return "port"
	case CheckMethod:
		return "method"
	case CheckPath:
		return "path"
	case CheckHeader:
		return "header"
	case CheckBody:
		return "body"
	case CheckAddress:
		return "address"
	case CheckRedirect:
		return "redirect"
	case CheckNone:
	}
	return "none"
}

// MarshalText writes the name, for explanations.
func (c Check) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
