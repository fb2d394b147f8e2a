package strict

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Open reads an object of a checked document into the struct that v points to, and
// ignores members that v does not have. A name that differs from one of v's in case
// alone is refused: see Spelling. Base is the pointer of the object in the body.
func Open(base string, object []byte, v any) error {
	if err := Spelling(base, object, v); err != nil {
		return err
	}
	return decode(object, v, jsontext.Pointer(base), json.RejectUnknownMembers(false))
}

// Spelling refuses, in a checked object, a name that differs in case alone from a
// member of the struct v: a lenient reader would take it for that one. Other
// members pass, and what members hold is not looked into. Base is the pointer of
// the object in the body.
func Spelling(base string, object []byte, v any) error {
	var members map[string]jsontext.Value
	if Kind(object) == '{' {
		_ = json.Unmarshal(object, &members) // checked: cannot fail
	}
	known := names(v)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(known, name) {
			continue
		}
		for _, word := range known {
			if strings.EqualFold(word, name) {
				return invalid(jsontext.Pointer(base).AppendToken(name), "names are case-sensitive; this one is '"+word+"'")
			}
		}
	}
	return nil
}
