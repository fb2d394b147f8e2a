//go:build e2e

package corpus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// lane is a whole Weir under one policy, on a data directory of its own. Rows
// pass through it one after the other, each with its own far side.
type lane struct {
	url    string
	dir    string
	log    capture.Buffer
	yaml   atomic.Pointer[string]
	stage  atomic.Pointer[stage]
	client *http.Client
}

// caseSecret is the name under which a row's secret is kept.
const caseSecret = "CASE"

// patience bounds one request to Weir: above all that a row may take.
const patience = 150 * time.Second

// newLane starts a Weir with a row's policy and secret.
func newLane(t *testing.T, r *outboundRow, authority *upstream.Authority) *lane {
	t.Helper()
	return newLaneIn(t, t.TempDir(), r, authority)
}

// newLaneIn starts it on a directory.
func newLaneIn(t *testing.T, dir string, r *outboundRow, authority *upstream.Authority) *lane {
	t.Helper()
	l := &lane{dir: dir, client: &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}}
	l.configure(r, r.Policy)
	cfg, err := l.load()
	require.NoError(t, err)
	a, err := app.New(t.Context(), app.Options{
		Config: cfg, Load: l.load, Log: &l.log,
		Environ: []string{"WEIR_SECRET_" + caseSecret + "=" + r.secret(), "NATS_PASSWORD=NATS_PASSWORD_VALUE"},
		Network: app.Network{Resolver: l, Dial: l.dial, RootCAs: authority.Pool()},
	})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	l.url = a.URL()
	t.Cleanup(func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	return l
}

func (l *lane) load() (config.Config, error) {
	return config.Parse("case.yaml", []byte(*l.yaml.Load()), nil, nil)
}

// configure writes the configuration for a policy.
func (l *lane) configure(r *outboundRow, p outboundPolicy) {
	s := string(r.configuration(l.dir, p))
	l.yaml.Store(&s)
}

// listeners numbers the addresses of nodes that must listen on a port of the row's.
var listeners atomic.Uint32

// listen is where the row's node listens: on the port of the row's URL if the row says
// that the port is Weir's own. Each such node has a loopback address to itself.
func (r *outboundRow) listen() string {
	if port := r.ownPort(); port != 0 {
		n := listeners.Add(1)
		return fmt.Sprintf("127.77.%d.%d:%d", n>>8&255, n&255, port)
	}
	return "127.0.0.1:0"
}

// ownPort is the port of the row's URL if it is one of self_ports, or 0.
func (r *outboundRow) ownPort() int {
	u, err := url.Parse(r.url())
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	if !slices.Contains(r.Policy.SelfPorts, port) {
		return 0
	}
	return port
}

// configuration is a row's, with its data at dir. JSON is YAML.
func (r *outboundRow) configuration(dir string, p outboundPolicy) []byte {
	timeout := "30s"
	if r.hurried() {
		timeout = "2s"
	}
	hosts := p.AllowedHosts
	if hosts == nil {
		hosts = []string{}
	}
	doc, err := json.Marshal(map[string]any{
		"listen": r.listen(), "data": dir,
		"log":       map[string]any{"durability": "process"},
		"telemetry": map[string]any{"log_level": "debug"},
		// Larger than policy's own bound, so that policy is what refuses.
		"limits": map[string]any{"body": "4MiB"},
		"policy": map[string]any{"timeout": timeout, "allowed_hosts": hosts, "allowlist": r.entries(p)},
	})
	if err != nil {
		panic("a configuration that is not JSON: " + err.Error())
	}
	return doc
}

// hurried rows are about an answer that trickles, which the time of an attempt
// ends: two seconds of it show the same as thirty.
func (r *outboundRow) hurried() bool {
	switch r.Upstream.Behaviour {
	case "slow_headers", "slow_body", "half_close_no_response":
		return true
	case "accept_hang": // with TLS it hangs in the handshake, which has a time of its own
		return r.scheme() == "http"
	}
	return false
}

// secret is what the row's entry adds to its calls. A row whose upstream tells
// a secret that no entry has is about a secret all the same: its entry gets it.
func (r *outboundRow) secret() string {
	if s := text(r.Assert["secret_value"]); s != "" {
		return s
	}
	var lost []string
	if json.Unmarshal(r.Assert["absent_everywhere"], &lost) == nil && len(lost) > 0 && strings.Contains(r.Upstream.body(), lost[0]) {
		return lost[0]
	}
	return "a-secret-that-no-row-speaks-of"
}

// entries are a policy's entries as the configuration has them.
func (r *outboundRow) entries(p outboundPolicy) []map[string]any {
	list := []map[string]any{}
	for _, e := range p.Entries {
		entry := map[string]any{}
		for key, value := range e {
			switch key {
			case "secret":
				var s struct {
					Header string `json:"header"`
					Format string `json:"format"`
				}
				_ = json.Unmarshal(value, &s)
				entry["headers"] = map[string]string{s.Header: strings.ReplaceAll(s.Format, "{value}", "${secret:"+caseSecret+"}")}
			case "upstream_idempotency":
				var i struct {
					TTL float64 `json:"ttl_s"`
				}
				_ = json.Unmarshal(value, &i)
				entry[key] = map[string]string{"ttl": fmt.Sprintf("%gs", i.TTL)}
			default:
				entry[key] = value
			}
		}
		if e["secret"] == nil && r.secret() != "a-secret-that-no-row-speaks-of" {
			entry["headers"] = map[string]string{"X-Upstream-Key": "${secret:" + caseSecret + "}"}
		}
		list = append(list, entry)
	}
	return list
}

// LookupNetIP asks the far side that is on stage now.
func (l *lane) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return l.stage.Load().network.LookupNetIP(ctx, network, host)
}

func (l *lane) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.stage.Load().network.Dial(ctx, network, address)
}

// reply is an answer of Weir's.
type reply struct {
	status int
	header http.Header
	body   string
}

func (l *lane) ask(t *testing.T, method, path, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, l.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := l.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, string(data)}
}

// get reads a JSON document.
func (l *lane) get(t *testing.T, path string, into any) string {
	t.Helper()
	r := l.ask(t, http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, r.status, "%s: %s", path, r.body)
	require.NoError(t, json.Unmarshal([]byte(r.body), into), path)
	return r.body
}

// events reads the history of an action that has ended, beyond its end too.
func (l *lane) events(t *testing.T, id string) (all []schemas.EventView, raw string) {
	t.Helper()
	for after := ""; ; {
		var p schemas.Page[schemas.EventView]
		raw += l.get(t, "/v1/actions/"+id+"/events?limit=1000"+after, &p)
		all = append(all, p.Items...)
		if len(p.Items) == 0 || p.Next == "" {
			return all, raw
		}
		after = "&after=" + p.Next
	}
}
