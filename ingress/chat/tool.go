package chat

import (
	"slices"

	"github.com/tidwall/gjson"

	"weir/internal/completion"
	"weir/schemas"
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
// Tools that a block declares are tools of the request.
func ofPart(p position, name string) position {
	switch {
	case name == "text", name == "input", name == "arguments", name == "data":
		return talk
	case p == part:
		return part
	case name == "tools":
		return tools
	case name == "tool":
		return tool
	default:
		return block
	}
}

// ofItem is the place of an item, and the name of what it refers to in the provider's account; empty:
// nothing. Lists of tools that a server has shown declare none.
func ofItem(p position, v gjson.Result) (of position, stored string) {
	switch kind := text(v.Get("type")); {
	case kind == "mcp_list_tools", kind == "mcp_tool_listing":
		return part, ""
	case kind == itemReference, p == item && kind == "" && text(v.Get("role")) == "":
		return p, itemReference
	default:
		return p, ""
	}
}

const itemReference = "item_reference"

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
	case "definition": // of a tool that the conversation adds
		if p == tool {
			return tool
		}
	case "tools": // of tool_choice, or of a namespace
		if p == tool || p == choice {
			return tools
		}
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
	case (p == tool || p == declared) && (name == "parameters" || name == "input_schema" || name == "output_schema" || name == "input_examples"):
		return talk
	case (p == tool || p == declared) && name == "format":
		return texts
	case (p == served || p == filter) && name == "filters":
		return filter
	case p == filter && name == "value", p == choice && name == "mode":
		return known
	case p == choice && name == "allowed_tools":
		return choice
	default:
		return elsewhere(name)
	}
}

// executor returns who performs a tool, by its type. An uncertain type counts as served.
// kind is the type of a tool that the provider performs; empty: it has no readable type.
func executor(d schemas.Dialect, of gjson.Result) (p position, kind string) {
	for name, v := range of.All() {
		switch {
		case completion.Fold(name.Str) != "type":
		case name.Str != "type":
			return served, ""
		case v.Type == gjson.Null:
		default:
			if kind := completion.ToolKind(d, text(v)); !performed(d, kind, of) {
				return served, kind
			}
		}
	}
	return tool, ""
}

// performed reports whether the caller performs a tool of a type itself.
func performed(d schemas.Dialect, kind string, of gjson.Result) bool {
	switch {
	case kind == "tool_search":
		return text(of.Get("execution")) == "client"
	case kind == "shell" && of.Get("environment").IsObject():
		return text(of.Get("environment.type")) == "local"
	default:
		return slices.Contains(completion.CallerTools(d), kind)
	}
}
