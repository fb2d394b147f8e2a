package completion

import (
	"slices"
	"strings"
	"unicode"
)

// Object is an object of a request whose members are a closed set.
type Object string

// The objects of a request whose members are closed sets.
const (
	Body     Object = "the request"
	Message  Object = "a message, `prediction`"
	Call     Object = "a tool call in a message"
	Called   Object = "`function`, `custom` of a tool call; `function_call` of a message"
	Tool     Object = "a tool of the type `function` or `custom`"
	Function Object = "`function`, `custom` of a tool; an item of `functions`"
	Choice   Object = "`tool_choice`, `function_call`, `allowed_tools`"
	Speech   Object = "`audio` of the request, its `voice`"
)

// Members are the members of an object that every upstream gets.
type Members struct {
	Object Object
	// Protocol are the members of the chat completions protocol: those in requests, and
	// those in answers that clients send back.
	Protocol []string
	// Common are those that many servers and clients have beside the protocol. None of
	// them names a place, an account, another model, a stored object, or a tool that the
	// provider performs.
	Common []string
}

// Known is the closed set of members that go to every upstream. An upstream gets others
// only if its configuration has them in pass. docs/reference/chat.md has this as a table, which a
// test compares.
func Known() []Members {
	list := strings.Fields
	return []Members{
		{
			Body, list(`audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata
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
			Message, list("annotations audio content function_call name refusal role tool_call_id tool_calls type"),
			list(`cache_control citations context executed_tools extra_content images parsed partial prefix
			provider_specific_fields reasoning reasoning_content reasoning_details reasoning_opaque reasoning_signature
			reasoning_text search_results thinking thinking_blocks tool_plan`),
		},
		{Call, list("custom function id type"), list("cache_control extra_content index provider_specific_fields thought_signature")},
		{Called, list("arguments input name"), list("extra_content parsed_arguments provider_specific_fields thought_signature")},
		{Tool, list("custom function type"), list("cache_control description format input_schema name output_schema parameters strict")},
		{Function, list("description format name parameters strict"), list("cache_control input_schema output_schema")},
		{Choice, list("allowed_tools custom function mode name tools type"), list("disable_parallel_tool_use")},
		{Speech, list("format voice"), nil},
	}
}

var known = func() map[Object][]string { //nolint:gochecknoglobals // a constant
	all := map[Object][]string{}
	for _, m := range Known() {
		all[m.Object] = slices.Sorted(slices.Values(slices.Concat(m.Protocol, m.Common)))
	}
	return all
}()

// Knows reports whether a member of an object goes to every upstream. Names are compared
// as they are spelled.
func Knows(in Object, name string) bool {
	_, is := slices.BinarySearch(known[in], name)
	return is
}

// Stored reports whether a folded name is one of members that name an object which is
// stored in the provider's account. All tenants of an upstream share that account.
func Stored(name string) bool {
	switch name {
	case "fileid", "fileids", "fileuri", "threadid", "assistantid", "responseid", "previousresponseid", "previousinteractionid",
		"vectorstoreid", "vectorstoreids", "containerid", "conversationid", "cachedcontent":
		return true
	default:
		return false
	}
}

// MaxMember is the longest name of a member beyond Known, in bytes.
const MaxMember = 100

// ValidMember reports whether an upstream's pass can list a text, as the name of a member or
// the type of a tool.
func ValidMember(name string) bool {
	const signs = "_-.:$"
	return name != "" && len(name) <= MaxMember && strings.Trim(name, signs) != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(signs, r)
	})
}

// Refused reports whether a member of this name is refused whatever an upstream passes:
// it would choose where the request goes, with which key, or whom a provider calls back.
func Refused(name string) bool {
	name = Fold(name)
	return Guarded(name) || Reserved(name) || Chooses(name)
}

// Fold is a name as a reader may take it that does not care for case and for the
// characters between words: its letters and digits. It folds the two letters outside
// of ASCII that belong to letters of it.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r <= unicode.MaxASCII:
			return -1
		}
		if r = unicode.ToLower(unicode.ToUpper(r)); !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, name)
}

// The names below are folded.

// Guarded reports whether a folded name is used for a key, the address of an API, or a
// callback. Requests with such a member are refused, also where callers use names of
// their own.
func Guarded(name string) bool {
	switch name {
	case "auth", "bearer", "cookie", "cookies", "headers", "extraheaders", "extrabody", "extraquery", "langfusehost", "gcsbucketname":
		return true
	}
	return matches(name, strings.Contains, "apikey", "apibase", "authorization", "baseurl", "baseuri", "basepath", "callback", "credential",
		"password", "passwd", "secret", "serviceaccount", "webhook") ||
		matches(name, strings.HasSuffix, "accesskey", "accesskeyid", "accesstoken", "authtoken", "apitoken", "bearertoken", "privatekey",
			"publickey", "refreshtoken")
}

func matches(name string, by func(name, word string) bool, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return by(name, word) })
}

// Reserved reports whether a folded name that is not guarded could still make a provider send the
// request elsewhere, use another key or call a third party.
func Reserved(name string) bool {
	switch name {
	case "allowfallbacks", "disablefallbacks", "emailaddress": // they only look like it
		return false
	case "extraparams", "modellist", "modelid", "modelinfo", "basemodel", "userconfig", "routersettings",
		"deploymentid", "deploymentname", "organizationid", "orgid", "tenantid", "clientid", "regionname",
		"token", "key", "idtoken", "hftoken", "target", "targets", "port", "ports":
		return true
	}
	return matches(name, strings.Contains, "proxy", "proxies", "fallback") ||
		// Vendors whose own parameters are keys and places.
		matches(name, strings.HasPrefix, "aws", "azure", "gcs", "litellm", "langfuse", "langsmith", "oci", "sagemaker", "vertex", "watsonx") ||
		matches(name, strings.HasSuffix, "url", "urls", "uri", "uris", "endpoint", "endpoints", "host", "hosts", "hostname", "hostnames",
			"server", "servers", "upstream", "upstreams", "gateway", "gateways", "address", "addresses", "domain",
			"hostport", "serverport", "remoteport", "bootstrapport", "header", "headers", "auth", "authentication", "jwt",
			"apitype", "apiversion", "llmprovider", "apiprovider", "modelprovider", "sessiontoken", "securitytoken", "oidctoken",
			"subscriptionkey", "accountkey", "adminkey", "masterkey", "virtualkey", "authkey", "providerkey", "openaikey")
}

// Chooses reports whether a folded name of the body itself chooses among a provider's
// own; in nested objects the name has no such meaning.
func Chooses(name string) bool {
	return name == "engine" || name == "deployment" || name == "organization"
}
