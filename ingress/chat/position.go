package chat

import (
	"maps"

	"github.com/tidwall/gjson"

	"weir/internal/completion"
	"weir/schemas"
)

// position is where in a body a value is; it selects the checks. See elements for those of an array.
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

	top // the body
	message
	item // a message, a call, a result or a reference of DialectResponses; a message of DialectMessages
	call // of a tool, by the model
	invoked
	tool     // one that the caller performs
	served   // performed by a part of Weir
	filter   // of what a served tool searches
	declared // a function
	choice   // tool_choice
	shape    // of an answer: a schema, and what is around it
	speech   // the form of a spoken answer

	// elsewhere is the place of a member that has none by its object: known for sites, else unknown.
	elsewhere
)

// rule is how the values in one place are read.
type rule struct {
	// object is the closed set that the members of an object are of; empty: of none. stored: a member
	// that names a stored object goes only to upstreams that pass it.
	object completion.Object
	stored bool
	// members are the places of members, and rest is that of all others.
	members map[string]position
	rest    position
}

// rules are constants. Members of the body depend on the dialect: see ofBody.
var rules = func() [elsewhere]rule { //nolint:gochecknoglobals // a constant
	at := func(p position, names ...string) map[string]position {
		m := map[string]position{}
		for _, name := range names {
			m[name] = p
		}
		return m
	}
	all := func(lists ...map[string]position) map[string]position {
		m := map[string]position{}
		for _, list := range lists {
			maps.Copy(m, list)
		}
		return m
	}
	said := at(talk, "text", "input", "arguments", "data")
	turn := all(said, at(tool, "tools", "tool"))
	described := at(known, "type", "name", "description", "cache_control")
	declares := all(described, at(texts, "format"), at(talk, "parameters", "input_schema", "output_schema", "input_examples"))
	return [elsewhere]rule{
		unknown: {stored: true, rest: elsewhere},
		known:   {stored: true, rest: elsewhere},
		texts:   {rest: texts},
		labels:  {rest: texts},
		echoed:  {stored: true, rest: echoed},
		talk:    {rest: talk},
		part:    {stored: true, members: said, rest: part},
		block:   {stored: true, members: turn, rest: block},
		item:    {stored: true, members: turn, rest: block},

		top: {object: completion.Body},
		message: {object: completion.Message, rest: echoed, members: all(
			at(part, "content"), at(talk, "parsed"), at(call, "tool_calls"), at(invoked, "function_call"),
			at(known, "role", "name", "tool_call_id", "prefix", "partial", "cache_control"),
		)},
		call: {object: completion.Call, rest: echoed, members: at(invoked, "function", "custom")},
		invoked: {object: completion.Called, members: all(
			at(talk, "arguments", "input", "parsed_arguments"), at(echoed, "extra_content", "provider_specific_fields"), at(known, "name"),
		)},
		tool: {object: completion.Tool, rest: elsewhere, members: all(
			declares, at(declared, "function", "custom"), at(tool, "definition", "tools"), // of a namespace
		)},
		served:   {object: completion.Tool, rest: elsewhere, members: all(described, at(unknown, "function", "custom"), at(filter, "filters"))},
		filter:   {rest: elsewhere, members: all(described, at(unknown, "function", "custom"), at(filter, "filters"), at(known, "value"))},
		declared: {object: completion.Function, rest: elsewhere, members: all(declares, at(unknown, "function", "custom"))},
		choice: {object: completion.Choice, rest: elsewhere, members: all(
			described, at(known, "function", "custom", "mode"), at(tool, "tools"), at(choice, "allowed_tools"),
		)},
		shape: {members: all(
			at(shape, "json_schema"), at(known, "type", "name", "description", "grammar", "regex", "choice", "triggers"),
			at(talk, "schema", "json", "value", "structural_tag", "structures", "format", "properties", "items", "definitions", "$defs", "anyOf", "oneOf", "allOf"),
		)},
		speech: {object: completion.Speech, rest: speech},
	}
}()

// further reports whether a member of an object in this place goes only to upstreams that
// pass it: it is none of the dialect's closed set, or names a stored object. folded is its name.
func (p position) further(d schemas.Dialect, name, folded string) bool {
	if o := rules[p].object; o != "" {
		return !completion.Knows(d, o, name)
	}
	return rules[p].stored && completion.Stored(folded)
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

// elements is the place of an array's elements: where it is, but for objects that are not in lists.
func (p position) elements() position {
	switch p {
	case labels:
		return texts
	case speech, shape, choice, invoked:
		return unknown
	default:
		return p
	}
}

// member is the place of a member's value.
func (p position) member(d schemas.Dialect, name string) position {
	of := rules[p]
	if p == top {
		of = rule{members: ofBody[d.Family()], rest: elsewhere}
		if completion.Knows(d, completion.Body, name) {
			of.rest = known
		}
	}
	in, there := of.members[name]
	if !there {
		in = of.rest
	}
	if in != elsewhere {
		return in
	}
	if sites(name) {
		return known
	}
	return unknown
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

// ofBody are the places of members of a body, by dialect. Others of its closed set are known.
var ofBody = map[schemas.Dialect]map[string]position{ //nolint:gochecknoglobals // a constant
	schemas.DialectChat: {
		memberMessages: message, "prediction": message,
		"tools": tool, "functions": declared, "tool_choice": choice, "function_call": choice,
		"metadata": labels, "logit_bias": labels, "documents": echoed, "audio": speech,
		"response_format": shape, "structured_outputs": shape, "guided_json": talk, "json_schema": talk,
		"system": texts, "instructions": texts, "chat_template_kwargs": texts, "search_parameters": texts,
		"provider": known, "plugins": known, "suffix": known, "chat_template": known, "banned_strings": known, "preserved_tokens": known,
	},
	schemas.DialectResponses: {
		memberInput: item, "instructions": block, memberPrompt: echoed, "tools": tool, "tool_choice": choice, "text": shape,
		"metadata": labels, "client_metadata": labels, "chat_template_kwargs": texts, memberTalk: known,
		"provider": known, "plugins": known,
	},
	schemas.DialectMessages: {
		memberMessages: item, "system": block, "tools": tool, "tool_choice": choice, "output_config": shape, "output_format": shape,
		"compaction": texts, "metadata": labels, "chat_template_kwargs": texts, "container": known, "provider": known, "plugins": known,
	},
	schemas.DialectEmbeddings: {memberInput: part, "instruction": known, "provider": known},
}
