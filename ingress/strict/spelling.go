package strict

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Open is At for an object of a checked document whose unknown members are ignored. A name
// that differs from one of v's in case alone is refused as At refuses it.
func Open(base string, object []byte, v any) error {
	if name, _ := misspelled(object, v); name != "" {
		return unknown(jsontext.Pointer(base).AppendToken(name), object, v)
	}
	return decode(object, v, jsontext.Pointer(base), json.RejectUnknownMembers(false))
}

// Spelling refuses, in a checked object, a name that differs in case alone from a
// member of the struct v: a lenient reader would take it for that one. Other
// members pass, and what members hold is not looked into. Base is the pointer of
// the object in the body.
func Spelling(base string, object []byte, v any) error {
	if name, known := misspelled(object, v); name != "" {
		return invalid(jsontext.Pointer(base).AppendToken(name), "names are case-sensitive; this one is '"+known+"'")
	}
	return nil
}

// misspelled is the first name in an object that differs in case alone from a member of the
// struct v, and the name of that member; empty: there is none.
func misspelled(object []byte, v any) (name, known string) {
	var members map[string]jsontext.Value
	if Kind(object) == '{' {
		_ = json.Unmarshal(object, &members) // checked: cannot fail
	}
	all := names(v)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(all, name) {
			continue
		}
		for _, known := range all {
			if strings.EqualFold(known, name) {
				return name, known
			}
		}
	}
	return "", ""
}
