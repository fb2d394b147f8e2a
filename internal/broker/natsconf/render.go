package natsconf

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"weir/internal/broker/access"
	"weir/schemas"
)

// account is the name of Weir's account, and system that of the servers' own.
const (
	account = "WEIR"
	system  = "SYS"
)

// serverConf is one server's nats.conf.
func serverConf(p Plan, s Server, at string) string {
	listen := "0.0.0.0"
	if net.ParseIP(s.Host) != nil {
		listen = s.Host
	}
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Written by `weir nats init`, which writes it again: put what is your own in another file.")
	say("server_name: %q", s.Name)
	say("listen: %q", net.JoinHostPort(listen, strconv.Itoa(s.Port)))
	say("client_advertise: %q", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
	say("max_payload: 8MB")
	say("")
	say("# Nobody speaks to a server without TLS.")
	say("tls: {cert_file: %q, key_file: %q, ca_file: %q, min_version: \"1.3\"}", path.Join(at, "cert.pem"), path.Join(at, "key.pem"), path.Join(at, "ca.pem"))
	say("")
	say("jetstream: {")
	say("  store_dir: %q", path.Join(at, "data"))
	say("  max_file_store: %d", p.Store)
	say("  max_memory_store: %d", 64<<20)
	say("  # With three replicas the servers sync many messages at once: it costs less than it sounds.")
	say("  sync_interval: always")
	say("}")
	if len(p.Servers) > 1 {
		say("")
		say("# Servers know each other by certificates of the authority: issue none of them to clients.")
		say("cluster: {")
		say("  name: weir")
		say("  listen: %q", net.JoinHostPort(listen, strconv.Itoa(s.Route)))
		say("  no_advertise: true")
		say("  tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true, min_version: \"1.3\"}", path.Join(at, "cert.pem"), path.Join(at, "key.pem"), path.Join(at, "ca.pem"))
		say("  routes: [")
		for _, other := range p.Servers {
			if other.Name != s.Name {
				say("    %q", other.route())
			}
		}
		say("  ]")
		say("}")
	}
	say("")
	say("include \"accounts.conf\"")
	return b.String()
}

// accountsConf is the same on all servers.
func accountsConf(s state) string {
	var w writer
	w.line("# Written by `weir nats init` and `weir nats tenant`. Who may do what, and why.")
	w.line("accounts: {")
	w.line("%s: {", account)
	w.line("jetstream: enabled")
	w.line("users: [")
	for _, r := range access.Roles() {
		w.user(string(r), s.Users[string(r)], access.Of(r, s.Partitions))
	}
	w.line("]")
	w.exports()
	w.line("}")
	for _, t := range s.Tenants {
		w.tenant("OBSERVER_", t.Name, t.Observer, access.Observer(t.Name))
		w.tenant("AGENT_", t.Name, t.Agent, access.Agent(t.Name))
	}
	w.line("# For whoever looks after the servers.")
	w.line("%s: {users: [{nkey: %s}]}", system, s.Users[systemUser])
	w.line("}")
	w.line("system_account: %s", system)
	return w.String()
}

// writer writes configuration with an indent.
type writer struct {
	strings.Builder
	depth int
}

func (w *writer) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strings.HasPrefix(text, "}") || strings.HasPrefix(text, "]") {
		w.depth--
	}
	_, _ = w.WriteString(strings.Repeat("  ", w.depth) + text + "\n") // a builder takes everything
	if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") {
		w.depth++
	}
}

func (w *writer) user(name, key string, p access.Permissions) {
	w.line("# %s", name)
	w.line("{")
	w.line("nkey: %s", key)
	w.line("permissions: {")
	w.rules("publish", p.Publish)
	w.rules("subscribe", p.Subscribe)
	if p.Replies {
		w.line("# answer requests")
		w.line(`allow_responses: {max: 1, expires: "1m"}`)
	}
	w.line("}")
	w.line("}")
}

func (w *writer) rules(side string, rules []access.Rule) {
	w.line("%s: {allow: [", side)
	for _, r := range rules {
		w.line("# %s", r.Why)
		for _, s := range r.Subjects {
			w.line("%q", s)
		}
	}
	w.line("]}")
}

func (w *writer) exports() {
	streams, services, streamed := access.Exports()
	w.line("# What tenants' accounts import their own parts of.")
	w.line("exports: [")
	for _, s := range streams {
		w.line("{stream: %q}", s)
	}
	for _, s := range services {
		w.line("{service: %q}", s)
	}
	for _, s := range streamed {
		w.line("{service: %q, response_type: stream}", s)
	}
	w.line("]")
}

// tenantLimits bound what the programs of one tenant can take of the servers.
const tenantLimits = "limits: {max_conn: 64, max_subs: 1024, max_payload: 1MB}"

func (w *writer) tenant(prefix, name, key string, a access.Account) {
	w.line("%q: {", prefix+schemas.EscapeToken(name))
	w.line(tenantLimits)
	w.line("users: [")
	w.user(strings.ToLower(strings.TrimSuffix(prefix, "_"))+" of "+schemas.EscapeToken(name), key, a.Permissions)
	w.line("]")
	w.line("imports: [")
	for _, s := range a.Streams {
		w.line("{stream: {account: %s, subject: %q}}", account, s)
	}
	for _, s := range a.Services {
		w.line("{service: {account: %s, subject: %q}}", account, s)
	}
	w.line("]")
	w.line("}")
}
