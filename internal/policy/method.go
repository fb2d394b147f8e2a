package policy

import (
	"slices"
	"strings"
)

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

// methodNames are the canonical names in the order of their bits.
var methodNames = [...]string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"} //nolint:gochecknoglobals // a constant

// parseMethod gives the canonical name and the bit of a method in any case. It
// folds ASCII alone. An unknown method has no bit.
func parseMethod(s string) (string, methods) {
	for i, name := range methodNames {
		if len(s) == len(name) && strings.EqualFold(s, name) {
			return name, 1 << i
		}
	}
	return "", 0
}

// refusedMethod holds for the methods that an entry may list in vain: one opens
// a tunnel, the other answers with the request's own headers.
func refusedMethod(s string) bool { return equalLower(s, "connect") || equalLower(s, "trace") }

// names are in alphabetical order.
func (m methods) names() []string {
	var out []string
	for i, name := range methodNames {
		if m&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
