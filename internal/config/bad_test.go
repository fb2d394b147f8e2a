package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
)

// Every way to be wrong, with the very words an operator reads.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	entry := "policy:\n  allowlist:\n    - name: a\n      url_prefix: http://h/\n      "
	tests := []struct{ text, want string }{
		// shape
		{"a: [1", "weir.yaml:1: not YAML: sequence end token ']' not found"},
		{"\tlisten: x", "weir.yaml:1: not YAML: tab character cannot use as a map key directly"},
		{"data: |canary\n x", "weir.yaml:1: not YAML: invalid header option"},
		{"- a\n- b", "weir.yaml: is a YAML sequence; write keys and values below it"},
		{"text", "weir.yaml: is a YAML string; write keys and values below it"},
		{"listen: localhost:1\n---\nlisten: localhost:2", "weir.yaml:3: a second document begins here; one file holds one configuration"},
		{"\xff\xfe", "weir.yaml: the file is not UTF-8 text"},
		{"a: \x00", "weir.yaml: the file is not UTF-8 text"},
		{strings.Repeat("#", 1<<20+1), "weir.yaml: the file is larger than 1MiB; it is not a configuration"},
		{"a: " + strings.Repeat("[", 65), "weir.yaml: lists and mappings are nested more than 64 deep; it is not a configuration"},
		{"-" + strings.Repeat("\t-", 65) + " a", "weir.yaml: lists and mappings are nested more than 64 deep; it is not a configuration"},
		{strings.Repeat("- ", 65), "weir.yaml: lists and mappings are nested more than 64 deep; it is not a configuration"},
		{"1: a", "weir.yaml:1: a key here is not plain text; write a name, in quotes where it is a number"},
		{"log: &a {partitions: 2}", "weir.yaml:1: log: anchors, aliases and tags are not supported; write the value out"},
		{"listen: !!str x", "weir.yaml:1: listen: anchors, aliases and tags are not supported; write the value out"},
		{"data: a\ndata: b", "weir.yaml:2: data: the key appears twice, first at weir.yaml:1; remove one"},

		// unknown keys
		{"listen: localhost:1\n\nLog: {}", "weir.yaml:3: Log: unknown key; did you mean log?"},
		{"redact-headers: []", "weir.yaml:1: redact-headers: unknown key; did you mean redact_headers?"},
		{"zzz: 1", "weir.yaml:1: zzz: unknown key; the keys here are agents, auth, budgets, data, deadline, git, index, limits, listen, log, models, nats, policy, proxy, public_url, redact_headers, rules, secrets, tasks, telemetry, workers"},
		{"'a b': 1", `weir.yaml:1: "a b": unknown key; the keys here are agents, auth, budgets, data, deadline, git, index, limits, listen, log, models, nats, policy, proxy, public_url, redact_headers, rules, secrets, tasks, telemetry, workers`},
		{entry + "method: GET", "weir.yaml:5: policy.allowlist[0].method: unknown key; did you mean methods?"},
		{entry + "limits: {rate: 10}", "weir.yaml:5: policy.allowlist[0].limits.rate: is a YAML int; write a count a second, minute or hour, such as 10/s"},
		{"limits: {rate: 10/s}", "weir.yaml:1: limits.rate: unknown key; the keys here are answers, body, chat, connections, connections_per_peer, headers, queued, queued_per_tenant, response, response_headers, stream, tenant_share, upload; rate and concurrency are keys of policy.allowlist[].limits, such as {rate: 10/s, concurrency: 4}"},

		// types
		{"listen: 8092", "weir.yaml:1: listen: is a YAML int; write text, in quotes where it looks like something else"},
		{"listen: [a]", "weir.yaml:1: listen: is a YAML sequence; write text, in quotes where it looks like something else"},
		{"listen:", "weir.yaml:1: listen: has no value; give one or remove the key"},
		{"workers: {slots: '3'}", "weir.yaml:1: workers.slots: is a YAML string; write a whole number of at most 18 digits, without quotes"},
		{"workers: {slots: 99999999999999999999999}", "weir.yaml:1: workers.slots: is a YAML string; write a whole number of at most 18 digits, without quotes"},
		{"redact_headers: X-A", `weir.yaml:1: redact_headers: is a YAML string; write a list: [a, b], or one "- " a line`},
		{"redact_headers:\n  - a\n  - 5", "weir.yaml:3: redact_headers[1]: is a YAML int; write text, in quotes where it looks like something else"},
		{"deadline: {http: 7d}", "weir.yaml:1: deadline.http: cannot be read; write a duration in ms, s, m or h, such as 30s or 168h"},
		{"limits: {body: 1MB}", "weir.yaml:1: limits.body: cannot be read; write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 256KiB"},
		{entry + "headers: {X-A: 5}", "weir.yaml:5: policy.allowlist[0].headers.X-A: is a YAML int; write text, in quotes where it looks like something else"},
		{entry + "headers: {X-A: {b: canary}}", "weir.yaml:5: policy.allowlist[0].headers.X-A: is a YAML mapping; write text, in quotes where it looks like something else"},
		{"policy: {allowlist: {}}", `weir.yaml:1: policy.allowlist: is a YAML mapping; write a list: [a, b], or one "- " a line`},
		{"policy:\n  allowlist:\n    - github", "weir.yaml:3: policy.allowlist[0]: is a YAML string; write keys and values below it"},

		// values
		{"listen: localhost", "weir.yaml:1: listen: is not an address; write host:port with a port of 0 to 65535, such as 127.0.0.1:8092"},
		{"listen: 'localhost:65536'", "weir.yaml:1: listen: is not an address; write host:port with a port of 0 to 65535, such as 127.0.0.1:8092"},
		{"data: ''", "weir.yaml:1: data: is empty; name the directory of the log"},
		{"log: {partitions: 0}", "weir.yaml:1: log.partitions: is 0; use 1 to 64"},
		{"log: {durability: paper}", "weir.yaml:1: log.durability: has no such value; use disk, process or replicated"},
		{"log: {durability: replicated}", "weir.yaml:1: log.durability: replicated needs an external cluster; set nats.url, or use disk or process"},
		{"nats: {url: 'nats://h'}\nlog: {durability: disk}", "weir.yaml:2: log.durability: disk is what the embedded server can promise; with nats.url use replicated or process"},
		{"log: {replicas: 3}", "weir.yaml:1: log.replicas: is 3, and the embedded server keeps one copy; set nats.url, or use 1"},
		{"nats: {url: 'nats://h'}\nlog: {replicas: 2}", "weir.yaml:2: log.replicas: is 2; use 1, 3 or 5"},
		{"nats: {url: 'nats://h'}\nlog: {replicas: 1, durability: replicated}", "weir.yaml:2: log.replicas: one copy is not replicated; use 3, or durability process"},
		{"log: {history: 59m}", "weir.yaml:1: log.history: is 59m; use 1h or more"},
		{"log: {history: 2h}\ndeadline: {plan: 3h}", "weir.yaml:1: log.history: leaves no time after the longest deadline, 3h, to end an action before it is forgotten; with this history a deadline may be 1h45m at most"},
		{"log: {max_bytes: 1MiB}", "weir.yaml:1: log.max_bytes: is 1MiB; use 0 or 16MiB or more"},
		{"nats: {creds: /x}", "weir.yaml:1: nats.creds: is for an external cluster; set nats.url or remove it"},
		{"nats: {tls: {ca: /x}}", "weir.yaml:1: nats.tls: is for an external cluster; set nats.url or remove it"},
		{"nats: {url: 'nats://h', tls: {cert: /x}}", "weir.yaml:1: nats.tls: has one of cert and key; a certificate takes both"},
		{"nats: {url: 'nats://h', listen: '127.0.0.1:4222'}", "weir.yaml:1: nats.listen: is for the embedded server; remove it or nats.url"},
		{"proxy: {listen: '8093'}", "weir.yaml:1: proxy.listen: is not an address; write host:port with a port of 0 to 65535, such as 127.0.0.1:8092"},
		{"proxy: {listen: '127.0.0.1:8092'}", "weir.yaml:1: proxy.listen: is the address of another listener; give it a port of its own"},
		{"nats: {listen: '127.0.0.1:4222'}\nproxy: {listen: '127.0.0.1:4222'}", "weir.yaml:2: proxy.listen: is the address of another listener; give it a port of its own"},
		{
			"proxy: {listen: '0.0.0.0:8093'}", "weir.yaml:1: proxy.listen: is open and other machines can reach 0.0.0.0:8093 without a token; " +
				"set auth.mode to tokens, or use a loopback address such as 127.0.0.1:8093",
		},
		{"proxy: {ca_cert: /c}", "weir.yaml:1: proxy: has one of ca_cert and ca_key; a CA takes both"},
		{
			"proxy: {listen: '127.0.0.1:8093'}\npolicy:\n  allowlist:\n    - {name: a, url_prefix: 'https://h/', connect: inspect}",
			"weir.yaml:4: policy.allowlist[0].connect: is inspect, and there is no CA for it; set proxy.ca_cert and proxy.ca_key, or use tunnel",
		},
		{entry + "connect: raw", "weir.yaml:5: policy.allowlist[0].connect: it is neither tunnel nor inspect"},
		{entry + "connect: inspect", "weir.yaml:5: policy.allowlist[0].connect: inspect ends TLS; begin url_prefix with https://"},
		{"nats: {listen: '127.0.0.1:8092'}", "weir.yaml:1: nats.listen: is the address of listen; give it a port of its own"},
		{"nats: {url: 'http://h'}", "weir.yaml:1: nats.url: is not a list of URLs such as nats://host:4222,nats://other:4222; the schemes are nats, tls, ws and wss"},
		{"nats: {url: 'nats://h,canary'}", "weir.yaml:1: nats.url: is not a list of URLs such as nats://host:4222,nats://other:4222; the schemes are nats, tls, ws and wss"},
		{"nats: {url: 'nats://user:canary@h'}", "weir.yaml:1: nats.url: holds a user name or a token; put credentials in a file and name it in nats.creds"},
		{"workers: {drain: 999ms}", "weir.yaml:1: workers.drain: is 999ms; use 0 or 1s to 1h"},
		{"limits: {body: 65MiB}", "weir.yaml:1: limits.body: is 65MiB; use 1KiB to 64MiB"},
		{"auth: {mode: none}", "weir.yaml:1: auth.mode: has no such value; use open or tokens"},
		{"auth: {rate: fast}", "weir.yaml:1: auth.rate: is not a count a second, minute or hour, such as 500/s"},
		{"secrets: {age_file: /x}", "weir.yaml:1: secrets.age_identity: is missing; name the file with the identity that decrypts secrets.age_file"},
		{"secrets: {age_identity: /x}", "weir.yaml:1: secrets.age_file: is missing; name the encrypted file, or remove secrets.age_identity"},
		{"deadline: {task: 169h}", "weir.yaml: log.history: leaves no time after the longest deadline, 169h, to end an action before it is forgotten; with this history a deadline may be 147h at most"},
		{"public_url: weir.example.com", "weir.yaml:1: public_url: is not a URL that begins with http:// or https:// and a host, such as https://host.example"},
		{"public_url: \"http://a\\nb\"", "weir.yaml:1: public_url: is not a URL that begins with http:// or https:// and a host, such as https://host.example"},
		{"public_url: 'https://user:canary@h'", "weir.yaml:1: public_url: holds a user name or a password; every user of a repository's URL would see it; leave it out"},
		{"public_url: 'https://h?canary'", "weir.yaml:1: public_url: has a query or a fragment; leave it out"},
		{"public_url: 'https://h/weir'", "weir.yaml:1: public_url: has a path; Weir is served at the root of a host, so leave it out"},
		{"git: {program: ''}", "weir.yaml:1: git.program: is empty; name git, or its path"},
		{"rules: {agent_api: 1}", "weir.yaml:1: rules.agent_api: cannot be read; write true or false"},
		{"policy: {timeout: -1s}", "weir.yaml:1: policy.timeout: is -1s; use 100ms to 10m"},
		{"redact_headers: ['a b']", "weir.yaml:1: redact_headers[0]: is not the name of a header; write letters, digits and hyphens"},
		{"telemetry: {log_level: trace}", "weir.yaml:1: telemetry.log_level: has no such value; use debug, info, warn or error"},
		{"telemetry: {otlp: {endpoint: 'http://u:p@h'}}", "weir.yaml:1: telemetry.otlp.endpoint: holds a user name or a password; give the collector's credential in OTEL_EXPORTER_OTLP_HEADERS"},
		{"telemetry: {otlp: {endpoint: 'http://h/v1/traces/'}}", "weir.yaml:1: telemetry.otlp.endpoint: ends in a route that is added to it; leave out /v1/traces"},
	}
	for _, tt := range tests {
		told(t, tt.text, tt.want)
		_, err := config.Parse("weir.yaml", []byte(tt.text), nil, nil)
		require.EqualError(t, err, tt.want)
	}
}

// told holds the sentence for a configuration with one thing wrong against the beginning of what an operator reads.
func told(t *testing.T, text, begins string) {
	t.Helper()
	c, err := config.Parse("weir.yaml", []byte(text), nil, nil)
	require.Error(t, err, text)
	require.True(t, strings.HasPrefix(err.Error(), begins), "%s\n%s", text, err)
	require.NotContains(t, err.Error(), "canary")
	if !strings.HasSuffix(text, "price: }") {
		require.NotContains(t, err.Error(), "\n", "one thing is wrong, one is told")
	}
	require.Empty(t, c.Listen, "a bad configuration is of no use")
}

// The sentences about entries are policy's; the place and the key are ours.
// TestAllMistakesAtOnce: what cannot be read hides no other mistake, but those that may follow from it.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("weir.yaml", []byte("log: {partitons: 2, replicas: 7}\nauth: {mode: opn}"), nil, nil)
	require.EqualError(t, err, "weir.yaml:1: log.partitons: unknown key; did you mean partitions?\n"+
		"weir.yaml:2: auth.mode: has no such value; use open or tokens")
}

func TestBadPolicy(t *testing.T) {
	t.Parallel()
	const list = "policy:\n  allowlist:\n    - "
	const entry = list + "name: a\n      url_prefix: http://h/\n      "
	for text, begins := range map[string]string{
		list + "url_prefix: http://h/":               "weir.yaml:3: policy.allowlist[0].name: ",
		list + "name: a\n      url_prefix: ftp://h/": "weir.yaml:4: policy.allowlist[0].url_prefix: ",
		list + "{name: a, url_prefix: 'http://h/'}\n    - name: b:c\n      url_prefix: http://h/\n      methods: [BREW]": "weir.yaml:6: policy.allowlist[1].methods: ",
		entry + "\n      network: lan":                            "weir.yaml:6: policy.allowlist[0].network: ",
		entry + "headers: {X: \"${canary\"}":                      "weir.yaml:5: policy.allowlist[0].headers: ",
		entry + "limits: {rate: fast}":                            "weir.yaml:5: policy.allowlist[0].limits: ",
		entry + "retry: {attempts: 0}":                            "weir.yaml:5: policy.allowlist[0].retry: ",
		entry + "reconcile: {url: 'http://h/', applied: 'true'}":  "weir.yaml:5: policy.allowlist[0].reconcile: ",
		entry + "response_schema: {schema: 1}":                    "weir.yaml:5: policy.allowlist[0].response_schema: ",
		entry + "response_schema: {schema: {type: 7}}":            "weir.yaml:5: policy.allowlist[0].response_schema: ",
		entry + "response_schema: {schema: {a: {b: 1, b: 2}}}":    "weir.yaml:5: policy.allowlist[0].response_schema.schema: is not a JSON value without repeated members",
		entry + "response_schema: {schema: no-such-file.json}":    "weir.yaml:5: policy.allowlist[0].response_schema.schema: names a file that cannot be read: no such file",
		entry + "response_schema: {schema: bad_test.go}":          "weir.yaml:5: policy.allowlist[0].response_schema.schema: names a file that is not one JSON document",
		"policy:\n  allowed_hosts:\n    - localhost\n    - 'a b'": "weir.yaml:4: policy.allowed_hosts[1]: ",
	} {
		told(t, text, begins)
	}
}

func TestOpenModeStaysOnLoopback(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:8092", "127.1.2.3:1", "[::1]:8092", "localhost:8092", "[::ffff:127.0.0.1]:1", "127.0.0.1:0"} {
		c, err := config.Parse("", nil, []string{"WEIR_LISTEN=" + listen}, nil)
		require.NoError(t, err)
		require.Equal(t, listen, c.Listen)
		require.True(t, c.Open())
	}
	for _, listen := range []string{
		"0.0.0.0:8092", ":8092", "[::]:8092", "192.168.1.2:8092", "weir.example:8092", "localhost.evil.example:80",
		"128.0.0.1:80", "[::2]:80", "0:80", "2130706433:80", "127.1:80",
	} {
		c, err := config.Parse("", nil, []string{"HTTP_EXECUTOR_BIND_ADDR=" + listen}, nil)
		require.NoError(t, err)
		require.False(t, c.Open(), "who listens to others asks for tokens")
		_, err = config.Parse("", nil, []string{"HTTP_EXECUTOR_BIND_ADDR=" + listen, "WEIR_AUTH_MODE=open"}, nil)
		require.EqualError(t, err, "WEIR_AUTH_MODE: auth.mode: is open and other machines can reach "+listen+
			" without a token; use tokens, or listen on a loopback address such as 127.0.0.1:8092")
	}
}

func TestBadVariablesAndFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		environ []string
		flags   map[string]string
		want    string
	}{
		{[]string{"WEIR_LOG_PARTITIONS=canary"}, nil, "WEIR_LOG_PARTITIONS: log.partitions: cannot be read; write a whole number of at most 18 digits, without quotes"},
		{[]string{"WEIR_LOG_HISTORY=7d"}, nil, "WEIR_LOG_HISTORY: log.history: cannot be read; write a duration in ms, s, m or h, such as 30s or 168h"},
		{[]string{"WEIR_LIMITS_BODY=big"}, nil, "WEIR_LIMITS_BODY: limits.body: cannot be read; write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 256KiB"},
		{[]string{"WEIR_WORKERS_SLOTS=0"}, nil, "WEIR_WORKERS_SLOTS: workers.slots: is 0; use 1 to 10000"},
		{[]string{"WEIR_LOG_DURABILITY=canary"}, nil, "WEIR_LOG_DURABILITY: log.durability: has no such value; use disk, process or replicated"},
		{[]string{"WEIR_NATS_URL=nats://u:canary@h"}, nil, "WEIR_NATS_URL: nats.url: holds a user name or a token; put credentials in a file and name it in nats.creds"},
		{nil, map[string]string{"workers.slots": "x"}, "command line: workers.slots: cannot be read; write a whole number of at most 18 digits, without quotes"},
		{nil, map[string]string{"worker.slots": "1"}, `command line: "worker.slots": unknown key; did you mean workers.slots?`},
		{nil, map[string]string{"policy.allowlist": "x"}, `command line: "policy.allowlist": unknown key; the keys here are`},
		{nil, map[string]string{"listen": ":1", "auth.mode": "open"}, "command line: auth.mode: is open and other machines can reach :1 without a token"},
	}
	for _, tt := range tests {
		_, err := config.Parse("weir.yaml", nil, tt.environ, tt.flags)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "canary")
	}
}

func problems(t *testing.T, err error) config.Problems {
	t.Helper()
	all, ok := errors.AsType[config.Problems](err)
	require.True(t, ok, "%T", err)
	return all
}
