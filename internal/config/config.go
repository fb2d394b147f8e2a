// Package config reads weir.yaml, the environment and the command line, in that order, each over the
// one before. A key that does not exist, a value of the wrong kind and a combination that cannot work
// are errors that name the place, the key and the cure; all are reported at once.
package config

import (
	"fmt"
	"io"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Config is the whole configuration. Every key has a default, so the file may be absent or empty. A
// value with a single word or number can also be given as an environment variable: WEIR_ and the
// key's path in capitals, such as WEIR_LOG_DURABILITY, or the names in its env tag, of which the last
// wins; a list is then written with commas. The tag default is the value of a key that is not given,
// and bounds are those of one that is. A comment and these tags make the description in the schema.
type Config struct {
	// The address to serve on, host:port. Port 0 takes a free one. Only a loopback address may be
	// open, see auth.mode. HTTP_EXECUTOR_BIND_ADDR overrides it.
	Listen string `yaml:"listen" env:"WEIR_LISTEN,HTTP_EXECUTOR_BIND_ADDR" default:"127.0.0.1:8092"`
	// Where others reach this node: an http or https URL without a path, such as
	// https://weir.example.com. The URLs of repositories begin with it. Default none: http:// and
	// the address of listen.
	PublicURL string   `yaml:"public_url"`
	Data      string   `yaml:"data" default:"./weir-data"` // The directory of the embedded server's log. Not used with nats.url.
	Log       Log      `yaml:"log"`                        // The action log.
	NATS      NATS     `yaml:"nats"`                       // The broker: the embedded server unless a URL is given.
	Workers   Workers  `yaml:"workers"`                    // How much is done at once.
	Index     Index    `yaml:"index"`                      // The index behind lists and figures.
	Limits    Limits   `yaml:"limits"`                     // Limits on the size of requests and answers.
	Deadline  Deadline `yaml:"deadline"`                   // How long an action may take, from its acceptance to its end.
	Auth      Auth     `yaml:"auth"`                       // Who may ask.
	Rules     Rules    `yaml:"rules"`                      // The traffic rules.
	Tasks     Tasks    `yaml:"tasks"`                      // The tasks of coding agents.
	Git       Git      `yaml:"git"`                        // The repositories on this node's disk, and what git may use.
	Policy    Policy   `yaml:"policy"`                     // What may leave.
	Proxy     Proxy    `yaml:"proxy"`                      // The forward proxy of `weir serve`.
	// Remote agents by the task type they serve. Default none. HTTP_EXECUTE, HTTP_PLAN and ECHO are
	// served by Weir itself.
	Agents map[string]Agent `yaml:"agents"`
	// Models by the name they are asked for by: an exact one, such as openai/gpt-4o, or a pattern:
	// openai/* for every name that begins so, * for all others. Default none.
	Models map[string]Model `yaml:"models"`
	// What may be used of models, by a name that errors and GET /v1/budgets tell. Default nothing
	// bounds it but the budgets that tasks bring.
	Budgets map[string]schemas.Budget `yaml:"budgets"`
	Secrets Secrets                   `yaml:"secrets"` // Where ${secret:NAME} comes from.
	// Names of headers whose values are shown, logged and stored as REDACTED, beside authorization,
	// proxy-authorization, cookie, set-cookie and every name that speaks of a token, secret,
	// password, signature, API key or credential. Default none. Letter case does not matter.
	RedactHeaders []string  `yaml:"redact_headers"`
	Telemetry     Telemetry `yaml:"telemetry"` // What Weir says about itself.

	doubts []*Problem
	source string
	files  []string
	blank  bool
	opaque
}

// opaque keeps what embeds it out of logs and errors: a configuration holds credentials.
type opaque struct{}

// Format implements fmt.Formatter, for every verb and flag.
func (opaque) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(configuration)") }

// MarshalJSON implements json.Marshaler.
func (opaque) MarshalJSON() ([]byte, error) { return []byte(`"(configuration)"`), nil }

// Log is how the action log is cut, kept and made durable.
type Log struct {
	// Number of partitions, fixed when the log is created. With nats.url the default is 8.
	Partitions int `yaml:"partitions" default:"1" bounds:"1 to 64"`
	// What an acknowledged action survives: disk (a power cut), process (kill -9) or replicated
	// (the loss of a node; needs nats.url). The default with nats.url is replicated.
	Durability schemas.Durability `yaml:"durability" jsonschema:"enum=disk,enum=process,enum=replicated" default:"disk"`
	// Copies of everything stored, each on another server: 1, 3 or 5. With nats.url the default is 3.
	// One copy dies with its server: the default of durability is then process.
	Replicas int `yaml:"replicas" default:"1"`
	// How long events are kept, as a duration. An eighth of it, at least 10m, must remain after any
	// deadline, so that an expired action can still be ended. A repeated id is recognised for the
	// same time.
	History time.Duration `yaml:"history" default:"168h" bounds:"1h or more"`
	// Total stored size at which new actions are refused; accepted actions still finish. 0 uses
	// most of the free disk space.
	MaxBytes Size `yaml:"max_bytes" default:"10GiB" bounds:"0 or 16MiB or more"`
}

// Index is what lists of actions and figures are answered from.
type Index struct {
	// File of the index, which is built from the log and may be deleted at any time: a file that is
	// no index of this version is thrown away. Default index/actions.db in data; with nats.url a
	// temporary file that goes with the process.
	Path string `yaml:"path"`
}

// NATS is the broker.
type NATS struct {
	// URLs of an external cluster, with commas between them. Default none: the embedded server. A
	// user name or password does not belong here, see creds.
	URL string `yaml:"url"`
	// File with the credentials for url: a .creds file, the seed of an nkey as `weir nats init`
	// writes it, or {"user":"…","password":"…"}. Default none.
	Creds string  `yaml:"creds"`
	TLS   NATSTLS `yaml:"tls"` // Encryption of the connection to url.
	// The address on which the embedded server takes other programs, host:port. Default none: it
	// opens no port.
	Listen string `yaml:"listen"`
}

// NATSTLS names the files of an encrypted connection to the broker.
type NATSTLS struct {
	// File with the CA certificates of the servers. With it, a server that does not encrypt is
	// refused. Default: the system's certificates, if url requests encryption with tls://.
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"` // File with a certificate of this node's own, where the servers ask for one. Default none.
	Key  string `yaml:"key"`  // File with the key of cert. Default none.
}

// Workers is how much is done at once.
type Workers struct {
	// Actions of a kind in progress at a time in each partition, and as many that were woken.
	Slots int `yaml:"slots" default:"256" bounds:"1 to 10000"`
	// Completions in progress at a time for each partition: they wait for models, not for this node.
	Chats int `yaml:"chats" default:"1024" bounds:"1 to 100000"`
	// Time for running work to finish when the node stops. A run of a remote agent that takes
	// longer ends as outcome_unknown. Default 0: policy.timeout and ten seconds.
	Drain time.Duration `yaml:"drain" bounds:"0 or 1s to 1h"`
}

// Limits are sizes beyond which a message is refused, never cut.
type Limits struct {
	Body            Size `yaml:"body" default:"1MiB" bounds:"1KiB to 64MiB"`             // Body of one request to Weir.
	Upload          Size `yaml:"upload" default:"64MiB" bounds:"1KiB to 16GiB"`          // Body of one request through passthrough or the proxy.
	Chat            Size `yaml:"chat" default:"16MiB" bounds:"64KiB to 64MiB"`           // Body of one request for a completion.
	Headers         Size `yaml:"headers" default:"32KiB" bounds:"4KiB to 1MiB"`          // Headers of one request to Weir.
	Response        Size `yaml:"response" default:"8MiB" bounds:"1KiB to 64MiB"`         // Decoded body of one answer from a target.
	ResponseHeaders Size `yaml:"response_headers" default:"64KiB" bounds:"4KiB to 1MiB"` // Headers of one answer from a target.
	// All of one agent's stream together. One event of it may be as large as response.
	Stream Size `yaml:"stream" default:"256MiB" bounds:"64KiB to 16GiB"`
	// New actions that may wait for a worker, of all tenants; 0: any number. More are refused with
	// 503 and nothing is stored of them. It is the log's count, exact to about a second.
	Queued int `yaml:"queued" default:"10000000" bounds:"0 to 1000000000"`
	// The same of one tenant, refused with 429.
	QueuedPerTenant int `yaml:"queued_per_tenant" default:"5000000" bounds:"0 to 1000000000"`
	// Percentage of what all tenants share that one tenant may always use: of log.max_bytes,
	// answers, the concurrency of an agent, git.processes, the packs of pushes on disk (16 times
	// git.max_pack), and workers.slots for pushes. It may use more, but leaves that much free for the
	// next tenant: those two can use everything. 100 divides nothing. In open mode there is one
	// tenant.
	TenantShare int `yaml:"tenant_share" default:"25" bounds:"1 to 100"`
	// Bytes of large answers that are read, stored and shown at a time on this node, and as many of
	// large request bodies that are read and stored; others wait.
	Answers Size `yaml:"answers" default:"64MiB" bounds:"16MiB to 1TiB"`
	// Connections open at a time; more are closed at once. It is never more than three quarters of
	// the open files that the system allows.
	Connections int `yaml:"connections" default:"16384" bounds:"16 to 1000000"`
	// Connections open at a time from one address.
	ConnectionsPerPeer int `yaml:"connections_per_peer" default:"12288" bounds:"1 to 1000000"`
}

// Auth configures authentication.
type Auth struct {
	// Authentication mode: tokens (every request needs a bearer token) or open (every request is
	// from the tenant "default" as an admin; only allowed on a loopback address). The default on a
	// loopback address is open.
	Mode string `yaml:"mode" jsonschema:"enum=open,enum=tokens" default:"tokens"`
	// File that the first admin token is written to, readable by its owner alone, when there is no
	// other. Default admin.token in the data directory; with nats.url none: another node makes it.
	AdminTokenFile string `yaml:"admin_token_file"`
	// Requests of one token, a count a second, minute or hour, such as 500/s; as many again may
	// come in a burst. A token may have a rate of its own.
	Rate    string `yaml:"rate" default:"500/s"`
	Streams int    `yaml:"streams" default:"1000" bounds:"1 to 1000000"` // Event streams open at a time for one token.
}

// Deadline is how long an action may take, counted from its beginning.
type Deadline struct {
	HTTP time.Duration `yaml:"http" default:"2m" bounds:"1s to 24h"` // An executor's action.
	// A request of passthrough or of the proxy, with all of its answer. policy.timeout bounds the wait for
	// more of it.
	Passthrough time.Duration `yaml:"passthrough" default:"15m" bounds:"1s to 24h"`
	Plan        time.Duration `yaml:"plan" default:"10m" bounds:"1s to 24h"` // A plan, all its decisions together.
	Run         time.Duration `yaml:"run" default:"10m" bounds:"1s to 24h"`  // A run that names no budgets.timeout_ms.
	// A task that names no deadline. The default is no more than log.history leaves.
	Task time.Duration `yaml:"task" default:"8h" bounds:"1s to 720h"`
	Push time.Duration `yaml:"push" default:"15m" bounds:"1s to 24h"` // A push.
	Repo time.Duration `yaml:"repo" default:"30m" bounds:"1s to 24h"` // The making of a repository, with its import.
	Chat time.Duration `yaml:"chat" default:"15m" bounds:"1s to 24h"` // A completion of a model.
}

// Tasks is how the tasks of coding agents are given out.
type Tasks struct {
	// Time after which an agent of a pool that calls nothing loses its task to the next one.
	Lease time.Duration `yaml:"lease" default:"2m" bounds:"10s to 24h"`
}

// Git is the repositories on this node's disk, and what git may use.
type Git struct {
	// Directory of the repositories. Default git in the data directory. With nats.url there is none,
	// and no repository can live here without one: name a directory that is this node's alone. While
	// less than 1 GiB of its disk is free, or a twentieth of a smaller disk, pushes, imports and new
	// repositories of all tenants are refused (on Linux). Repositories have no limit by tenant.
	Dir     string `yaml:"dir"`
	Program string `yaml:"program" default:"git"`                         // Name or path of git, version 2.31 or newer.
	MaxPack Size   `yaml:"max_pack" default:"1GiB" bounds:"1KiB to 1TiB"` // Pack that one push may bring.
	// Size of one repository on disk at which pushes to it are refused.
	MaxRepo Size `yaml:"max_repo" default:"10GiB" bounds:"1MiB to 16TiB"`
	// Time for one fetch, push or import. A push ends no later than deadline.push, an import than
	// deadline.repo.
	Timeout time.Duration `yaml:"timeout" default:"10m" bounds:"1s to 24h"`
	// Memory of one process of git's. It is address space, which is more than what is used; where
	// the system cannot limit that there is no limit.
	Memory Size `yaml:"memory" default:"2GiB" bounds:"64MiB to 1TiB"`
	// Fetches, pushes and imports at a time; more wait. Half are for fetches, half for pushes and
	// imports, and a quarter of that at most for imports. Tenants share each by
	// limits.tenant_share; fewer than 4 are not divided. A push counts once its pack has arrived.
	Processes int `yaml:"processes" default:"32" bounds:"1 to 10000"`
}

// Rules is how traffic rules are written.
type Rules struct {
	// Whether the agent API accepts operations, over HTTP and NATS: true or false. If false, rules
	// cannot be changed; existing rules stay in force.
	AgentAPI bool `yaml:"agent_api" default:"true"`
	Limit    int  `yaml:"limit" default:"1000" bounds:"1 to 1000"` // Rules that one tenant may have.
}

// Policy says what may leave. Nothing else does.
type Policy struct {
	Timeout time.Duration `yaml:"timeout" default:"30s" bounds:"100ms to 10m"` // Time for one outbound attempt.
	// Hosts that need no entry: host, host:port, .example.com (its subdomains) or scheme://host.
	// Default none; in open mode without entries localhost, 127.0.0.1 and ::1.
	// HTTP_EXECUTOR_ALLOWED_HOSTS overrides it.
	AllowedHosts []string `yaml:"allowed_hosts" env:"WEIR_POLICY_ALLOWED_HOSTS,HTTP_EXECUTOR_ALLOWED_HOSTS"`
	// The entries, in the order in which they are tried. Default none. A later entry of the same
	// name replaces the earlier one.
	Allowlist []policy.Entry `yaml:"allowlist"`
	opaque
}

// Proxy is the forward proxy, for clients that cannot be given another base URL.
type Proxy struct {
	// The address of the proxy, host:port. Default none: there is no proxy. Only a loopback address
	// may be used without tokens.
	Listen string `yaml:"listen"`
	// File with the certificate of the CA, in PEM, that the proxy signs certificates of hosts with. An
	// entry with connect: inspect needs it, and its clients must trust it. Default none.
	CACert string `yaml:"ca_cert"`
	CAKey  string `yaml:"ca_key"` // File with the key of ca_cert, in PEM. Required with it.
	// Time after which a tunnel ends if nothing passes through it.
	Idle    time.Duration `yaml:"idle" default:"5m" bounds:"1s to 24h"`
	Longest time.Duration `yaml:"longest" default:"24h" bounds:"1s to 720h"`   // Time after which any tunnel ends.
	Tunnels int           `yaml:"tunnels" default:"1000" bounds:"1 to 100000"` // Tunnels open at a time on this node.
	// Tunnels open at a time for one token. In open mode there is only the limit of all.
	TunnelsPerToken int `yaml:"tunnels_per_token" default:"250" bounds:"1 to 100000"`
}

// Secrets is where ${secret:NAME} comes from.
type Secrets struct {
	// Directory with one file for each secret, named like it. Default none: the environment alone,
	// as WEIR_SECRET_NAME.
	Dir string `yaml:"dir"`
	// File of secrets encrypted with age: once decrypted, a YAML mapping of names to values. It
	// comes after the environment and the directory. Default none.
	AgeFile     string `yaml:"age_file"`
	AgeIdentity string `yaml:"age_identity"` // File with the age identity that decrypts it. Required with age_file.
}

// Telemetry is what Weir says about itself.
type Telemetry struct {
	// The least that is logged: debug, info, warn or error.
	LogLevel string `yaml:"log_level" env:"WEIR_LOG_LEVEL" jsonschema:"enum=debug,enum=info,enum=warn,enum=error" default:"info"`
	// How the log and warnings are written: json or text. Default text on a terminal, else json.
	LogFormat string `yaml:"log_format" env:"WEIR_LOG_FORMAT" jsonschema:"enum=json,enum=text"`
	OTLP      OTLP   `yaml:"otlp"` // Traces of requests, actions and calls.
}

// OTLP is where traces go.
type OTLP struct {
	// Base URL of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318; /v1/traces
	// is added to it. Headers for it, such as a credential, are taken from
	// OTEL_EXPORTER_OTLP_HEADERS. Default none: no traces.
	Endpoint string `yaml:"endpoint"`
}
