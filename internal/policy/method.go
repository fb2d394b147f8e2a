package policy

// methods is a set of the methods that are ever sent.
type methods uint8

const (
	methodGET methods = 1 << iota
	methodHEAD
	methodOPTIONS
	methodPOST
	methodPUT
	methodPATCH
	methodDELETE

	methodsAll = methodGET | methodHEAD | methodOPTIONS | methodPOST | methodPUT | methodPATCH | methodDELETE
)

// parseMethod gives the canonical name and the bit of a method in any case. It
// folds ASCII alone. An unknown method has no bit.
func parseMethod(s string) (string, methods) {
	switch {
	case equalLower(s, "get"):
		return "GET", methodGET
	case equalLower(s, "post"):
		return "POST", methodPOST
	case equalLower(s, "put"):
		return "PUT", methodPUT
	case equalLower(s, "patch"):
		return "PATCH", methodPATCH
	case equalLower(s, "delete"):
		return "DELETE", methodDELETE
	case equalLower(s, "head"):
		return "HEAD", methodHEAD
	case equalLower(s, "options"):
		return "OPTIONS", methodOPTIONS
	}
	return "", 0
}

// refusedMethod holds for the methods that an entry may list in vain: one opens
// a tunnel, the other answers with the request's own headers.
func refusedMethod(s string) bool { return equalLower(s, "connect") || equalLower(s, "trace") }

func (m methods) names() []string {
	var out []string
	for _, name := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"} {
		if _, bit := parseMethod(name); m&bit != 0 {
			out = append(out, name)
		}
	}
	return out
}
