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

// Code is the code of a denial by this check.
func (c Check) Code() schemas.Code { return checks[c].code }

// String is the check's name, for a person.
func (c Check) String() string { return checks[c].name }

// MarshalText writes the name, for explanations.
func (c Check) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// DeniedError is a refusal as an error. Its text holds nothing of the request.
type DeniedError struct {
	Check  Check
	Code   schemas.Code
	Reason string
}

func (d *DeniedError) Error() string { return string(d.Code) + ": " + d.Reason }

// denial is the failure of a check; nil: none. It is one of those below: its sentence is fixed,
// so that it holds nothing of a request, and says what was wrong and, after a semicolon, what would pass.
type denial = *DeniedError

func newDenial(check Check, reason string) denial { return &DeniedError{check, check.Code(), reason} }

// asError is a denial as an error, or nil for none.
func asError(f denial) error {
	if f == nil {
		return nil
	}
	return f
}

//nolint:gochecknoglobals,errname // constants, named by what they find
var (
	deniedNoPolicy   = newDenial(CheckKey, "no policy is in force; load one")
	deniedKeyMissing = newDenial(CheckKey, "the request names no allowlist entry; set allowlist_key to the name of one")
	deniedKeyUnknown = newDenial(CheckKey, "no allowlist entry has this name; "+
		"names are matched exactly, so use one from the policy as it is written there")
	// Whether there is such an agent or not.
	deniedKeyAgent = newDenial(CheckKey, "entries of agents serve runs alone; "+
		"send a run of that task type, or use an entry whose name does not begin with agent:")
	deniedKeyModel = newDenial(CheckKey, "entries of models serve completions alone; "+
		"ask the model for one, or use an entry whose name does not begin with model:")
	deniedKeyShadow = newDenial(CheckKey, "the allowlist entry of this name is a shadow, which permits nothing; "+
		"use another, or set its mode to enforce")
	deniedKeyNotYours  = newDenial(CheckKey, "the token may not use this entry; use one that it may, or a token for this one")
	deniedURLLength    = newDenial(CheckURL, "the url is longer than 8192 bytes with its parameters; send less in the url")
	deniedURLCharacter = newDenial(CheckURL, "the url holds a character that must be escaped; "+
		"use printable ASCII, percent-encode the rest and write a host in other scripts as A-labels")
	deniedFragment      = newDenial(CheckURL, "the url has a fragment, which is never sent; leave it out")
	deniedNoScheme      = newDenial(CheckURL, "the url has no scheme; write it in full, beginning with http:// or https://")
	deniedNoAuthority   = newDenial(CheckURL, "the scheme is not followed by two slashes; write scheme://host/path")
	deniedNoHost        = newDenial(CheckURL, "the url has no host; write scheme://host/path, and an IPv6 address in brackets")
	deniedHostCharacter = newDenial(CheckURL, "the host holds a character that no host name has; "+
		"use letters, digits, hyphens and underscores, without escapes")
	deniedHostWildcard = newDenial(CheckURL, "wildcards in a host are not supported; name each host")
	deniedHostLength   = newDenial(CheckURL, "a label of the host is empty or longer than 63 bytes, or the host longer than 253; "+
		"use a host name that DNS can hold")
	deniedHostLiteral = newDenial(CheckURL, "the text in brackets is not an IPv6 address; write one without a zone")
	deniedPortForm    = newDenial(CheckURL, "the port is not a number from 1 to 65535; "+
		"write it in digits without leading zeros, or leave out the colon too")
	deniedEscape        = newDenial(CheckURL, "the url has an incomplete escape; a percent sign is followed by two hex digits")
	deniedSchemeUnknown = newDenial(CheckScheme, "only http and https are spoken; use one of them")
	deniedScheme        = newDenial(CheckScheme, "the scheme is not the entry's; use the scheme of its url_prefix")
	deniedUserinfo      = newDenial(CheckUserinfo, "the url carries a user or password; "+
		"take it out and let the entry's headers hold the credential")
	deniedHostDot     = newDenial(CheckHost, "the host ends in a dot; leave it out")
	deniedHostHyphen  = newDenial(CheckHost, "a label of the host begins or ends with a hyphen; use the host's real name")
	deniedHostNumeric = newDenial(CheckHost, "the host is a number that resolvers read in different ways; "+
		"write four decimal numbers from 0 to 255 without leading zeros")
	deniedHost         = newDenial(CheckHost, "the host is not the entry's; use the host of its url_prefix, or an entry for this one")
	deniedHostNone     = newDenial(CheckHost, "no entry and no allowed host covers this host; ask the operator to add one")
	deniedHostLoopback = newDenial(CheckHost, "the host is the machine that Weir runs on, and no entry covers it; "+
		"ask the operator to add an entry for it with network: loopback")
	deniedHostNever = newDenial(CheckHost, "no entry covers this host, and none can: Weir never calls it, whatever the policy says; "+
		"use another host")
	deniedHostLimited = newDenial(CheckHost, "the token is limited to entries, and none of them covers this host; use a token for an entry that does")
	deniedPortLimited = newDenial(CheckPort, "the token is limited to entries, and none of them has this port; use a token for an entry that does")
	deniedPort        = newDenial(CheckPort, "the port is not the entry's; use the port of its url_prefix, where none means the scheme's own")
	deniedPortAny     = newDenial(CheckPort, "an entry for any host reaches the ports 80 and 443 only; "+
		"other ports need an entry that names them")
	deniedMethodUnknown = newDenial(CheckMethod, "the method is not one that is ever sent; "+
		"use GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE")
	deniedMethod  = newDenial(CheckMethod, "the entry does not list the method; use one that it lists, or an entry that lists this one")
	deniedConnect = newDenial(CheckMethod, "the entry permits no CONNECT; "+
		"set connect in it to tunnel or inspect, or use an entry that has it")
	deniedConnectForm = newDenial(CheckURL, "CONNECT names a host and a port alone; "+
		"write host:port, without a scheme, a path, a query or a fragment")
	deniedConnectPort    = newDenial(CheckURL, "the target of CONNECT has no port; write host:port, such as example.com:443")
	deniedConnectUser    = newDenial(CheckUserinfo, "the target of CONNECT carries a user or password; write host:port alone")
	deniedConnectMail    = newDenial(CheckPort, "port 25 relays mail, and no entry grants a CONNECT to it; use port 587 or 465")
	deniedConnectAddress = newDenial(CheckHost, "the target of CONNECT is an address, and no entry names it; "+
		"use the host's name, or an entry whose url_prefix has this address")
	deniedPathEmptySegment = newDenial(CheckPath, "the path has an empty segment, which servers resolve differently; "+
		"write single slashes")
	deniedPathDots      = newDenial(CheckPath, "the path has a dot segment; write the path that it leads to")
	deniedPathBackslash = newDenial(CheckPath, "the path has an escaped backslash; use a path without it")
	deniedPathSlash     = newDenial(CheckPath, "the path has an escaped slash, which servers resolve differently; "+
		"use a path without it, or have the operator set encoded_slashes of the entry")
	deniedPathControl   = newDenial(CheckPath, "the path has an escaped control character; leave it out")
	deniedPathTwice     = newDenial(CheckPath, "the path is escaped twice; escape it once")
	deniedPathUTF8      = newDenial(CheckPath, "the path's escapes are not valid UTF-8; encode its characters as UTF-8 first")
	deniedPathLookAlike = newDenial(CheckPath, "the path has an invisible character or one that servers take for a dot, a slash or "+
		"another delimiter; "+
		"leave it out")
	deniedPath = newDenial(CheckPath, "the path is not at or below the entry's; "+
		"use one under its url_prefix, which is matched in whole segments and by case")
	deniedQueryOwned  = newDenial(CheckURL, "the query has a parameter that the entry itself adds; leave it out")
	deniedQueryCaller = newDenial(CheckURL, "the query has a parameter that the entry, which adds values of its own, does not leave to callers; "+
		"leave the parameter out, or have the operator name it in caller_params of the entry")
	deniedURLToken    = newDenial(CheckURL, "the path or the query has a Weir token, which no target gets; leave it out")
	deniedHeaderToken = newDenial(CheckHeader, "a header's value has a Weir token, which no target gets; "+
		"leave it out, and show the token to Weir alone")
	deniedHeaderCount = newDenial(CheckHeader, "there are more than 64 headers; send fewer")
	deniedHeaderName  = newDenial(CheckHeader, "a header's name is not a token of up to 256 characters; use letters, digits and hyphens")
	deniedHeaderValue = newDenial(CheckHeader, "a header's value has a control or non-ASCII character; "+
		"encode it so that it is printable ASCII")
	deniedHeaderLength   = newDenial(CheckHeader, "a header's value is longer than 8192 bytes; send it in the body")
	deniedHeaderRepeated = newDenial(CheckHeader, "a header is given twice; give it once, with the values joined as its syntax says")
	deniedHeaderTemplate = newDenial(CheckHeader, "a header's value holds a template, and callers' templates are never filled in; "+
		"send the value itself")
	deniedHeaderFraming = newDenial(CheckHeader, "a header frames the message or belongs to the connection; "+
		"leave it out, it is set from the request itself")
	deniedHeaderRouting = newDenial(CheckHeader, "a header changes where, as whom or how the request is served behind the target; "+
		"leave it out and put the real target in the url and the method")
	deniedHeaderCredential = newDenial(CheckHeader, "a header authenticates; "+
		"leave it out, credentials are set in the entry's headers by the operator")
	deniedHeaderMetadata    = newDenial(CheckHeader, "a header is a handshake with a metadata service; leave it out")
	deniedHeaderIdempotency = newDenial(CheckHeader, "the idempotency key is a header; "+
		"declare it in idempotency_key, so that it is known what may be repeated")
	deniedHeaderOwned = newDenial(CheckHeader, "the entry sets this header itself; leave it out")
	deniedHeaderPart  = newDenial(CheckHeader, "an entry that adds something to its calls gives whole answers only; "+
		"leave out Range and If-Range")
	deniedHeaderCaller = newDenial(CheckHeader, "the entry adds credentials or other values, and does not leave this header to callers; "+
		"leave the header out, or have the operator name it in caller_headers of the entry")
	deniedHeaderRedacted = newDenial(CheckHeader, "a header's value is REDACTED, as views show a hidden value; send the value itself")
	deniedIdempotencyKey = newDenial(CheckHeader, "the idempotency key cannot be sent as a header; "+
		"use 1 to 255 printable ASCII characters")
	deniedKeyRequired = newDenial(CheckHeader, "the entry requires an idempotency key with POST and PATCH; set idempotency_key")
	deniedBodySize    = newDenial(CheckBody, "the body as it is sent is larger than limits.body, or limits.upload; "+
		"send less at once, or have the operator raise the limit")
	deniedBodyDepth   = newDenial(CheckBody, "the body is nested more than 64 levels deep; flatten it")
	deniedBodyMethod  = newDenial(CheckBody, "GET and HEAD carry no body; use the url's query, or another method")
	deniedBodyMissing = newDenial(CheckBody, "the entry adds members to the body, and there is none; "+
		"send a JSON object, an empty one if need be")
	deniedBodyPassed      = newDenial(CheckBody, "the entry adds members to the body, which passthrough and the proxy send as it came; send the call to /v1/execute")
	deniedBodyNotObject   = newDenial(CheckBody, "the entry adds members to the body, and it is not a JSON object; send one")
	deniedBodyOwned       = newDenial(CheckBody, "the entry adds a member of the body that is there already; leave it out")
	deniedAddressForm     = newDenial(CheckAddress, "the address cannot be checked; it must be an IP address without a zone")
	deniedAddressNone     = newDenial(CheckAddress, "there is no address to check; the host must resolve to at least one")
	deniedAddressMetadata = newDenial(CheckAddress, "the host leads to a metadata service; no entry can grant that")
	deniedAddressSelf     = newDenial(CheckAddress, "the host leads back to this gateway; no entry can grant that")
	deniedAddressSpecial  = newDenial(CheckAddress, "the host leads to an address that is not public; "+
		"an entry for it needs network loopback, or private with cidrs")
	deniedAddressNotLoopback = newDenial(CheckAddress, "the host leads somewhere else than loopback, which is all that the entry grants; "+
		"change its network if that is meant")
	deniedAddressNotGranted = newDenial(CheckAddress, "the host leads to an address that the entry's cidrs do not grant; "+
		"add its range to them if that is meant")
	deniedRedirectOff = newDenial(CheckRedirect, "the target redirects, and the entry follows no redirect; "+
		"call the final url, or set redirects in the entry")
	deniedRedirectLimit  = newDenial(CheckRedirect, "the target redirects more often than the entry follows; call the final url")
	deniedRedirectMethod = newDenial(CheckRedirect, "the target redirects a method other than GET and HEAD; call the final url")
	deniedRedirectStatus = newDenial(CheckRedirect, "the status is not a redirect that Weir follows; "+
		"only 301, 302, 303, 307 and 308 are")
	deniedRedirectLocation = newDenial(CheckRedirect, "the target redirects without saying where; nothing can be followed")
	deniedRedirectTarget   = newDenial(CheckRedirect, "the target redirects to a url outside the entry; "+
		"call it under an entry of its own")
	deniedRedirectRevoked = newDenial(CheckRedirect, "the policy has changed, and the entry no longer leads to where the target redirects; "+
		"call that url under an entry of its own")
	deniedNoPermit = newDenial(CheckAddress, "nothing was permitted; ask for a decision first")
)
