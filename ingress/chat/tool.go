package chat

import (
	"github.com/tidwall/gjson"

	"weir/internal/completion"
)

// ofMessage is the place of a member of a message.
func ofMessage(name string) position {
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

// ofPart is the place of a member of a message part: the content and tool arguments in it are free.
func ofPart(name string) position {
	switch name {
	case "text", "input", "arguments", "data":
		return talk
	default:
		return part
	}
}

// ofCall is the place of a member of a tool's call, or of what is called there.
func ofCall(p position, name string) position {
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

// ofTool is the place of a member of a tool, or of an object inside it.
func ofTool(p position, name string) position {
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

// executor returns who performs a tool, by its type. An uncertain type counts as served.
// kind is the type of a tool that the provider performs; empty: it has no readable type.
func executor(of gjson.Result) (p position, kind string) {
	for name, v := range of.All() {
		switch {
		case completion.Fold(name.Str) != "type":
		case name.Str != "type":
			return served, ""
		case v.Type != gjson.Null && text(v) != "function" && text(v) != "custom":
			return served, text(v)
		}
	}
	return tool, ""
}
