package config

import (
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/policy"
	"weir/schemas"
)

// check notes everything in c that cannot work, c having its defaults.
func (r *reader) check(c *Config) {
	leaves(field{value: reflect.ValueOf(c).Elem()}, true, r.checkField)
	if r.checkAddress("listen", c.Listen) {
		r.refuse(c.Open() && !Loopback(c.Listen), "auth.mode", "is open and other machines can reach %s without a token; "+
			"use tokens, or listen on a loopback address such as 127.0.0.1:8092", c.Listen)
	}
	_, _, rate := schemas.ParseRate(c.Auth.Rate)
	r.refuse(!rate, "auth.rate", "is not a count a second, minute or hour, such as 500/s")
	r.refuse(c.Data == "" && c.Embedded(), "data", "is empty; name the directory of the log")
	r.refuse(c.Git.Program == "", "git.program", "is empty; name git, or its path")
	age := c.Secrets
	r.refuse(age.AgeFile != "" && age.AgeIdentity == "", "secrets.age_identity",
		"is missing; name the file with the identity that decrypts secrets.age_file")
	r.refuse(age.AgeFile == "" && age.AgeIdentity != "", "secrets.age_file",
		"is missing; name the encrypted file, or remove secrets.age_identity")
	for i, name := range c.RedactHeaders {
		r.refuse(!httpguts.ValidHeaderFieldName(name) || len(name) > 128, item("redact_headers", i),
			"is not the name of a header; write letters, digits and hyphens")
	}
	if c.PublicURL != "" && r.checkURL("public_url", c.PublicURL, "every user of a repository's URL would see it; leave it out") {
		u, err := url.Parse(c.PublicURL)
		r.refuse(err == nil && u.Path != "" && u.Path != "/", "public_url",
			"has a path; Weir is served at the root of a host, so leave it out")
	}
	if to := c.Telemetry.OTLP.Endpoint; to != "" {
		r.checkURL("telemetry.otlp.endpoint", to, "give the collector's credential in OTEL_EXPORTER_OTLP_HEADERS", "/v1/traces")
	}
	r.checkLog(c)
	r.checkNATS(c)
	r.checkPolicy(c)
	r.checkProxy(c)
	r.checkBudgets(c)
}

// checkField checks a value by the tags of its key. A default is not checked.
func (r *reader) checkField(f field) {
	if words := f.words(); len(words) > 0 && r.has(f.path) {
		most := len(words) - 1
		check := func(path, word string) {
			r.refuse(!slices.Contains(words, word), path, "has no such value; use %s or %s",
				strings.Join(words[:most], ", "), words[most])
		}
		if f.value.Kind() == reflect.String {
			check(f.path, f.value.String())
		} else {
			for i := range f.value.Len() {
				check(item(f.path, i), f.value.Index(i).String())
			}
		}
	}
	r.refuse(r.has(f.path) && !f.within(), f.path, "is %s; use %s", r.given[f.path].text, f.tag.Get("bounds"))
}

// checkAddress checks the form host:port.
func (r *reader) checkAddress(key, address string) bool {
	_, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	return !r.refuse(err != nil || bad != nil || strconv.FormatUint(n, 10) != port, key,
		"is not an address; write host:port with a port of 0 to 65535, such as 127.0.0.1:8092")
}

// checkURL checks the form of an http URL to which routes may be added. The text is not repeated: it
// may hold a credential by mistake, for which there is the advice.
func (r *reader) checkURL(key, raw, advice string, routes ...string) bool {
	u, err := url.Parse(raw)
	if r.refuse(raw == "", key, "is missing; write where it is, such as https://host.example") ||
		r.refuse(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "", key,
			"is not a URL that begins with http:// or https:// and a host, such as https://host.example") ||
		r.refuse(u.User != nil, key, "holds a user name or a password; %s", advice) ||
		r.refuse(strings.ContainsAny(raw, "?#"), key, "has a query or a fragment; leave it out") {
		return false
	}
	raw = strings.TrimRight(raw, "/")
	return !slices.ContainsFunc(routes, func(route string) bool {
		return r.refuse(strings.HasSuffix(raw, route), key, "ends in a route that is added to it; leave out %s", route)
	})
}

func (r *reader) checkLog(c *Config) {
	l, d := c.Log, c.Deadline
	longest := max(d.HTTP, d.Passthrough, d.Plan, d.Run, d.Task, d.Push, d.Repo, d.Chat)
	r.refuse(c.LongestAction() < longest && l.History >= time.Hour, "log.history", "leaves no time after the longest deadline, %s, "+
		"to end an action before it is forgotten; with this history a deadline may be %s at most",
		short(longest), short(c.LongestAction().Truncate(time.Second)))
	replicated := l.Durability == schemas.DurabilityReplicated
	if c.Embedded() {
		r.refuse(replicated, "log.durability", "replicated needs an external cluster; set nats.url, or use disk or process")
		r.refuse(l.Replicas != 1, "log.replicas", "is %d, and the embedded server keeps one copy; set nats.url, or use 1", l.Replicas)
		return
	}
	r.refuse(l.Durability == schemas.DurabilityDisk, "log.durability",
		"disk is what the embedded server can promise; with nats.url use replicated or process")
	r.refuse(!slices.Contains([]int{1, 3, 5}, l.Replicas), "log.replicas", "is %d; use 1, 3 or 5", l.Replicas)
	r.refuse(l.Replicas == 1 && replicated, "log.replicas", "one copy is not replicated; use 3, or durability process")
	r.warn(l.Replicas == 1, "log.replicas",
		"is 1: the loss of a server is the loss of what it had of the log; use 3 for anything that counts")
}

func (r *reader) checkNATS(c *Config) {
	n := c.NATS
	r.refuse((n.TLS.Cert == "") != (n.TLS.Key == ""), "nats.tls", "has one of cert and key; a certificate takes both")
	if c.Embedded() {
		const external = "is for an external cluster; set nats.url or remove it"
		r.refuse(n.Creds != "", "nats.creds", external)
		r.refuse(n.TLS != (NATSTLS{}), "nats.tls", external)
		if n.Listen != "" && r.checkAddress("nats.listen", n.Listen) {
			r.refuse(n.Listen == c.Listen && !strings.HasSuffix(c.Listen, ":0"), "nats.listen",
				"is the address of listen; give it a port of its own")
		}
		return
	}
	r.refuse(n.Listen != "", "nats.listen", "is for the embedded server; remove it or nats.url")
	for address := range strings.SplitSeq(n.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(address)) // the text is not repeated: it may hold a password by mistake
		if r.refuse(err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme), "nats.url",
			"is not a list of URLs such as nats://host:4222,nats://other:4222; the schemes are nats, tls, ws and wss") ||
			r.refuse(u.User != nil, "nats.url", "holds a user name or a token; put credentials in a file and name it in nats.creds") {
			return
		}
	}
}

// checkProxy checks the proxy, and whether it can do what the entries say.
func (r *reader) checkProxy(c *Config) {
	p := c.Proxy
	r.refuse((p.CACert == "") != (p.CAKey == ""), "proxy", "has one of ca_cert and ca_key; a CA takes both")
	if p.Listen == "" || !r.checkAddress("proxy.listen", p.Listen) {
		return
	}
	for _, other := range []string{c.Listen, c.NATS.Listen} {
		r.refuse(p.Listen == other && !strings.HasSuffix(other, ":0"), "proxy.listen", "is the address of another listener; give it a port of its own")
	}
	r.refuse(c.Open() && !Loopback(p.Listen), "proxy.listen", "is open and other machines can reach %s without a token; "+
		"set auth.mode to tokens, or use a loopback address such as 127.0.0.1:8093", p.Listen)
	for i, e := range c.Policy.Allowlist {
		r.refuse(e.Connect == policy.ConnectInspect && p.CACert == "", item("policy.allowlist", i)+".connect",
			"is inspect, and there is no CA for it; set proxy.ca_cert and proxy.ca_key, or use tunnel")
	}
}

// checkPolicy has policy check each entry, host, agent and model by itself, so that every mistake is
// reported with its line.
func (r *reader) checkPolicy(c *Config) {
	for i, e := range c.Policy.Allowlist {
		key := item("policy.allowlist", i)
		r.noteProblems(key, policy.Config{Entries: []policy.Entry{e}}, nil)
		replaced := func(old policy.Entry) bool {
			return old.Name == e.Name && (old.Mode == policy.ModeShadow) == (e.Mode == policy.ModeShadow)
		}
		r.warn(slices.ContainsFunc(c.Policy.Allowlist[:i], replaced), key+".name",
			"is the name of an earlier entry, which this one replaces; remove one, or give it another name")
		r.checkReach(key+".url_prefix", e.URLPrefix, "every call of it will be denied with "+string(schemas.DenyAddress), e)
		r.warn(e.Retry != nil && e.Retry.Attempts > 1 && e.Retry.Base >= c.Deadline.HTTP, key+".retry.base",
			"is not below deadline.http, %s: no call is repeated", short(c.Deadline.HTTP))
		r.checkLiterals(key+".headers", e.Headers)
		r.checkLiterals(key+".query", e.Query)
		r.checkLiterals(key+".body", e.Body)
		const open = "is *: callers can set whatever says as whom or for whom a call with this entry's credentials is made; " +
			"name what they need"
		r.warn(slices.Contains(e.CallerHeaders, "*"), key+".caller_headers", open)
		r.warn(slices.Contains(e.CallerParams, "*"), key+".caller_params", open)
	}
	for i, host := range c.Policy.AllowedHosts {
		r.noteProblems(item("policy.allowed_hosts", i), policy.Config{AllowedHosts: []string{host}}, nil)
	}
	r.checkAgents(c)
	r.checkModels(c)
}

// variable is a text that looks like a variable of a shell.
var variable = regexp.MustCompile(`\$[A-Za-z_]`)

// checkLiterals warns about added values that look like a variable, which Weir does not fill in. A value is not
// repeated: it may be a credential.
func (r *reader) checkLiterals(key string, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		r.warn(variable.MatchString(values[name]), join(key, name),
			"contains a $ before a name, which is sent as it is; write ${secret:NAME} for a secret")
	}
}

// policyProblem is a line of what policy says of one entry: after its name or number, the key and the
// mistake.
var policyProblem = regexp.MustCompile(`^(?:entry (?:\d+|"(?:[^"\\]|\\.)*"): (?:([a-z_]+): )?)?(.*)$`)

// noteProblems notes what policy says of one entry or host under the path of it. Names are other names of
// the entry's keys there; one with an empty name was checked before.
func (r *reader) noteProblems(path string, c policy.Config, names map[string]string) {
	_, err := policy.Compile(c)
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "policy: "), "\n") {
		parts := policyProblem.FindStringSubmatch(line)
		key, other := names[parts[1]]
		if !other {
			key = parts[1]
		}
		r.refuse(key != "" || !other, strings.TrimSuffix(path+"."+key, "."), "%s", parts[2])
	}
}
