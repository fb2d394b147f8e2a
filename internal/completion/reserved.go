package completion

import (
	"slices"
	"strings"
	"unicode"
)

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

// Reserved reports whether a folded name that is not guarded is still one by which a
// provider could be told where to send the request, with which key, or whom to call.
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
