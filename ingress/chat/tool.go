package chat

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/completion"
)

// ofMessage is the place of a member of a message.
func ofMessage(name string) place {
	switch name {
	case "content":
		return part
	case "parsed":
		return talk
	case "tool_calls":
		return calls
	case "function_call":
		return invoked
	case "role", "name", "tool_call_id", "prefix", "partial", "cache_control":
		return known
	default:
		return echoed
	}
}

// ofPart is the place of a member of a part of a message: what is said there, and what a
// tool was asked, may be about anything.
func ofPart(name string) place {
	switch name {
	case "text", "input", "arguments", "data":
		return talk
	default:
		return part
	}
}

// ofCall is the place of a member of a tool's call, or of what is called there.
func ofCall(p place, name string) place {
	switch {
	case p == call && (name == "function" || name == "custom"):
		return invoked
	case p == invoked && (name == "arguments" || name == "input" || name == "parsed_arguments"):
		return talk
	case p == call, name == "extra_content", name == "provider_specific_fields":
		return echoed
	case name == "name":
		return known
	default:
		return unknown
	}
}

// ofTool is the place of a member of a tool, or of what lies in one.
func ofTool(p place, name string) place {
	switch name {
	case "type", "name", "description", "cache_control":
		return known
	case "function", "custom":
		switch p {
		case tool:
			return declared
		case choice:
			return known
		default:
			return unknown
		}
	}
	switch {
	case (p == tool || p == declared) && (name == "parameters" || name == "input_schema" || name == "output_schema"):
		return talk
	case (p == tool || p == declared) && name == "format":
		return texts
	case (p == served || p == filter) && name == "filters":
		return filter
	case p == filter && name == "value", p == choice && name == "mode":
		return known
	case p == choice && name == "allowed_tools":
		return choice
	case p == choice && name == "tools":
		return tools
	default:
		return unknown.member(name)
	}
}

// performer tells apart who performs a tool, by its type: ahead begins with it, maybe
// behind a comma. What nobody can be sure of is served. kind is the type of one that is
// performed by others; empty: it has none that can be read.
func performer(ahead []byte) (p place, kind string) {
	dec := decoder(bytes.TrimLeft(ahead, " \t\r\n,"))
	if _, err := dec.ReadToken(); err != nil {
		return served, ""
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return served, ""
		}
		text := name.String()
		if completion.Fold(text) != "type" {
			if err := dec.SkipValue(); err != nil {
				return served, ""
			}
			continue
		}
		value, err := dec.ReadToken()
		switch {
		case err != nil || text != "type":
			return served, ""
		case !performed(value):
			return served, word(value)
		}
	}
	return tool, ""
}

// word is a text; of anything else it is empty.
func word(t jsontext.Token) string {
	if t.Kind() != '"' {
		return ""
	}
	return t.String()
}

// performed reports whether a type is one of the tools that the caller performs.
func performed(kind jsontext.Token) bool {
	text := word(kind)
	return kind.Kind() == 'n' || text == "function" || text == "custom"
}
