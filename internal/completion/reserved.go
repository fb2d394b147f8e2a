package completion

import (
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

// Guarded reports whether a folded name is one of a key, of the address of an API, or of
// a callback. Requests with such a member are refused, also where callers use names of
// their own.
func Guarded(name string) bool {
	for i := range len(name) {
		if guardedAt(name[i:]) {
			return true
		}
	}
	switch name {
	case "auth", "bearer", "cookie", "cookies", "headers", "extraheaders", "extrabody", "extraquery",
		"langfusehost", "gcsbucketname":
		return true
	default:
		return false
	}
}

// guardedAt reports whether a word of a guarded name begins here, or ends it.
func guardedAt(rest string) bool {
	switch rest[0] {
	case 'a':
		switch rest {
		case "accesskey", "accesskeyid", "accesstoken", "authtoken", "apitoken":
			return true
		}
		return starts(rest, "apikey") || starts(rest, "apibase") || starts(rest, "authorization")
	case 'b':
		return starts(rest, "baseurl") || starts(rest, "baseuri") || starts(rest, "basepath") || rest == "bearertoken"
	case 'c':
		return starts(rest, "callback") || starts(rest, "credential")
	case 'p':
		return starts(rest, "password") || starts(rest, "passwd") || rest == "privatekey" || rest == "publickey"
	case 'r':
		return rest == "refreshtoken"
	case 's':
		return starts(rest, "secret") || starts(rest, "serviceaccount")
	case 'w':
		return starts(rest, "webhook")
	default:
		return false
	}
}

func starts(s, prefix string) bool { return strings.HasPrefix(s, prefix) }

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
	return vendor(name) || strings.Contains(name, "proxy") || strings.Contains(name, "proxies") ||
		strings.Contains(name, "fallback") || ends(name)
}

// Chooses reports whether a folded name of the body itself chooses among a provider's
// own; deeper down it is a word like others.
func Chooses(name string) bool {
	return name == "engine" || name == "deployment" || name == "organization"
}

// vendor reports whether a name begins with that of one whose own parameters are keys
// and places.
func vendor(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'a':
		return starts(name, "aws") || starts(name, "azure")
	case 'g':
		return starts(name, "gcs")
	case 'l':
		return starts(name, "litellm") || starts(name, "langfuse") || starts(name, "langsmith")
	case 'o':
		return starts(name, "oci")
	case 's':
		return starts(name, "sagemaker")
	case 'v':
		return starts(name, "vertex")
	case 'w':
		return starts(name, "watsonx")
	default:
		return false
	}
}

// longestEnding is that of the words below.
const longestEnding = len("subscriptionkey")

func ends(name string) bool {
	for i := max(0, len(name)-longestEnding); i < len(name); i++ {
		if ending(name[i:]) {
			return true
		}
	}
	return false
}

func ending(word string) bool {
	switch word {
	case "url", "urls", "uri", "uris", "endpoint", "endpoints", "host", "hosts", "hostname", "hostnames",
		"server", "servers", "upstream", "upstreams", "gateway", "gateways", "address", "addresses", "domain",
		"hostport", "serverport", "remoteport", "bootstrapport",
		"header", "headers", "auth", "authentication", "jwt", "apitype", "apiversion",
		"llmprovider", "apiprovider", "modelprovider",
		"sessiontoken", "securitytoken", "oidctoken",
		"subscriptionkey", "accountkey", "adminkey", "masterkey", "virtualkey", "authkey", "providerkey", "openaikey":
		return true
	default:
		return false
	}
}
