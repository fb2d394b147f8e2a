package chat

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/schemas"
)

// maxMembers is how many members a body may have of its own; no provider knows half as
// many.
const maxMembers = 500

// read finds the members that Weir reads. A name that somebody could take for one of
// them is refused: the model would be asked for more than was reserved.
func read(body []byte) (document, error) {
	doc := document{values: map[string][]byte{}, rest: body}
	dec := decoder(body)
	if _, err := dec.ReadToken(); err != nil {
		return doc, err
	}
	for n := 1; dec.PeekKind() == '"'; n++ {
		if n > maxMembers {
			return doc, fault.New(schemas.ValidationError, "the request has more than "+strconv.Itoa(maxMembers)+" members of its own; leave out those that no model reads")
		}
		tok, err := dec.ReadToken()
		if err != nil {
			return doc, err
		}
		name := tok.String()
		is := member(completion.Fold(name))
		if is != "" && is != name {
			return doc, refuse(string(dec.StackPointer()), "names are read as they are spelled; this one is '"+is+"'")
		}
		value, err := dec.ReadValue()
		if err != nil {
			return doc, err
		}
		if is != "" {
			end := int(dec.InputOffset())
			doc.values[name] = body[end-len(value) : end]
		}
	}
	if _, there := doc.values[memberModels]; there {
		doc.rest = completion.Without(body, memberModels)
	}
	return doc, nil
}

// decoder reads a body that strict.Check has passed: it looks for nothing twice.
func decoder(body []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
}

// member is the one that Weir reads which is folded like this; empty: none is.
func member(folded string) string {
	switch folded {
	case memberModel, memberModels, memberMessages, memberStream, memberN:
		return folded
	case "streamoptions":
		return memberOptions
	case "bestof":
		return memberBestOf
	case "maxtokens":
		return memberMax
	case "maxcompletiontokens":
		return memberMaxAnswer
	case "maxoutputtokens":
		return memberMaxOutput
	default:
		return ""
	}
}
