package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// check notes everything in c that cannot work, c having its defaults.
func (r *reader) check(c *Config) {
	r.checkAuth(c)
	if c.Data == "" && c.Embedded() {
		r.wrong("data", "is empty; name the directory of the log")
	}
	r.checkLog(c)
	r.checkNATS(c)
	between(r, "workers.slots", c.Workers.Slots, 1, 10_000)
	between(r, "workers.chats", c.Workers.Chats, 1, 100_000)
	if c.Workers.Drain != 0 {
		between(r, "workers.drain", duration(c.Workers.Drain), duration(time.Second), duration(time.Hour))
	}
	between(r, "limits.body", c.Limits.Body, 1<<10, 64<<20)
	between(r, "limits.chat", c.Limits.Chat, 64<<10, 64<<20)
	between(r, "limits.headers", c.Limits.Headers, 4<<10, 1<<20)
	between(r, "limits.response", c.Limits.Response, 1<<10, 64<<20)
	between(r, "limits.response_headers", c.Limits.ResponseHeaders, 4<<10, 1<<20)
	between(r, "limits.stream", c.Limits.Stream, 64<<10, 16<<30)
	between(r, "limits.queued", c.Limits.Queued, 0, 1_000_000_000)
	between(r, "limits.queued_per_tenant", c.Limits.QueuedPerTenant, 0, 1_000_000_000)
	between(r, "limits.answers", c.Limits.Answers, 16<<20, 1<<40)
	between(r, "limits.tenant_share", c.Limits.TenantShare, 1, 100)
	between(r, "limits.connections", c.Limits.Connections, 16, 1_000_000)
	between(r, "limits.connections_per_peer", c.Limits.ConnectionsPerPeer, 1, 1_000_000)
	r.checkDeadlines(c)
	r.checkPublicURL(c.PublicURL)
	r.checkGit(c)
	between(r, "rules.limit", c.Rules.Limit, 1, schemas.MaxRules)
	between(r, "policy.timeout", duration(c.Policy.Timeout), duration(100*time.Millisecond), duration(10*time.Minute))
	r.checkPolicy(c)
	r.checkBudgets(c)
	r.checkSecrets(c.Secrets)
	for i, name := range c.RedactHeaders {
		if !headerName(name) {
			r.wrong("redact_headers["+strconv.Itoa(i)+"]", "is not the name of a header; write letters, digits and hyphens")
		}
	}
	r.checkTelemetry(c.Telemetry)
}

// hostPort checks the form host:port.
func (r *reader) hostPort(key, address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		r.wrong(key, "is not an address; write host:port, such as 127.0.0.1:8092")
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		r.wrong(key, "has no port between 0 and 65535; write host:port, such as 127.0.0.1:8092")
		return false
	}
	return true
}

// leastHistory is how long events are kept at least.
const leastHistory = time.Hour

func (r *reader) checkLog(c *Config) {
	between(r, "log.partitions", c.Log.Partitions, 1, 64)
	if c.Log.MaxBytes != 0 && c.Log.MaxBytes < 16<<20 {
		r.wrong("log.max_bytes", "is below 16MiB; write at least that, or 0 for no limit")
	}
	switch longest := c.Deadline.longest(); {
	case c.Log.History < leastHistory:
		r.wrong("log.history", "is shorter than 1h; write at least that")
	case c.LongestAction() < longest:
		r.wrong("log.history", "leaves no time behind the longest deadline, %s, to end an action before it is forgotten; with this history a deadline may be %s at most",
			duration(longest), duration(c.LongestAction().Truncate(time.Second)))
	}
	r.oneOf("log.durability", string(c.Log.Durability),
		string(schemas.DurabilityDisk), string(schemas.DurabilityProcess), string(schemas.DurabilityReplicated))
	switch {
	case c.Embedded() && c.Log.Durability == schemas.DurabilityReplicated:
		r.wrong("log.durability", "replicated needs an external cluster; set nats.url, or use disk or process")
	case !c.Embedded() && c.Log.Durability == schemas.DurabilityDisk:
		r.wrong("log.durability", "disk is what the embedded server can promise; with nats.url use replicated or process")
	}
	switch {
	case c.Embedded() && c.Log.Replicas != 1:
		r.wrong("log.replicas", "is %d, and the embedded server keeps one copy; set nats.url, or use 1", c.Log.Replicas)
	case !slices.Contains([]int{1, 3, 5}, c.Log.Replicas):
		r.wrong("log.replicas", "is %d; use 1, 3 or 5", c.Log.Replicas)
	case !c.Embedded() && c.Log.Replicas == 1 && c.Log.Durability == schemas.DurabilityReplicated:
		r.wrong("log.replicas", "one copy is not replicated; use 3, or durability process")
	case !c.Embedded() && c.Log.Replicas == 1:
		c.warnings = append(c.warnings, "log.replicas: is 1: the loss of a server is the loss of what it had of the log; use 3 for anything that counts")
	}
}

func (r *reader) checkNATS(c *Config) {
	if c.NATS.Creds != "" && c.Embedded() {
		r.wrong("nats.creds", "is for an external cluster; set nats.url or remove it")
	}
	tls := c.NATS.TLS
	if tls != (NATSTLS{}) && c.Embedded() {
		r.wrong("nats.tls", "is for an external cluster; set nats.url or remove it")
	}
	if (tls.Cert == "") != (tls.Key == "") {
		r.wrong("nats.tls", "has one of cert and key; a certificate takes both")
	}
	if c.NATS.Listen != "" {
		if !c.Embedded() {
			r.wrong("nats.listen", "is for the embedded server; remove it or nats.url")
		} else if r.hostPort("nats.listen", c.NATS.Listen) && c.NATS.Listen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
			r.wrong("nats.listen", "is the address of listen; give it a port of its own")
		}
	}
	if c.Embedded() {
		return
	}
	for item := range strings.SplitSeq(c.NATS.URL, ",") {
		// The text is not repeated: a URL may hold a password by mistake.
		u, err := url.Parse(strings.TrimSpace(item))
		switch {
		case err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			r.wrong("nats.url", "is not a list of URLs such as nats://host:4222,nats://other:4222; the schemes are nats, tls, ws and wss")
			return
		case u.User != nil:
			r.wrong("nats.url", "holds a user name or a token; put credentials in a file and name it in nats.creds")
			return
		}
	}
}

func (r *reader) oneOf(key, value string, words ...string) {
	if !slices.Contains(words, value) {
		r.wrong(key, "is none of its words; use %s", strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	}
}

// number is what has an order and a form that the file takes.
type number interface{ ~int | ~int64 }

func between[T number](r *reader, key string, value, least, most T) {
	if value < least || value > most {
		r.wrong(key, "is %v; use %v to %v", value, least, most)
	}
}

// duration prints without the zero units that time.Duration has.
type duration time.Duration

func (d duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// headerName holds for a field name as RFC 9110 spells it.
func headerName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !plainByte(c) && strings.IndexByte("!#$%&'*+.^`|~", c) < 0 {
			return false
		}
	}
	return true
}
