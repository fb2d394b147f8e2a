package policy

import "weir/schemas"

// flaw is one thing that a check finds wrong. Its sentence is fixed, so that
// nothing of a request can stand in it.
type flaw uint8

const (
	flawNone flaw = iota
	flawNoPolicy
	flawKeyMissing
	flawKeyUnknown
	flawKeyAgent
	flawKeyModel
	flawKeyShadow
	flawKeyNotYours
	flawURLLength
	flawURLCharacter
	flawFragment
	flawNoScheme
	flawNoAuthority
	flawNoHost
	flawHostCharacter
	flawHostLength
	flawHostLiteral
	flawPortForm
	flawEscape
	flawSchemeUnknown
	flawScheme
	flawUserinfo
	flawHostDot
	flawHostHyphen
	flawHostNumeric
	flawHost
	flawHostNone
	flawHostLoopback
	flawPort
	flawPortAny
	flawMethodUnknown
	flawMethod
	flawPathEmptySegment
	flawPathDots
	flawPathSlash
	flawPathControl
	flawPathTwice
	flawPathUTF8
	flawPathLookAlike
	flawPath
	flawQueryOwned
	flawQueryCaller
	flawHeaderCount
	flawHeaderName
	flawHeaderValue
	flawHeaderLength
	flawHeaderRepeated
	flawHeaderTemplate
	flawHeaderFraming
	flawHeaderRouting
	flawHeaderCredential
	flawHeaderMetadata
	flawHeaderIdempotency
	flawHeaderOwned
	flawHeaderPart
	flawHeaderCaller
	flawHeaderRedacted
	flawIdempotencyKey
	flawBodySize
	flawBodyDepth
	flawBodyMethod
	flawBodyMissing
	flawBodyNotObject
	flawBodyOwned
	flawAddressForm
	flawAddressNone
	flawAddressMetadata
	flawAddressSelf
	flawAddressSpecial
	flawAddressNotLoopback
	flawAddressNotGranted
	flawRedirectOff
	flawRedirectLimit
	flawRedirectMethod
	flawRedirectStatus
	flawRedirectLocation
	flawRedirectTarget
	flawRedirectRevoked
	flawNoPermit
	flawCount
)

// describe gives the check that finds the flaw and the sentence that says what
// was wrong and what would pass.
func (f flaw) describe() (Check, string) {
	switch f {
	case flawNoPolicy:
		return CheckKey, "no policy is in force; load one"
	case flawKeyMissing:
		return CheckKey, "the request names no allowlist entry; set allowlist_key to the name of one"
	case flawKeyUnknown:
		return CheckKey, "no allowlist entry has this name; names are matched exactly, so use one from the policy as it is written there"
	case flawKeyAgent: // whether there is such an agent or not
		return CheckKey, "entries of agents serve runs alone; send a run of that task type, or use an entry whose name does not begin with agent:"
	case flawKeyModel:
		return CheckKey, "entries of models serve completions alone; ask the model for one, or use an entry whose name does not begin with model:"
	case flawKeyShadow:
		return CheckKey, "the allowlist entry of this name is a shadow, which permits nothing; use another, or set its mode to enforce"
	case flawKeyNotYours:
		return CheckKey, "the token may not use this entry; use one that it may, or a token for this one"
	case flawURLLength:
		return CheckURL, "the url is longer than 8192 bytes with its parameters; send less in the url"
	case flawURLCharacter:
		return CheckURL, "the url holds a character that must not stand there raw; use printable ASCII, percent-encode the rest and write a host in other scripts as A-labels"
	case flawFragment:
		return CheckURL, "the url has a fragment, which is never sent; leave it out"
	case flawNoScheme:
		return CheckURL, "the url has no scheme; write it in full, beginning with http:// or https://"
	case flawNoAuthority:
		return CheckURL, "the scheme is not followed by two slashes; write scheme://host/path"
	case flawNoHost:
		return CheckURL, "the url has no host; write scheme://host/path, and an IPv6 address in brackets"
	case flawHostCharacter:
		return CheckURL, "the host holds a character that no host name has; use letters, digits, hyphens and underscores, without escapes"
	case flawHostLength:
		return CheckURL, "a label of the host is empty or longer than 63 bytes, or the host longer than 253; use a host name that DNS can hold"
	case flawHostLiteral:
		return CheckURL, "what stands in brackets is not an IPv6 address; write one without a zone"
	case flawPortForm:
		return CheckURL, "the port is not a number from 1 to 65535; write it in digits without leading zeros, or leave out the colon too"
	case flawEscape:
		return CheckURL, "the url has an incomplete escape; a percent sign is followed by two hex digits"
	default:
		return f.describeMatch()
	}
}

func (f flaw) describeMatch() (Check, string) {
	switch f {
	case flawSchemeUnknown:
		return CheckScheme, "only http and https are spoken; use one of them"
	case flawScheme:
		return CheckScheme, "the scheme is not the entry's; use the scheme of its url_prefix"
	case flawUserinfo:
		return CheckUserinfo, "the url carries a user or password; take it out and let the entry's headers hold the credential"
	case flawHostDot:
		return CheckHost, "the host ends in a dot; leave it out"
	case flawHostHyphen:
		return CheckHost, "a label of the host begins or ends with a hyphen; use the host's real name"
	case flawHostNumeric:
		return CheckHost, "the host is a number that resolvers read in different ways; write four decimal numbers from 0 to 255 without leading zeros"
	case flawHost:
		return CheckHost, "the host is not the entry's; use the host of its url_prefix, or an entry for this one"
	case flawHostNone:
		return CheckHost, "no entry and no allowed host covers this host; ask the operator to add one"
	case flawHostLoopback:
		return CheckHost, "the host is the machine that Weir runs on, and no entry covers it; ask the operator to add an entry for it with network: loopback"
	case flawPort:
		return CheckPort, "the port is not the entry's; use the port of its url_prefix, where none means the scheme's own"
	case flawPortAny:
		return CheckPort, "an entry for any host reaches the ports 80 and 443 only; other ports need an entry that names them"
	case flawMethodUnknown:
		return CheckMethod, "the method is not one that is ever sent; use GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE"
	case flawMethod:
		return CheckMethod, "the entry does not list the method; use one that it lists, or an entry that lists this one"
	case flawPathEmptySegment:
		return CheckPath, "the path has an empty segment, which servers resolve differently; write single slashes"
	case flawPathDots:
		return CheckPath, "the path has a dot segment; write the path that it leads to"
	case flawPathSlash:
		return CheckPath, "the path has an escaped slash or backslash; use a path without them"
	case flawPathControl:
		return CheckPath, "the path has an escaped control character; leave it out"
	case flawPathTwice:
		return CheckPath, "the path is escaped twice; escape it once"
	case flawPathUTF8:
		return CheckPath, "the path's escapes are not valid UTF-8; encode its characters as UTF-8 first"
	case flawPathLookAlike:
		return CheckPath, "the path has an invisible character or one that servers take for a dot, a slash or another delimiter; leave it out"
	case flawPath:
		return CheckPath, "the path is not at or below the entry's; use one under its url_prefix, which is matched in whole segments and by case"
	case flawQueryOwned:
		return CheckURL, "the entry adds a parameter of the query that is there already; leave it out"
	case flawQueryCaller:
		return CheckURL, "the entry adds credentials or other values, and the query has a parameter that it does not leave to callers; leave the parameter out, or have the operator name it in caller_params of the entry"
	default:
		return f.describeRequest()
	}
}

func (f flaw) describeRequest() (Check, string) {
	switch f {
	case flawHeaderCount:
		return CheckHeader, "there are more than 64 headers; send fewer"
	case flawHeaderName:
		return CheckHeader, "a header's name is not a token of up to 256 characters; use letters, digits and hyphens"
	case flawHeaderValue:
		return CheckHeader, "a header's value has a control or non-ASCII character; encode it so that it is printable ASCII"
	case flawHeaderLength:
		return CheckHeader, "a header's value is longer than 8192 bytes; send it in the body"
	case flawHeaderRepeated:
		return CheckHeader, "a header is given twice; give it once, with the values joined as its syntax says"
	case flawHeaderTemplate:
		return CheckHeader, "a header's value holds a template, and callers' templates are never filled in; send the value itself"
	case flawHeaderFraming:
		return CheckHeader, "a header frames the message or belongs to the connection; leave it out, it is set from the request itself"
	case flawHeaderRouting:
		return CheckHeader, "a header changes where, as whom or how the request is served behind the target; leave it out and put the real target in the url and the method"
	case flawHeaderCredential:
		return CheckHeader, "a header authenticates; leave it out, credentials are set in the entry's headers by the operator"
	case flawHeaderMetadata:
		return CheckHeader, "a header is a handshake with a metadata service; leave it out"
	case flawHeaderIdempotency:
		return CheckHeader, "the idempotency key is a header; declare it in idempotency_key, so that it is known what may be repeated"
	case flawHeaderOwned:
		return CheckHeader, "the entry sets this header itself; leave it out"
	case flawHeaderPart:
		return CheckHeader, "an entry that adds something to its calls gives whole answers only; leave out Range and If-Range"
	case flawHeaderCaller:
		return CheckHeader, "the entry adds credentials or other values, and does not leave this header to callers; leave the header out, or have the operator name it in caller_headers of the entry"
	case flawHeaderRedacted:
		return CheckHeader, "a header's value is REDACTED, as views show a hidden value; send the value itself"
	case flawIdempotencyKey:
		return CheckHeader, "the idempotency key cannot be sent as a header; use 1 to 255 printable ASCII characters"
	case flawBodySize:
		return CheckBody, "the body is larger than 1 MiB; send less at once"
	case flawBodyDepth:
		return CheckBody, "the body is nested more than 64 levels deep; flatten it"
	case flawBodyMethod:
		return CheckBody, "GET and HEAD carry no body; use the url's query, or another method"
	case flawBodyMissing:
		return CheckBody, "the entry adds members to the body, and there is none; send a JSON object, an empty one if need be"
	case flawBodyNotObject:
		return CheckBody, "the entry adds members to the body, and it is not a JSON object; send one"
	case flawBodyOwned:
		return CheckBody, "the entry adds a member of the body that is there already; leave it out"
	default:
		return f.describeAddress()
	}
}

func (f flaw) describeAddress() (Check, string) {
	switch f {
	case flawAddressNone:
		return CheckAddress, "there is no address to check; the host must resolve to at least one"
	case flawAddressMetadata:
		return CheckAddress, "the host leads to a metadata service; no entry can grant that"
	case flawAddressSelf:
		return CheckAddress, "the host leads back to this gateway; no entry can grant that"
	case flawAddressSpecial:
		return CheckAddress, "the host leads to an address that is not public; an entry for it needs network loopback, or private with cidrs"
	case flawAddressNotLoopback:
		return CheckAddress, "the host leads somewhere else than loopback, which is all that the entry grants; change its network if that is meant"
	case flawAddressNotGranted:
		return CheckAddress, "the host leads to an address that the entry's cidrs do not grant; add its range to them if that is meant"
	case flawRedirectOff:
		return CheckRedirect, "the target redirects, and the entry follows no redirect; call the final url, or set redirects in the entry"
	case flawRedirectLimit:
		return CheckRedirect, "the target redirects more often than the entry follows; call the final url"
	case flawRedirectMethod:
		return CheckRedirect, "the target redirects a method other than GET and HEAD; call the final url"
	case flawRedirectStatus:
		return CheckRedirect, "the status is not one of a redirect that is followed; only 301, 302, 303, 307 and 308 are"
	case flawRedirectLocation:
		return CheckRedirect, "the target redirects without saying where; nothing can be followed"
	case flawRedirectTarget:
		return CheckRedirect, "the target redirects to a url outside the entry; call it under an entry of its own"
	case flawRedirectRevoked:
		return CheckRedirect, "the policy has changed, and the entry no longer leads to where the target redirects; call that url under an entry of its own"
	case flawNoPermit:
		return CheckAddress, "nothing was permitted; ask for a decision first"
	default:
		return CheckAddress, "the address cannot be judged; it must be an IP address without a zone"
	}
}

func (f flaw) check() Check {
	check, _ := f.describe()
	return check
}

// DeniedError is a refusal as an error. Its text holds nothing of the request.
type DeniedError struct {
	Check  Check
	Code   schemas.Code
	Reason string
}

func (d *DeniedError) Error() string { return string(d.Code) + ": " + d.Reason }

// err is the flaw as an error, or nil for none.
func (f flaw) err() error {
	if f == flawNone {
		return nil
	}
	check, reason := f.describe()
	return &DeniedError{Check: check, Code: check.Code(), Reason: reason}
}
