package chat

import (
	"slices"

	"github.com/tidwall/gjson"

	"weir/internal/completion"
	"weir/schemas"
)

// ofItem is the place of an item, and the name of what it refers to in the provider's account; empty:
// nothing. Lists of tools that a server has shown declare none.
func ofItem(p position, v gjson.Result) (of position, stored string) {
	switch kind := v.Get("type").Str; {
	case kind == "mcp_list_tools", kind == "mcp_tool_listing":
		return part, ""
	case kind == itemReference, p == item && kind == "" && v.Get("role").Str == "":
		return p, itemReference
	default:
		return p, ""
	}
}

const itemReference = "item_reference"

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
			if kind := completion.ToolKind(d, v.Str); !performed(d, kind, of) {
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
		return of.Get("execution").Str == "client"
	case kind == "shell" && of.Get("environment").IsObject():
		return of.Get("environment.type").Str == "local"
	default:
		return slices.Contains(completion.CallerTools(d), kind)
	}
}
