package completion

import (
	"regexp"
	"slices"
	"strings"

	"weir/schemas"
)

// Object is an object of a request whose members are a closed set.
type Object string

// The objects of a request whose members are closed sets. The later ones are only in DialectChat.
const (
	Body     Object = "the request"
	Tool     Object = "a tool that the caller performs"
	Choice   Object = "`tool_choice`"
	Message  Object = "a message, `prediction`"
	Call     Object = "a tool call in a message"
	Called   Object = "`function`, `custom` of a tool call; `function_call` of a message"
	Function Object = "`function`, `custom` of a tool; an item of `functions`"
	Speech   Object = "`audio` of the request, its `voice`"
)

// Members are the members of an object that every upstream gets.
type Members struct {
	Dialect schemas.Dialect
	Object  Object
	// Protocol are the members of the dialect's protocol: those in requests, and those in answers
	// that clients send back.
	Protocol []string
	// Common are those that many servers and clients have beside the protocol. None of
	// them names a place, an account, another model, a stored object, or a tool that the
	// provider performs.
	Common []string
}

// Known is the closed set of members that go to every upstream. An upstream gets others
// only if its configuration has them in pass. docs/reference/configuration.md has this as a table,
// which a test compares. Objects of DialectCount without a set of their own are those of
// DialectMessages.
func Known() []Members {
	const (
		chat       = schemas.DialectChat
		responses  = schemas.DialectResponses
		messages   = schemas.DialectMessages
		count      = schemas.DialectCount
		embeddings = schemas.DialectEmbeddings
	)
	list := strings.Fields
	return []Members{
		{
			chat, Body, list(`audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
			modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options
			prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream
			stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options`),
			list(`add_generation_prompt add_special_tokens bad_words best_of cache_control cache_prompt chat_template_kwargs
			continue_final_message dry_allowed_length dry_base dry_multiplier dry_penalty_last_n dry_sequence_breakers
			early_stopping ebnf echo enable_thinking grammar guided_choice guided_grammar guided_json guided_regex ignore_eos
			include_reasoning include_stop_str_in_output json_schema length_penalty max_output_tokens min_p min_tokens mirostat
			mirostat_eta mirostat_tau models prompt_logprobs prompt_mode random_seed reasoning reasoning_format regex
			repeat_last_n repeat_penalty repetition_penalty safe_prompt separate_reasoning skip_special_tokens
			spaces_between_special_tokens stop_sequences stop_token_ids structured_outputs thinking thinking_budget
			timings_per_token top_a top_k transforms truncate_prompt_tokens typical_p usage xtc_probability xtc_threshold`),
		},
		{
			chat, Message, list("annotations audio content function_call name refusal role tool_call_id tool_calls type"),
			list(`cache_control citations context executed_tools extra_content images parsed partial prefix
			provider_specific_fields reasoning reasoning_content reasoning_details reasoning_opaque reasoning_signature
			reasoning_text search_results thinking thinking_blocks tool_plan`),
		},
		{chat, Call, list("custom function id type"), list("cache_control extra_content index provider_specific_fields thought_signature")},
		{chat, Called, list("arguments input name"), list("extra_content parsed_arguments provider_specific_fields thought_signature")},
		{chat, Tool, list("custom function type"), list("cache_control description format input_schema name output_schema parameters strict")},
		{chat, Function, list("description format name parameters strict"), list("cache_control input_schema output_schema")},
		{chat, Choice, list("allowed_tools custom function mode name tools type"), list("disable_parallel_tool_use")},
		{chat, Speech, list("format voice"), nil},
		{
			responses, Body, list(`background context_management include input instructions max_output_tokens max_tool_calls metadata model
			moderation parallel_tool_calls previous_response_id prompt_cache_key prompt_cache_options prompt_cache_retention
			reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools
			top_logprobs top_p truncation user`),
			list(`chat_template_kwargs client_metadata enable_thinking frequency_penalty include_stop_str_in_output min_p models
			presence_penalty repetition_penalty seed skip_special_tokens stop top_k`),
		},
		{
			responses, Tool, list(`allowed_callers defer_loading description display_height display_width environment execution format name
			output_schema parameters strict tools type`), nil,
		},
		{responses, Choice, list("mode name tools type"), nil},
		{
			messages, Body, list(`cache_control compaction context_management max_tokens messages metadata model output_config output_format
			service_tier speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p`),
			list("chat_template_kwargs min_p models repetition_penalty"),
		},
		{
			messages, Tool, list(`allowed_callers cache_control configs defer_loading definition description display_height_px display_number
			display_width_px eager_input_streaming enable_zoom input_examples input_schema max_characters name strict type`), nil,
		},
		{messages, Choice, list("disable_parallel_tool_use name type"), nil},
		{
			count, Body, list(`cache_control compaction context_management messages model output_config output_format speed system
			thinking tool_choice tools`), list("models"),
		},
		{
			embeddings, Body, list("dimensions encoding_format input model user"),
			list(`add_special_tokens embedding_type embedding_types input_type instruction late_chunking models normalize normalized
			output_dimension output_dtype prompt_name task truncate truncate_prompt_tokens truncation`),
		},
	}
}

// CallerTools are the types of tools of a dialect that the caller performs, without their versions.
// An upstream gets a tool of another type only if its pass has the type.
func CallerTools(d schemas.Dialect) []string {
	switch d.Family() {
	case schemas.DialectResponses:
		return []string{"apply_patch", "computer", "computer_use_preview", "custom", "function", "local_shell", "namespace", "shell"}
	case schemas.DialectMessages:
		return []string{"bash", "browser_toolset", "computer", "computer_toolset", "custom", "memory", "text_editor", "tool_definition", "tool_reference"}
	case schemas.DialectEmbeddings:
		return nil
	default:
		return []string{"custom", "function"}
	}
}

// version is the date behind the type of a tool.
var version = regexp.MustCompile(`_(\d{8}|\d{4}_\d\d_\d\d)$`)

// ToolKind is the type of a tool by which CallerTools and an upstream's pass name it: without its version,
// except in DialectChat, where types have none of their own.
func ToolKind(d schemas.Dialect, kind string) string {
	if d.Family() == schemas.DialectChat {
		return kind
	}
	return version.ReplaceAllString(kind, "")
}

type closed struct {
	schemas.Dialect
	Object
}

var known = func() map[closed][]string { //nolint:gochecknoglobals // a constant
	all := map[closed][]string{}
	for _, m := range Known() {
		all[closed{m.Dialect, m.Object}] = slices.Sorted(slices.Values(slices.Concat(m.Protocol, m.Common)))
	}
	return all
}()

// Knows reports whether a member of an object in a request of a dialect goes to every upstream. Names
// are compared as they are spelled.
func Knows(d schemas.Dialect, in Object, name string) bool {
	if d == "" || in != Body {
		d = d.Family()
	}
	_, is := slices.BinarySearch(known[closed{d, in}], name)
	return is
}
