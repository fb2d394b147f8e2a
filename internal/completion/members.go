package completion

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Stored reports whether a folded name is one of members that name an object which is
// stored in the provider's account. All tenants of an upstream share that account.
func Stored(name string) bool {
	switch name {
	case "fileid", "fileids", "fileuri", "threadid", "assistantid", "responseid", "previousresponseid", "previousinteractionid",
		"vectorstoreid", "vectorstoreids", "containerid", "conversationid", "cachedcontent":
		return true
	default:
		return false
	}
}

// MaxMember is the longest name of a member beyond Known, in bytes.
const MaxMember = 100

// validMember matches letters, digits and some signs, which are not all of it.
var validMember = regexp.MustCompile(`^[-_.:$]*[0-9A-Za-z][-\w.:$]*$`)

// ValidMember reports whether an upstream's pass can list a text, as the name of a member or
// the type of a tool.
func ValidMember(name string) bool { return len(name) <= MaxMember && validMember.MatchString(name) }

// Refused reports whether a member of this name is refused whatever an upstream passes:
// it would choose where the request goes, with which key, or whom a provider calls back.
func Refused(name string) bool {
	name = Fold(name)
	return Guarded(name) || Reserved(name) || Chooses(name)
}

// Fold is a name as a reader may take it that does not care for case and for the
// characters between words: its letters and digits. It folds the two letters outside
// of ASCII that belong to letters of it.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r <= unicode.MaxASCII:
			return -1
		}
		if r = unicode.ToLower(unicode.ToUpper(r)); !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}

// The names below are folded.

// Guarded reports whether a folded name is used for a key, the address of an API, or a
// callback. Requests with such a member are refused, also where callers use names of
// their own.
func Guarded(name string) bool {
	switch name {
	case "auth", "bearer", "cookie", "cookies", "headers", "extraheaders", "extrabody", "extraquery", "langfusehost", "gcsbucketname":
		return true
	}
	return matches(name, strings.Contains, "apikey", "apibase", "authorization", "baseurl", "baseuri", "basepath", "callback", "credential",
		"password", "passwd", "secret", "serviceaccount", "webhook") ||
		matches(name, strings.HasSuffix, "accesskey", "accesskeyid", "accesstoken", "authtoken", "apitoken", "bearertoken", "privatekey",
			"publickey", "refreshtoken")
}

func matches(name string, by func(name, word string) bool, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return by(name, word) })
}

// Reserved reports whether a folded name that is not guarded could still make a provider send the
// request elsewhere, use another key or call a third party.
func Reserved(name string) bool {
	switch name {
	case "allowfallbacks", "disablefallbacks", "emailaddress": // they only look like it
		return false
	case "extraparams", "modellist", "modelid", "modelinfo", "basemodel", "userconfig", "routersettings",
		"deploymentid", "deploymentname", "organizationid", "orgid", "tenantid", "clientid", "regionname",
		"token", "key", "idtoken", "hftoken", "target", "targets", "port", "ports":
		return true
	}
	return matches(name, strings.Contains, "proxy", "proxies", "fallback") ||
		// Vendors whose own parameters are keys and places.
		matches(name, strings.HasPrefix, "aws", "azure", "gcs", "litellm", "langfuse", "langsmith", "oci", "sagemaker", "vertex", "watsonx") ||
		matches(name, strings.HasSuffix, "url", "urls", "uri", "uris", "endpoint", "endpoints", "host", "hosts", "hostname", "hostnames",
			"server", "servers", "upstream", "upstreams", "gateway", "gateways", "address", "addresses", "domain",
			"hostport", "serverport", "remoteport", "bootstrapport", "header", "headers", "auth", "authentication", "jwt",
			"apitype", "apiversion", "llmprovider", "apiprovider", "modelprovider", "sessiontoken", "securitytoken", "oidctoken",
			"subscriptionkey", "accountkey", "adminkey", "masterkey", "virtualkey", "authkey", "providerkey", "openaikey")
}

// Chooses reports whether a folded name of the body itself chooses among a provider's
// own; in nested objects the name has no such meaning.
func Chooses(name string) bool {
	return name == "engine" || name == "deployment" || name == "organization"
}
