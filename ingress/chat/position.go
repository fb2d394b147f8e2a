package chat

import (
	"github.com/tidwall/gjson"

	"weir/internal/completion"
	"weir/schemas"
)

// position is where in a body a value is; it selects the checks.
type position uint8

const (
	// unknown: Weir does not know the member. Names are looked at, and texts for addresses.
	unknown position = iota
	// known: its names are checked, its texts are not. The members of its objects are unknown
	// again.
	known
	// texts: names are looked at, texts are not, however deep.
	texts
	// labels: an object of the caller's own names. Of those that hold a text, or are
	// empty, only the guarded ones are refused.
	labels
	// echoed: content that a model has returned besides its text and that is sent back to it. Only
	// guarded names are refused, at any depth.
	echoed
	// part: the content of a message, and its parts. No name is refused.
	part
	// block: likewise, where tools may be declared in the conversation.
	block
	// talk: the conversation itself, or the form of an answer. Nothing is looked at: it
	// may be about anything.
	talk

	top      // the body
	messages // an array of message
	message
	items // an array of item
	item  // a message, a call, a result or a reference of DialectResponses; a message of DialectMessages
	calls // an array of call
	call  // of a tool, by the model
	invoked
	tools    // an array of tool
	tool     // one that the caller performs
	served   // performed by a part of Weir
	filter   // of what a served tool searches
	declared // a function, or an array of them
	choice   // tool_choice
	shape    // of an answer: a schema, and what is around it
	speech   // the form of a spoken answer
)

// object is the closed set that the members of an object in this place are of; empty:
// of none.
func (p position) object() completion.Object {
	switch p {
	case top:
		return completion.Body
	case message:
		return completion.Message
	case call:
		return completion.Call
	case invoked:
		return completion.Called
	case tool, served:
		return completion.Tool
	case declared:
		return completion.Function
	case choice:
		return completion.Choice
	case speech:
		return completion.Speech
	case unknown, known, texts, labels, echoed, part, block, talk, messages, items, item, calls, tools, filter, shape:
	}
	return ""
}

// further reports whether a member of an object in this place goes only to upstreams that
// pass it: it is none of the dialect's closed set, or names a stored object. folded is its name.
func (p position) further(d schemas.Dialect, name, folded string) bool {
	if o := p.object(); o != "" {
		return !completion.Knows(d, o, name)
	}
	switch p {
	case unknown, known, echoed, part, block, item:
		return completion.Stored(folded)
	default: // names of the caller's own, or texts
		return false
	}
}

// refuses reports whether a member of an object in this place may not be there; v is its
// value, and name its folded name.
func (p position) refuses(spelled, name string, v gjson.Result) bool {
	switch {
	case p == part, p == block, p == item:
		return false
	case p == echoed, p == labels && v.Type == gjson.String:
		return completion.Guarded(name)
	case p == labels && v.Type != gjson.JSON:
		return false
	case p == filter && name == "key", name == "gateway" && v.IsObject():
		return false // it tells labels apart; it has options of its own, which are looked at
	case p == top && completion.Chooses(name):
		return true
	default:
		return completion.Guarded(name) || completion.Reserved(name) || p != texts && address(spelled)
	}
}

// member is the place of a member's value.
func (p position) member(d schemas.Dialect, name string) position {
	switch p {
	case top:
		return ofBody(d, name)
	case message:
		return ofMessage(name)
	case call, invoked:
		return ofCall(p, name)
	case tool, served, filter, declared, choice:
		return ofTool(p, name)
	case shape:
		return ofShape(name)
	case labels:
		return texts
	case part, block, item:
		return ofPart(p, name)
	case texts, echoed, talk, speech:
		return p
	case unknown, known, messages, items, calls, tools:
	}
	return elsewhere(name)
}

// elsewhere is the place of a member that has none by its object.
func elsewhere(name string) position {
	if sites(name) {
		return known
	}
	return unknown
}

// item is the place of an array's values.
func (p position) item() position {
	switch p {
	case messages:
		return message
	case items:
		return item
	case item:
		return block
	case calls:
		return call
	case tools:
		return tool
	case labels:
		return texts
	case top, message, call, invoked, tool, served, choice, shape, speech:
		return unknown
	case unknown, known, texts, echoed, part, block, talk, filter, declared:
	}
	return p
}

// sites are members of many providers that say where the web is searched, in addresses
// or parts of them.
func sites(name string) bool {
	switch name {
	case "include_domains", "exclude_domains", "allowed_domains", "blocked_domains", "excluded_domains",
		"allowed_websites", "excluded_websites", "search_domain_filter", "image_domain_filter":
		return true
	default:
		return false
	}
}

// places are the places of members of a body, by dialect. Others of its closed set are known.
var places = map[schemas.Dialect]map[string]position{ //nolint:gochecknoglobals // a constant
	schemas.DialectChat: {
		memberMessages: messages, "prediction": message,
		"tools": tools, "functions": declared, "tool_choice": choice, "function_call": choice,
		"metadata": labels, "logit_bias": labels, "documents": echoed, "audio": speech,
		"response_format": shape, "structured_outputs": shape, "guided_json": talk, "json_schema": talk,
		"system": texts, "instructions": texts, "chat_template_kwargs": texts, "search_parameters": texts,
		"provider": known, "plugins": known, "suffix": known, "chat_template": known, "banned_strings": known, "preserved_tokens": known,
	},
	schemas.DialectResponses: {
		memberInput: items, "instructions": block, memberPrompt: echoed, "tools": tools, "tool_choice": choice, "text": shape,
		"metadata": labels, "client_metadata": labels, "chat_template_kwargs": texts, memberTalk: known,
		"provider": known, "plugins": known,
	},
	schemas.DialectMessages: {
		memberMessages: items, "system": block, "tools": tools, "tool_choice": choice, "output_config": shape, "output_format": shape,
		"compaction": texts, "metadata": labels, "chat_template_kwargs": texts, "container": known, "provider": known, "plugins": known,
	},
	schemas.DialectEmbeddings: {memberInput: part, "instruction": known, "provider": known},
}

// ofBody is the place of a member of the body.
func ofBody(d schemas.Dialect, name string) position {
	if p, there := places[d.Family()][name]; there {
		return p
	}
	if completion.Knows(d, completion.Body, name) {
		return known
	}
	return elsewhere(name)
}

// ofShape is the place of a member of response_format, and of what stands for it.
func ofShape(name string) position {
	switch name {
	case "json_schema":
		return shape
	case "schema", "json", "value", "structural_tag", "structures", "format",
		"properties", "items", "definitions", "$defs", "anyOf", "oneOf", "allOf":
		return talk
	case "type", "name", "description", "grammar", "regex", "choice", "triggers":
		return known
	default:
		return unknown
	}
}
