package config_test

import (
	"bytes"
	_ "embed" // for full
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/policy"
	"weir/schemas"
)

func parse(t *testing.T, text string, environ ...string) config.Config {
	t.Helper()
	c, err := config.Parse("weir.yaml", []byte(text), environ, nil)
	require.NoError(t, err)
	return c
}

// defaults is the configuration of nobody who says anything.
func defaults(t *testing.T) config.Config {
	t.Helper()
	return parse(t, "")
}

func same(t *testing.T, want, got config.Config) {
	t.Helper()
	// A config prints redacted, so it is compared by its fields.
	require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreUnexported(config.Config{}, config.Policy{}, config.Agent{}, config.Target{}), cmpopts.EquateEmpty()))
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := defaults(t)
	require.Equal(t, []any{"127.0.0.1:8092", config.AuthOpen, schemas.DurabilityDisk, 168 * time.Hour, config.Size(10 << 30), 256, true, []string{"localhost", "127.0.0.1", "::1"}}, []any{
		want.Listen, want.Auth.Mode, want.Log.Durability, want.Log.History, want.Log.MaxBytes, want.Workers.Slots, want.Rules.AgentAPI, want.Policy.AllowedHosts,
	}, "one of each form")
	for name, text := range map[string]string{
		"comment": "# nothing\n", "null": "null\n", "separator": "---\n", "empty sections": "log:\npolicy:\nnats: {}\n",
	} {
		c := parse(t, text)
		same(t, want, c)
		require.Empty(t, c.Warnings(), name)
		require.Equal(t, "weir.yaml", c.Source())
		require.True(t, c.Embedded())
	}
}

// full names every key.
//
//go:embed testdata/full.yaml
var full string

// TestSections: what the sections of the file that names every key become. Scalars are TestEveryVariable's.
func TestSections(t *testing.T) {
	t.Parallel()
	c := parse(t, full)
	got := config.Config{Policy: c.Policy, Agents: c.Agents, Models: c.Models, Budgets: c.Budgets}
	same(t, config.Config{
		Policy: config.Policy{
			Timeout: 10 * time.Second, AllowedHosts: []string{"localhost", ".example.com"},
			Allowlist: []policy.Entry{
				{
					Name: "github", URLPrefix: "https://api.github.com/", Methods: []string{"GET", "HEAD", "POST"}, Network: "public",
					Redirects: 1, EncodedSlashes: true, UpstreamIdempotency: &policy.Idempotency{TTL: 24 * time.Hour, Header: "X-Request-Key", Derive: true},
					Contract: policy.Contract{
						Retry:      &policy.Retry{Attempts: 5, Base: time.Second, Cap: time.Minute, On: []int{429, 503}},
						NeverRetry: &policy.NeverRetry{Status: []int{501}, Header: map[string]string{"X-Should-Retry": "false"}},
						Reconcile: &policy.Reconcile{
							Method: "HEAD", URL: "https://api.github.com/{request.action_id}", Applied: "response.status == 200",
							NotApplied: "response.status == 404", Within: 10 * time.Second,
						},
						ResponseSchema: &policy.ResponseSchema{Mode: policy.SchemaWarn, Schema: []byte(`{"required":["id"],"type":"object"}`)},
					},
					Headers: map[string]string{"Authorization": "Bearer ${secret:GITHUB_TOKEN}"},
					Query:   map[string]string{"key": "${secret:KEY}"}, Body: map[string]string{"token": "${secret:TOKEN}"},
					Limits: policy.Limits{Rate: "10/s", Concurrency: 4}, Mode: policy.ModeEnforce,
				},
				{
					Name: "inner", URLPrefix: "http://10.1.2.3:81/x", Network: "private", CIDRs: []string{"10.0.0.0/8"}, Methods: []string{"POST"},
					UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour}, Contract: policy.Contract{RequiresKey: true},
				},
				{Name: "git", URLPrefix: "https://git.example.com/", Connect: policy.ConnectTunnel},
			},
		},
		Agents: map[string]config.Agent{
			"SUMMARIZE": {
				Agent: schemas.Agent{URL: "https://agents.example.com/summarize/", Mode: "sync", Timeout: 20 * time.Minute, Concurrency: 4},
				Token: "${secret:AGENT_TOKEN}", Network: "private", CIDRs: []string{"10.1.0.0/16"},
			},
			"acme.translate:v2": {Agent: schemas.Agent{URL: "http://localhost:9001", Mode: "auto", Concurrency: 32}, Network: "loopback"},
		},
		Models: c.Models, Budgets: c.Budgets, // TestModels and TestBudgets have them
	}, got)
	require.Len(t, c.Warnings(), 3)
	p, err := c.Compile(nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		"api.github.com", "10.1.2.3", "git.example.com", "localhost", "agents.example.com", "llm.example.com", "10.3.0.1", "api.openai.com",
	}, p.Hosts())
}

// TestSchemaInAFile: the file is found beside the configuration, and its content is what counts.
func TestSchemaInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const entry = "policy: {allowlist: [{name: a, url_prefix: 'http://h.test/', response_schema: {schema: %s}}]}"
	write("weir.yaml", fmt.Sprintf(entry, "order.json"))
	write("order.json", `{ "type": "object", "maximum": 12345678901234567890 }`)
	c, err := config.Load(filepath.Join(dir, "weir.yaml"), nil, nil)
	require.NoError(t, err)
	require.Equal(t, &policy.ResponseSchema{Schema: []byte(`{"maximum":12345678901234567890,"type":"object"}`), Mode: "strict"}, c.Policy.Allowlist[0].ResponseSchema)
	inline := parse(t, fmt.Sprintf(entry, "{type: object, maximum: 12345678901234567890}"))
	require.Equal(t, c.Policy.Allowlist, inline.Policy.Allowlist)
	inline = parse(t, fmt.Sprintf(entry, `'{"type": "object", "maximum": 12345678901234567890}'`))
	require.Equal(t, c.Policy.Allowlist, inline.Policy.Allowlist)
	watched := []string{filepath.Join(dir, "order.json")}
	require.Equal(t, watched, c.Files())

	write("order.json", strings.Repeat(" ", 256<<10)+"{}")
	c, err = config.Load(filepath.Join(dir, "weir.yaml"), nil, nil)
	require.ErrorContains(t, err, "names a file of more than 256KiB")
	require.Equal(t, watched, c.Files(), "a change of it can make the configuration good")
}

// TestContractDefaults: an omitted member of a section of an entry has the documented value.
func TestContractDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, "policy: {allowlist: [{name: a, url_prefix: 'http://h.test/', methods: [GET, POST], retry: {}, reconcile: {url: 'http://h.test/', applied: 'true'}}]}")
	e := c.Policy.Allowlist[0]
	require.Equal(t, &policy.Retry{Attempts: 3, Base: 200 * time.Millisecond, Cap: 2 * time.Second}, e.Retry)
	require.Empty(t, c.Warnings())
	slow := parse(t, "policy: {allowlist: [{name: a, url_prefix: 'http://h.test/', retry: {base: 2m, cap: 1h}}]}")
	require.Equal(t, []string{"policy.allowlist[0].retry.base: is not below deadline.http, 2m: no call is repeated"}, slow.Warnings())
	require.Equal(t, &policy.Reconcile{Method: "GET", URL: "http://h.test/", Applied: "true", Within: 30 * time.Second}, e.Reconcile)
	twice := parse(t, "policy: {allowlist: [{name: a, url_prefix: 'http://h/'}, {name: a, url_prefix: 'http://h/', mode: shadow}, {name: a, url_prefix: 'http://i/'}]}")
	require.Equal(t, []string{"policy.allowlist[2].name: is the name of an earlier entry, which this one replaces; remove one, or give it another name"}, twice.Warnings())
}

func TestClusterHasItsOwnDefaults(t *testing.T) {
	t.Parallel()
	c := parse(t, "nats: {url: 'nats://a:4222,tls://b', creds: /c}")
	require.False(t, c.Embedded())
	require.Equal(t, 8, c.Log.Partitions)
	require.Equal(t, schemas.DurabilityReplicated, c.Log.Durability)

	c = parse(t, "nats: {url: 'nats://a:4222'}\nlog: {partitions: 3, durability: process}")
	require.Equal(t, 3, c.Log.Partitions)
	require.Equal(t, schemas.DurabilityProcess, c.Log.Durability)
	require.Equal(t, 3, c.Log.Replicas)

	c = parse(t, "nats: {url: 'nats://a:4222'}\nlog: {replicas: 1}")
	require.Equal(t, 1, c.Log.Replicas)
	require.Equal(t, schemas.DurabilityProcess, c.Log.Durability)
	require.Len(t, c.Warnings(), 1)
	require.Contains(t, c.Warnings()[0], "log.replicas: is 1")

	// One node makes the admin, and the others start without.
	require.Empty(t, parse(t, "nats: {url: 'nats://a:4222'}\nauth: {mode: tokens}").AdminTokenFile())
	require.NotEmpty(t, parse(t, "auth: {mode: tokens}").AdminTokenFile())
}

func TestSourcesInOrder(t *testing.T) {
	t.Parallel()
	text := "listen: 127.0.0.1:1\ntelemetry: {log_level: error}\npolicy: {allowed_hosts: [file.example]}\n"
	tests := []struct {
		name    string
		environ []string
		flags   map[string]string
		listen  string
		hosts   []string
	}{
		{"file", nil, nil, "127.0.0.1:1", []string{"file.example"}},
		{
			"environment over file",
			[]string{"WEIR_LISTEN=127.0.0.1:2", "WEIR_POLICY_ALLOWED_HOSTS= a.example , b.example ,"},
			nil,
			"127.0.0.1:2",
			[]string{"a.example", "b.example"},
		},
		{
			"executor variables over those",
			[]string{"HTTP_EXECUTOR_BIND_ADDR=127.0.0.1:3", "WEIR_LISTEN=127.0.0.1:2", "HTTP_EXECUTOR_ALLOWED_HOSTS=c.example,[::1]:8080", "WEIR_POLICY_ALLOWED_HOSTS=a.example"},
			nil, "127.0.0.1:3",
			[]string{"c.example", "[::1]:8080"},
		},
		{
			"command line over all",
			[]string{"HTTP_EXECUTOR_BIND_ADDR=127.0.0.1:3"},
			map[string]string{"listen": "127.0.0.1:4", "policy.allowed_hosts": "d.example"},
			"127.0.0.1:4",
			[]string{"d.example"},
		},
		{
			"an empty list is a list, an empty word is nothing",
			[]string{"HTTP_EXECUTOR_BIND_ADDR=", "WEIR_LISTEN=", "WEIR_LOG_HISTORY=", "HTTP_EXECUTOR_ALLOWED_HOSTS="},
			nil, "127.0.0.1:1",
			[]string{},
		},
		{"the last of a repeated variable", []string{"WEIR_LISTEN=127.0.0.1:5", "WEIR_LISTEN=127.0.0.1:6"}, nil, "127.0.0.1:6", []string{"file.example"}},
	}
	for _, tt := range tests {
		c, err := config.Parse("weir.yaml", []byte(text), tt.environ, tt.flags)
		require.NoError(t, err)
		require.Equal(t, tt.listen, c.Listen, tt.name)
		require.Equal(t, tt.hosts, c.Policy.AllowedHosts, tt.name)
		require.Equal(t, "error", c.Telemetry.LogLevel)
		require.Empty(t, c.Warnings())
	}
}

// TestAllowedHostsWhenNobodySays: this machine may be called in open mode, until there is an entry.
func TestAllowedHostsWhenNobodySays(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"localhost", "127.0.0.1", "::1"}, parse(t, "").Policy.AllowedHosts)
	for _, text := range []string{
		"auth: {mode: tokens}", "listen: 0.0.0.0:8092", "policy: {allowed_hosts: []}",
		"policy: {allowlist: [{name: a, url_prefix: 'https://a.example/'}]}",
	} {
		require.Empty(t, parse(t, text).Policy.AllowedHosts, text)
	}
	c := parse(t, "", "HTTP_EXECUTOR_ALLOWED_HOSTS=")
	require.Empty(t, c.Policy.AllowedHosts)
	p, err := c.Compile(nil)
	require.NoError(t, err)
	require.Empty(t, p.AllowedHosts())
}

func TestEveryVariable(t *testing.T) {
	t.Parallel()
	environ := []string{
		"WEIR_LISTEN=localhost:0", "WEIR_DATA=/d", "WEIR_LOG_PARTITIONS=5", "WEIR_LOG_DURABILITY=process", "WEIR_LOG_REPLICAS=5",
		"WEIR_LOG_HISTORY=48h", "WEIR_LOG_MAX_BYTES=1GiB", "WEIR_NATS_URL=nats://n", "WEIR_NATS_CREDS=/creds", "WEIR_NATS_TLS_CA=/ca", "WEIR_NATS_TLS_CERT=/cert", "WEIR_NATS_TLS_KEY=/key",
		"WEIR_WORKERS_SLOTS=9", "WEIR_WORKERS_CHATS=10", "WEIR_WORKERS_DRAIN=8s", "WEIR_LIMITS_BODY=2048", "WEIR_LIMITS_CHAT=65KiB", "WEIR_LIMITS_HEADERS=5KiB", "WEIR_LIMITS_RESPONSE=3MiB",
		"WEIR_LIMITS_RESPONSE_HEADERS=6KiB", "WEIR_LIMITS_STREAM=7MiB", "WEIR_LIMITS_QUEUED=8", "WEIR_LIMITS_QUEUED_PER_TENANT=6", "WEIR_LIMITS_TENANT_SHARE=31", "WEIR_LIMITS_ANSWERS=17MiB", "WEIR_LIMITS_CONNECTIONS=99", "WEIR_LIMITS_CONNECTIONS_PER_PEER=98",
		"WEIR_AUTH_MODE=tokens", "WEIR_AUTH_ADMIN_TOKEN_FILE=/t", "WEIR_AUTH_RATE=7/h", "WEIR_AUTH_STREAMS=97",
		"WEIR_SECRETS_AGE_FILE=/a", "WEIR_SECRETS_AGE_IDENTITY=/i", "WEIR_RULES_AGENT_API=false", "WEIR_RULES_LIMIT=96", "WEIR_DEADLINE_HTTP=3s", "WEIR_DEADLINE_PLAN=4s", "WEIR_DEADLINE_RUN=5s",
		"WEIR_PUBLIC_URL=http://w", "WEIR_DEADLINE_TASK=6s", "WEIR_DEADLINE_PUSH=7s", "WEIR_DEADLINE_REPO=8s", "WEIR_DEADLINE_CHAT=9s", "WEIR_TASKS_LEASE=11s",
		"WEIR_GIT_DIR=/g", "WEIR_GIT_PROGRAM=gitt", "WEIR_GIT_MAX_PACK=1KiB", "WEIR_GIT_MAX_REPO=2MiB", "WEIR_GIT_TIMEOUT=12s", "WEIR_GIT_MEMORY=65MiB", "WEIR_GIT_PROCESSES=13",
		"WEIR_PROXY_LISTEN=localhost:1", "WEIR_PROXY_CA_CERT=/pc", "WEIR_PROXY_CA_KEY=/pk", "WEIR_PROXY_IDLE=14s", "WEIR_PROXY_LONGEST=15s", "WEIR_PROXY_TUNNELS=16", "WEIR_PROXY_TUNNELS_PER_TOKEN=17",
		"WEIR_POLICY_TIMEOUT=1s", "WEIR_SECRETS_DIR=/s", "WEIR_REDACT_HEADERS=a,b", "WEIR_LOG_LEVEL=warn", "WEIR_LOG_FORMAT=text", "WEIR_TELEMETRY_OTLP_ENDPOINT=http://c:4318",
	}
	others := []string{"WEIR_TOKEN=hush", "WEIR_URL=http://x", "WEIR_RELAY_TOKEN=hush", "WEIR_SECRET_TOKEN=hush", "PATH=/bin", "malformed"}
	c, err := config.Parse("", nil, slices.Concat(environ, others), nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings())
	// Each variable has changed the key of its name, and nothing else has changed.
	changed := map[string]bool{}
	for _, key := range defaults(t).NeedsRestart(c) {
		changed["WEIR_"+strings.ToUpper(strings.ReplaceAll(strings.Replace(key, "telemetry.log", "log", 1), ".", "_"))] = true
	}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		require.True(t, changed[name], name)
	}
	require.Len(t, changed, len(environ))
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	c := parse(t, "policy: {allowlist: [{name: mine, url_prefix: 'http://h/'}]}",
		"WEIR_LISTN=x", "WEIR_HELLO_WORLD=canary", "WEIRD=1", "WEIR_CONFIG=/x")
	require.Equal(t, []string{
		"WEIR_HELLO_WORLD is set and is not a setting of Weir",
		"WEIR_LISTN is set and is not a setting of Weir; did you mean WEIR_LISTEN?",
	}, c.Warnings())
}

// TestLiteralsAreWarnedOf: a variable of a shell in a value would be sent as it is.
func TestLiteralsAreWarnedOf(t *testing.T) {
	t.Parallel()
	const entry = "policy:\n  allowlist:\n  - name: a\n    url_prefix: https://a.example/\n    headers:\n      X-Auth: %s\n"
	for value, warned := range map[string]bool{
		"Bearer $STRIPE": true, "$token": true, "pa$1": false, "a$": false, "Bearer ${secret:STRIPE}": false,
	} {
		doubts := parse(t, fmt.Sprintf(entry, value)).Doubts()
		require.Equal(t, warned, len(doubts) == 1, value)
		if warned {
			require.Equal(t, "weir.yaml:6: policy.allowlist[0].headers.X-Auth: contains a $ before a name, which is sent as it is; "+
				"write ${secret:NAME} for a secret", doubts[0].Error())
		}
	}
	for _, text := range []string{
		"agents: {T: {url: 'https://a.example', token: $TOKEN}}", "models: {m: {url: 'https://a.example', headers: {X-Key: $KEY}}}",
		"policy: {allowlist: [{name: a, url_prefix: 'https://a.example/', query: {key: $KEY}}]}",
	} {
		require.Len(t, parse(t, text).Doubts(), 1, text)
	}
}

// TestOpenEntriesAreWarnedOf at start.
func TestOpenEntriesAreWarnedOf(t *testing.T) {
	t.Parallel()
	warned := parse(t, `policy: {allowlist: [{name: a, url_prefix: "https://a.example/", headers: {X-Auth: hunter2}, caller_headers: ["*"], caller_params: ["*"]}]}`).Warnings()
	require.Len(t, warned, 2)
	require.Contains(t, warned[0]+warned[1], "policy.allowlist[0].caller_headers: is *")
}

func TestLoadFindsItsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	c, err := config.Load("", nil, nil)
	require.NoError(t, err, "a default file may be absent")
	require.Empty(t, c.Source())

	write(config.DefaultFile, "data: from-default")
	write("other.yaml", "data: from-other")
	c, err = config.Load("", nil, nil)
	require.NoError(t, err)
	require.Equal(t, "from-default", c.Data)

	c, err = config.Load("", []string{"WEIR_CONFIG=other.yaml"}, nil)
	require.NoError(t, err)
	require.Equal(t, "from-other", c.Data)
	require.Equal(t, "other.yaml", c.Source())

	c, err = config.Load(config.DefaultFile, []string{"WEIR_CONFIG=other.yaml"}, nil)
	require.NoError(t, err)
	require.Equal(t, "from-default", c.Data)

	_, err = config.Load("absent.yaml", nil, nil)
	require.EqualError(t, err, "absent.yaml: the file cannot be read: no such file or directory; name one that this user may read")
	_, err = config.Load("", []string{"WEIR_CONFIG=absent.yaml"}, nil)
	require.EqualError(t, err, "absent.yaml: the file cannot be read: no such file or directory; name one that this user may read")
	dir := t.TempDir()
	_, err = config.Load(dir, nil, nil)
	require.EqualError(t, err, dir+": the file cannot be read: is a directory; name one that this user may read")
}

func TestExample(t *testing.T) {
	t.Parallel()
	c, err := config.Load(filepath.Join("..", "..", "deploy", "weir.example.yaml"), nil, nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings())
	// What the example shows as commented-out defaults is what the defaults are.
	want := defaults(t)
	got := c
	got.Policy, got.Agents, got.Models, got.Budgets = want.Policy, want.Agents, want.Models, want.Budgets
	same(t, want, got)
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "http://127.0.0.1:4711",
		"public_url: https://weir.example.com": "https://weir.example.com",
		"public_url: https://weir.example.com:8443/": "https://weir.example.com:8443",
		"public_url: 'http://[::1]:80'":              "http://[::1]:80",
	} {
		require.Equal(t, want, parse(t, text).BaseURL("127.0.0.1:4711"), text)
	}
	for listening, want := range map[string]string{
		"localhost:1": "http://localhost:1", "[::1]:2": "http://[::1]:2", "10.1.2.3:3": "http://10.1.2.3:3",
		":4": "http://127.0.0.1:4", "0.0.0.0:5": "http://127.0.0.1:5", "[::]:6": "http://127.0.0.1:6",
	} {
		require.Equal(t, want, parse(t, "").BaseURL(listening))
	}
}

// TestShortHistories: a file that was right before there were tasks still is, and what comes to its deadline is still
// there to be ended.
func TestShortHistories(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]time.Duration{
		"": {8 * time.Hour, 147 * time.Hour}, "log: {history: 1h}": {50 * time.Minute, 50 * time.Minute},
		"log: {history: 2h}": {105 * time.Minute, 105 * time.Minute}, "log: {history: 80m}": {70 * time.Minute, 70 * time.Minute},
		"log: {history: 8h}": {7 * time.Hour, 7 * time.Hour}, "log: {history: 12h}\ndeadline: {task: 9h}": {9 * time.Hour, 10*time.Hour + 30*time.Minute},
	} {
		c := parse(t, text)
		require.Equal(t, want, [2]time.Duration{c.Deadline.Task, c.LongestAction()}, text)
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	old := parse(t, "listen: 127.0.0.1:1\n")
	for text, want := range map[string][]string{
		"listen: 127.0.0.1:1\n":                       nil,
		"listen: 127.0.0.1:1\nlog: {partitions: 1}\n": nil, // its default
		"listen: 127.0.0.1:1\npolicy: {allowed_hosts: [a.example], allowlist: [{name: a, url_prefix: 'https://a.example/'}]}\n": nil,
		"listen: 127.0.0.1:1\nagents: {T: {url: 'https://a.example', token: x}}\n":                                              nil,
		"listen: 127.0.0.1:1\ndeadline: {run: 1m}\nlimits: {stream: 1MiB}\n":                                                    {"limits.stream", "deadline.run"},
		"listen: 127.0.0.1:1\nmodels: {m: {url: 'https://a.example', headers: {Authorization: x}}}\n":                           nil,
		"listen: 127.0.0.1:1\nbudgets: {b: {requests: 1}}\n":                                                                    nil,
		"listen: 127.0.0.1:1\ndeadline: {chat: 1m}\nlimits: {chat: 1MiB}\n":                                                     {"limits.chat", "deadline.chat"},
		"listen: 127.0.0.1:1\nrules: {agent_api: false, limit: 1}\n":                                                            {"rules.agent_api", "rules.limit"},
		"listen: 127.0.0.1:2\n": {"listen"},
		"listen: 127.0.0.1:1\nredact_headers: [x]\npolicy: {timeout: 3s}\nworkers: {slots: 7}\n": {"workers.slots", "policy.timeout", "redact_headers"},
	} {
		assert.Equal(t, want, old.NeedsRestart(parse(t, text)), text)
	}
}

// TestOwnPortsAreOutOfReach: those of the configuration and those at which the node listens, on loopback and, if other
// machines reach it, by the addresses of its machine.
func TestOwnPortsAreOutOfReach(t *testing.T) {
	t.Parallel()
	c := parse(t, `listen: 127.0.0.1:8092
nats: {listen: 127.0.0.1:4222}
policy: {allowed_hosts: [127.0.0.1], allowlist: [{name: a, url_prefix: 'http://a.example:9999/', network: private, cidrs: [10.0.0.0/8]}]}
`)
	own, other := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.1.2.4")
	for at, reachable := range map[string]bool{"0.0.0.0:9999": false, "0.0.0.0:9998": true, "127.0.0.1:9999": true} {
		p, err := c.Compile(func() ([]netip.Addr, error) { return []netip.Addr{own}, nil }, at, "")
		require.NoError(t, err)
		for _, port := range []string{"8092", "4222", at[strings.LastIndex(at, ":")+1:], "8080"} {
			d := p.Decide(policy.Request{Method: "GET", URL: "http://127.0.0.1:" + port + "/"})
			require.Equal(t, port == "8080", d.Allowed, port)
		}
		permit, ok := p.Decide(policy.Request{Method: "GET", URL: "http://a.example:9999/"}).Permit()
		require.True(t, ok)
		assert.Equal(t, reachable, permit.CheckAddr(own) == nil, at)
		assert.NoError(t, permit.CheckAddr(other))
	}
}

// hidden holds that no way to print a value shows the canary.
func hidden(t *testing.T, v any) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, v), "canary", verb)
		require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", "canary"), verb)
	}
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NotContains(t, string(data), "canary")
	var buf bytes.Buffer
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("m", "v", v)
	slog.New(slog.NewTextHandler(&buf, nil)).Info("m", "v", v)
	require.NotContains(t, buf.String(), "canary")
	require.NotEmpty(t, buf.String())
}

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	c := parse(t, `
nats: {url: "nats://n", creds: /canary.creds}
policy: {allowlist: [{name: a, url_prefix: "http://h/", headers: {Authorization: "Bearer canary"}}]}
agents: {plain: {url: "https://a.example", token: canary}}
models:
  one: {url: "https://a.example", headers: {Authorization: "Bearer canary"}}
  two: {upstreams: [{name: u, url: "https://a.example", headers: {Authorization: "Bearer canary"}}]}
`)
	for _, v := range []any{
		c, &c, c.Policy, c.Agents, c.Agents["plain"], c.Models, c.Models["one"], c.Models["two"], c.Models["two"].Upstreams[0], struct{ C any }{c},
	} {
		hidden(t, v)
	}
}

// amounts holds how an amount is read.
func amounts[T comparable, P interface {
	*T
	UnmarshalText([]byte) error
}](t *testing.T, good map[string]T, bad ...string) {
	t.Helper()
	for text, want := range good {
		var got T
		require.NoError(t, P(&got).UnmarshalText([]byte(text)), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range bad {
		var got T
		require.Error(t, P(&got).UnmarshalText([]byte(text)), text)
	}
}

func TestSizeAndUSD(t *testing.T) {
	t.Parallel()
	amounts(t, map[string]config.Size{
		"0": 0, "1": 1, "17B": 17, "1KiB": 1024, "256KiB": 256 << 10, "3MiB": 3 << 20, "10GiB": 10 << 30, "8TiB": 8 << 40, "4 KiB": 4096,
	}, "", "KiB", "1kb", "1KB", "1.5MiB", "-1", "1MiBi", "1iB", "0x10", "9223372036854775808", "8388608TiB", "1 M", "١")
	amounts(t, map[string]schemas.USD{
		"0": 0, "1": 1_000_000_000, "2.5": 2_500_000_000, "0.000000001": 1, "0.150": 150_000_000, "999999999.999999999": 999_999_999_999_999_999, "007": 7_000_000_000,
	}, "", ".", ".5", "5.", "-1", "+1", "1e3", "0x1", "1_000", "1.0000000001", "1000000000", " 1", "1.2.3", "NaN")
}

// Every way to get a budget wrong, with the very words an operator reads.
func TestBadBudgets(t *testing.T) {
	t.Parallel()
	const (
		head = "budgets:\n  b: {requests: 1,\n    "
		at   = "weir.yaml:3: budgets.b."
		name = "is not the name of a budget; write at most 64 letters, digits, dots, underscores, colons and hyphens"
	)
	long := strings.Repeat("b", 65)
	var many strings.Builder
	many.WriteString("budgets:\n")
	for i := range 101 {
		fmt.Fprintf(&many, "  b%d: {requests: 1}\n", i)
	}
	for _, tt := range []struct{ text, want string }{
		{many.String(), "weir.yaml:1: budgets: has 101 budgets; every completion is counted in each that is about it, so write at most 100"},
		{head + "request: 1}", at + "request: unknown key; did you mean requests?"},
		{"budgets:\n  task: {usd: 1}", "weir.yaml:2: budgets.task: is what the budget is called that a task brings itself; give this one another name"},
		{"budgets:\n  a b: {usd: 1}", `weir.yaml:2: budgets."a b": ` + name},
		{"budgets:\n  " + long + ": {usd: 1}", "weir.yaml:2: budgets.\"" + long[:64] + `": ` + name},
		{"budgets:\n  \"\": {usd: 1}", `weir.yaml:2: budgets."": ` + name},

		{head + "per: token}", at + `per: is a YAML string; write a list: [a, b], or one "- " a line`},
		{head + "per: [user]}", at + "per[0]: has no such value; use tenant, token, task or model"},
		{head + "per: [token, model, token]}", at + "per[2]: appears twice; remove one"},
		{head + "models: ['open*ai']}", at + "models[0]: is neither the name of a model nor a pattern, such as openai/* or *"},
		{head + "tenants: [a/b]}", at + "tenants[0]: is not the name of a tenant; write at most 128 letters, digits, dots, underscores, colons and hyphens"},
		{head + "window: 8761h}", at + "window: is 8761h; use 0 or 1s to 8760h"},
		{head + "tokens: 1.5}", at + "tokens: is a YAML float; write a whole number of at most 18 digits, without quotes"},
		{head + "usd: 0.0}", at + "usd: is 0.0; use 0.000000001 to 999999999.999999999"},
		{head + "usd: 5 USD}", at + "usd: cannot be read; write an amount of US dollars such as 12 or 2.5, with at most nine digits after the point"},
		{"budgets:\n  b: {window: 1h}", "weir.yaml:2: budgets.b: bounds nothing; give it requests, tokens or usd"},
	} {
		told(t, tt.text, tt.want)
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	c := parse(t, `
budgets:
  team: {window: 24h, usd: 200}
  each-agent:
    per: [token, model]
    models: ["openai/*", llama]
    tenants: [acme]
    window: 0s
    requests: 600
    tokens: 2000000
    usd: 0.000000001
`)
	want := []schemas.Budget{
		{
			Name: "each-agent", Per: []string{"token", "model"}, Models: []string{"openai/*", "llama"}, Tenants: []string{"acme"},
			Requests: 600, Tokens: 2_000_000, Nanos: 1,
		},
		{Name: "team", Per: []string{"tenant"}, Window: 24 * time.Hour, Nanos: 200_000_000_000},
	}
	require.Equal(t, want, c.ModelBudgets())
	require.Empty(t, c.Warnings())
	require.Empty(t, defaults(t).ModelBudgets())
	require.Empty(t, parse(t, "budgets:").ModelBudgets())
}

// TestDoubtfulBudgets: what looks like a mistake is told and stops nothing.
func TestDoubtfulBudgets(t *testing.T) {
	t.Parallel()
	const models = `
models:
  fast: {alias: openai/mini}
  openai/*: {url: "https://a.example", price: {input: 1, output: 1}}
  llama: {url: "https://b.example"}
  x/*: {url: "https://c.example"}
budgets:
  b: `
	for text, want := range map[string][]string{
		"{usd: 1}":                                 {"budgets.b.usd: refuses every request for llama, x/*, without a price; give one, if it is 0"},
		"{usd: 1, models: [x/*, openai/*]}":        {"budgets.b.usd: refuses every request for x/*, without a price; give one, if it is 0"},
		"{usd: 1, models: [openai/*]}":             nil,
		"{tokens: 1}":                              nil,
		"{tokens: 1, models: [llama, fast, gone]}": {"budgets.b.models[1]: is another name for openai/mini, whose use is counted; write that", "budgets.b.models[2]: fits no model that is configured, so that nothing is counted by it"},
		"{tokens: 1, models: [openai, fas/*, lla]}": {
			"budgets.b.models[0]: fits no model that is configured, so that nothing is counted by it",
			"budgets.b.models[1]: fits no model that is configured, so that nothing is counted by it",
			"budgets.b.models[2]: fits no model that is configured, so that nothing is counted by it",
		},
		"{tokens: 1, models: ['*', x/y, x/y/*, openai/*, llama]}": nil,
	} {
		require.Equal(t, want, parse(t, models+text).Warnings(), text)
	}
}
