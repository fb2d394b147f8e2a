package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/schemas"
)

// Every way to get a model wrong, with the very words an operator reads.
func TestBadModels(t *testing.T) {
	t.Parallel()
	const (
		at   = "weir.yaml:3: models.m."
		name = "is not the name of a model; write at most 256 letters, digits and . _ : @ + - in parts with a slash between, or a pattern: the beginning of names with * after it, such as openai/*, or * alone"
		sent = "is not the name of a model; write letters, digits and . _ : @ + - in parts with a slash between, one * at most"
	)
	long := strings.Repeat("a", schemas.MaxModel)
	for _, tt := range []struct{ text, want string }{
		{"models: {m: http://h}", "weir.yaml:1: models.m: is a YAML string; write keys and values below it"},
		{"models:\n  a/b:\n    ulr: canary", `weir.yaml:3: models."a/b".ulr: unknown key; did you mean url?`},
		{"models:\n  'a b': {url: http://h}", `weir.yaml:2: models."a b": ` + name},
		{"models:\n  'a*b': {url: http://h}", `weir.yaml:2: models."a*b": ` + name},
		{"models:\n  a//b: {url: http://h}", `weir.yaml:2: models."a//b": ` + name},
		{"models:\n  ../b: {url: http://h}", `weir.yaml:2: models."../b": ` + name},
		{"models:\n  \"\": {url: http://h}", `weir.yaml:2: models."": ` + name},
		{"models:\n  " + long + "a: {url: http://h}", `weir.yaml:2: models."` + long[:64] + `": ` + name},
		{"models:\n  " + long[:200] + ": {url: http://h}", `weir.yaml:2: models."` + long[:64] + `": makes no name of an upstream; write upstreams, each with a name of at most 100 letters, digits, dots, underscores, colons and hyphens`},

		{"models:\n  m: {}", "weir.yaml:2: models.m: has no place; write its url, its upstreams, or the alias that it is"},
		{"models:\n  m:\n    url: http://me:canary@h", at + "url: holds a user name or a password; put the credential in headers"},
		{"models:\n  m:\n    url: http://h/v1/chat/completions/", at + "url: ends in a route that is added to it; leave out /chat/completions"},
		{"models:\n  m: {url: http://h,\n    headers: {Host: canary}}", at + "headers: Host cannot be set"},
		{"models:\n  m: {url: http://h, headers: {\n    Content-Type: canary}}", at + "headers.Content-Type: is what Weir sets itself; leave it out"},
		{"models:\n  m: {url: http://h,\n    headers: {Authorization: '${canary}'}}", at + "headers: "},
		{"models:\n  m: {url: http://h,\n    model: 'a b'}", at + "model: " + sent},
		{"models:\n  m: {url: http://h,\n    model: '*'}", at + "model: holds a *, and the model is no pattern"},
		{"models:\n  m/*: {url: http://h, model: '**'}", `weir.yaml:2: models."m/*".model: ` + sent},
		{"models:\n  m: {url: http://h/messages/count_tokens}", "weir.yaml:2: models.m.url: ends in a route that is added to it; leave out /messages/count_tokens"},
		{"models:\n  m: {url: http://h, dialects: [chat,\n    completions]}", at + "dialects[1]: has no such value; use chat, responses, messages or embeddings"},
		{"models:\n  m: {url: http://h, dialects: [chat, messages,\n    chat]}", at + "dialects[2]: names chat a second time; remove it"},
		{"models:\n  m: {url: http://h,\n    dialects: []}", at + "dialects: is empty; name the protocols that the upstream speaks, or leave it out for all"},
		{"models:\n  m: {upstreams: [{name: a, url: http://h}],\n    dialects: [chat]}", at + "dialects: cannot be combined with upstreams; write it with each of them"},
		{"models:\n  m: {url: http://h, headers: {\n    Anthropic-Version: '2023-06-01'}}", at + "headers.Anthropic-Version: is set by each request; leave it out"},
		{"models:\n  m: {url: http://h, price: {input: 1, output: 1,\n    cache_write: 0}}", at + "price.cache_write: is 0; use 0.000001 to 1000000"},
		{"models:\n  m: {url: http://h,\n    pass: ''}", at + "pass: is not the name of a member; write at most 100 letters, digits and _ - . : $, such as plugins"},
		{"models:\n  m: {url: http://h, pass: [a,\n    b c]}", at + "pass[1]: is not the name of a member"},
		{"models:\n  m: {url: http://h, pass: [a, b,\n    a]}", at + "pass[2]: names a a second time; remove it"},
		{"models:\n  m: {url: http://h, pass: [plugins,\n    apiBase]}", at + "pass[1]: names a member that is always refused: it would choose where a request goes, with which key, or who is called back; remove it"},
		{"models:\n  m: {url: http://h, pass: [plugins,\n    '*']}", at + "pass[1]: is * beside names; write pass: \"*\" for every member, or only the names"},
		{"models:\n  m: {url: http://h,\n    pass: {a: b}}", at + "pass: is a YAML mapping; write a list: [a, b], or one \"- \" a line"},
		{"models:\n  m: {upstreams: [{name: a, url: http://h}],\n    pass: [a]}", at + "pass: cannot be combined with upstreams; write it with each of them"},
		{"models:\n  k: {url: http://h}\n  m: {alias: k, \n    pass: [a]}", "weir.yaml:4: models.m.pass: cannot be combined with alias; remove one of the two"},
		{"models:\n  m: {url: http://h,\n    weight: 3}", at + "weight: unknown key"},

		{"models:\n  m: {url: http://h,\n    price: {input: 1}}", at + "price.output: is missing; write what a million tokens cost, 0 if nothing"},
		{"models:\n  m: {url: http://h,\n    price: }", at + "price.input: is missing; write what a million tokens cost, 0 if nothing"},
		{"models:\n  m: {url: http://h, price: {output: 1,\n    input: 1e-3}}", at + "price.input: cannot be read; write an amount of US dollars such as 12 or 2.5, with at most nine digits after the point"},
		{"models:\n  m: {url: http://h, price: {output: 1,\n    input: .inf}}", at + "price.input: is a YAML inf; write an amount of US dollars such as 12 or 2.5, with at most nine digits after the point"},
		{"models:\n  m: {url: http://h, price: {output: 1,\n    input: 0.0000001}}", at + "price.input: has more than six digits after the point"},
		{"models:\n  m: {url: http://h, context: 10,\n    max_output: 11}", at + "max_output: is more than context, which holds the prompt too"},

		{"models:\n  m: {upstreams: {a: {url: http://h}}}", `weir.yaml:2: models.m.upstreams: is a YAML mapping; write a list: [a, b], or one "- " a line`},
		{"models:\n  m: {upstreams: [{\n    url: http://h}]}", "weir.yaml:2: models.m.upstreams[0].name: is missing; give the upstream a name of its own"},
		{"models:\n  m: {upstreams: [{url: http://h,\n    name: a/b}]}", at + "upstreams[0].name: makes no name of an upstream; write upstreams, each with a name of at most 100 letters, digits, dots, underscores, colons and hyphens"},
		{"models:\n  m: {upstreams: [{name: a, url: http://h}, {url: http://h,\n    name: a}]}", at + "upstreams[1].name: names the upstream a, as models.m.upstreams[0].name does; write upstreams, each with a name of its own"},
		{"models:\n  m: {upstreams: [{name: a, url: http://h,\n    weight: 0}]}", at + "upstreams[0].weight: is 0; use 1 to 1000"},
		{"models:\n  m: {upstreams: [{name: a}]}", "weir.yaml:2: models.m.upstreams[0].url: is missing; write where it is, such as https://host.example"},
		{"models:\n  m: {upstreams: [{name: a, url: http://h}],\n    url: http://h}", at + "url: cannot be combined with upstreams; write it with each of them"},
		{"models:\n  m: {upstreams: [{name: a, url: http://h}],\n    usage: false}", at + "usage: cannot be combined with upstreams; write it with each of them"},
		{
			"models:\n  a/b: {url: http://h}\n  a:b: {url: http://h}",
			`weir.yaml:3: models."a:b": names the upstream a:b, as models."a/b" does; write upstreams, each with a name of its own`,
		},

		{"models:\n  m:\n    alias: n", at + "alias: names no model; write the name of one under models, or one that matches one of its patterns"},
		{"models:\n  m:\n    alias: canary\n  '*': {alias: k}\n  k: {url: http://h}", at + "alias: names an alias; write the name of the model itself"},
		{"models:\n  '*': {alias: gone}", `weir.yaml:2: models."*".alias: names an alias; write the name of the model itself`},
		{"models:\n  m:\n    alias: m", at + "alias: names an alias; write the name of the model itself"},
		{"models:\n  m:\n    alias: n/*\n  n/*: {url: http://h}", at + "alias: is not the name of a model; patterns have no aliases"},
		{"models:\n  m:\n    alias: n\n  n: {alias: k}\n  k: {url: http://h}", at + "alias: names an alias; write the name of the model itself"},
		{"models:\n  k: {url: http://h}\n  m: {alias: k, \n    url: http://h}", "weir.yaml:4: models.m.url: cannot be combined with alias; remove one of the two"},
		{"models:\n  k: {url: http://h}\n  m: {alias: k, \n    usage: false}", "weir.yaml:4: models.m.usage: cannot be combined with alias; remove one of the two"},
		{"models:\n  k: {url: http://h}\n  m: {alias: k, timeouts: {\n    idle: 3s}}", "weir.yaml:3: models.m.timeouts: cannot be combined with alias; remove one of the two"},

		{"policy:\n  allowlist:\n    - name: model:x\n      url_prefix: http://h/", "weir.yaml:3: policy.allowlist[0].name: \"model:\" is kept for models"},
	} {
		told(t, tt.text, tt.want)
	}
	_, err := config.Parse("weir.yaml", []byte("models:\n  a: {}\n  b: {url: 'http://h', context: 0}\n  c: {alias: d}"), nil, nil)
	require.Len(t, problems(t, err), 3, "all are told at once")
}

// What a model is to those who ask it, and to policy.
func TestModels(t *testing.T) {
	t.Parallel()
	c := parse(t, full)
	require.Equal(t, []schemas.Model{
		{Name: "fast", Alias: "openai/gpt-4o-mini"},
		{
			Name: "llama", Timeouts: schemas.ModelTimeouts{Connect: 5 * time.Second, FirstByte: 2 * time.Minute, Idle: time.Minute},
			Upstreams: []schemas.ModelUpstream{
				{Name: "near", URL: "http://localhost:11434/v1", Dialects: []schemas.Dialect{"chat", "messages"}, Weight: 3, Usage: true, Key: "models.llama.upstreams[0]"},
				{Name: "far", URL: "https://llm.example.com", Model: "meta/llama", Weight: 1, Pass: []string{"*"}, Key: "models.llama.upstreams[1]"},
				{Name: "last", URL: "https://10.3.0.1", Usage: true, Key: "models.llama.upstreams[2]"},
			},
		},
		{
			Name: "openai/*", Timeouts: schemas.ModelTimeouts{Connect: time.Second, FirstByte: 3 * time.Minute, Idle: 30 * time.Second}, Context: 128000, MaxOutput: 16384, ImageTokens: 1105,
			Upstreams: []schemas.ModelUpstream{{Name: "openai:any", URL: "https://api.openai.com/v1", Model: "*", Pass: []string{"plugins", "file_id"}, Key: `models."openai/*"`}},
			Price:     &schemas.ModelPrice{Input: 150_000, Output: 600_000, Cached: 75_000, CacheWrite: 187_500, Request: 1_000_000},
		},
	}, c.ChatModels())
	set := models.New(c.ChatModels())
	p, err := c.Compile(nil)
	require.NoError(t, err)
	for _, asked := range []string{"fast", "llama", "openai/o3"} {
		candidates := set.Candidates([]string{asked}, nil, nil, "x")
		require.NotEmpty(t, candidates)
		for _, to := range candidates {
			for route, passes := range map[string]bool{
				"POST /chat/completions": to.Upstream.Speaks(schemas.DialectChat), "POST /responses": to.Upstream.Speaks(schemas.DialectResponses),
				"POST /messages": to.Upstream.Speaks(schemas.DialectMessages), "POST /messages/count_tokens": to.Upstream.Speaks(schemas.DialectMessages),
				"POST /embeddings": to.Upstream.Speaks(schemas.DialectEmbeddings), "GET /models": true,
				"POST /models": false, "GET /responses": false, "POST /responses/x": false, "POST /files": false, "POST ": false,
			} {
				method, path, _ := strings.Cut(route, " ")
				url := to.Upstream.URL + path
				r := policy.Request{Agent: true, Key: schemas.ModelEntry(to.Upstream.Name), Method: method, URL: url, HasBody: method == "POST", Body: []byte("{}")}
				d := p.Decide(r)
				require.Equal(t, passes, d.Allowed, "%s %s: %s", method, url, d.Reason)
				require.Equal(t, r.Key, d.Entry)
				if permit, ok := d.Permit(); ok {
					require.Equal(t, url, permit.URL())
				} else {
					require.Equal(t, schemas.DenyPath, d.Code)
				}
				r.Agent = false
				require.Equal(t, schemas.DenyKeyUnknown, p.Decide(r).Code, "no call that an action names itself goes by it")
			}
		}
	}
	permit, ok := p.Decide(policy.Request{Agent: true, Key: "model:openai:any", Method: "POST", URL: "https://api.openai.com/v1/chat/completions"}).Permit()
	require.True(t, ok)
	require.Equal(t, map[string]string{"Authorization": "Bearer ${secret:OPENAI_API_KEY}"}, permit.Added().Headers)
	require.Empty(t, defaults(t).ChatModels())

	short := parse(t, `models: {"*": {url: https://openrouter.ai/api/v1, headers: {Authorization: "Bearer ${secret:OPENROUTER_API_KEY}"}}}`)
	require.Equal(t, []schemas.ModelUpstream{{Name: "any", URL: "https://openrouter.ai/api/v1", Usage: true, Key: `models."*"`}}, short.ChatModels()[0].Upstreams)
	require.Empty(t, short.Warnings())
	odd := parse(t, `models: {"a/b+c@d": {url: "https://h"}}`)
	require.Equal(t, "a:b-c-d", odd.ChatModels()[0].Upstreams[0].Name)
}

// What looks wrong with a model's upstream is told before the first completion.
func TestDoubtsAboutModels(t *testing.T) {
	t.Parallel()
	const (
		plain  = "models.m.url: is plain http to another machine: it exposes the credential in headers; use https"
		itself = "models.m.url: is an address of this node, which is never a target: every completion of it will be denied with DENY_ADDRESS"
	)
	for text, want := range map[string][]string{
		"{url: 'http://h.example', headers: {Authorization: canary}}":                                          {plain},
		"{url: 'HTTP://h.example', headers: {X-Any: '${secret:A}'}}":                                           {plain},
		"{url: 'http://h.example', headers: {X-Title: Weir}}":                                                  nil,
		"{url: 'http://h.example'}":                                                                            nil,
		"{url: 'http://localhost:1', headers: {Authorization: canary}}":                                        nil,
		"{url: 'https://h.example', headers: {Authorization: canary}}":                                         nil,
		"{url: 'http://127.0.0.1:8092/v1'}":                                                                    {itself},
		"{url: 'http://10.1.2.3'}":                                                                             {"models.m.url: names an address that network: public does not reach: every completion of it will be denied with DENY_ADDRESS; set network of entry m to private with cidrs 10.1.2.3/32"},
		"{upstreams: [{name: a, url: 'https://h'}, {name: b, url: 'http://h', headers: {X-Api-Key: canary}}]}": {strings.Replace(plain, "m.url", "m.upstreams[1].url", 1)},
		"{url: 'https://h', headers: {OpenAI-Beta: x}}":                                                        {"models.m.headers.OpenAI-Beta: keeps callers from setting it: requests with it are denied"},
		"{url: 'https://h', pass: [plugins]}":                                                                  nil,
		"{url: 'https://h', pass: fileIds}":                                                                    {"models.m.pass: fileIds names objects that are stored in the provider's account, which all tenants of this upstream share: each tenant could use the others' data"},
		"{url: 'https://h', pass: '*'}":                                                                        {"models.m.pass: is *: callers choose providers, accounts, other models and stored objects at this upstream, and all tenants share its account; name the members that they need"},
		"{url: 'https://h', timeouts: {first_byte: 20m}}":                                                      {"models.m.timeouts.first_byte: is longer than deadline.chat, 15m, which comes first"},
	} {
		require.Equal(t, want, parse(t, "models: {m: "+text+"}").Warnings(), text)
	}
}
