package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weir/cmd/cli/envelope"
	"weir/cmd/cli/relay"
	"weir/schemas"
)

type relayFlags struct {
	url            string
	session        string
	relayTokenFile string
	lend           bool
}

func newRulesRelay(env *Env) *cobra.Command {
	var f relayFlags
	cmd := &cobra.Command{
		Use:   "relay --url ws://HOST",
		Short: "Serve the agent API through a WebSocket relay",
		Long: `Connect to a WebSocket relay and carry the requests of a session's agents to the agent API
of a running Weir, until interrupted. When the connection is lost it connects again.
Exit 1 if the relay refuses the token or the session, or if another relay client takes
the session over.

The relay's own token comes from --relay-token-file or $WEIR_RELAY_TOKEN. An agent's
token travels in its request, and Weir checks it. The token of $WEIR_TOKEN or
--token-file is not used, unless --lend-token adds it to requests without a token. Then
every agent in the session has the rights of that token.`,
		Example: `  weir rules relay --url ws://127.0.0.1:8787 --session s1
  WEIR_RELAY_TOKEN=… weir rules relay --url wss://relay.example.com --json`,
		Args: Exactly(0, "no arguments, but --url"),
	}
	cmd.Flags().StringVar(&f.url, "url", "", "the relay, a ws or wss URL")
	cmd.Flags().StringVar(&f.session, "session", "", "the session to serve (default a new one, which is printed)")
	cmd.Flags().StringVar(&f.relayTokenFile, "relay-token-file", "", "a file with the relay's token (default $WEIR_RELAY_TOKEN)")
	cmd.Flags().BoolVar(&f.lend, "lend-token", false, "send this client's own token with requests that have none")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error { return f.run(ctx, env, c) })
}

func (f *relayFlags) run(ctx context.Context, env *Env, c *api) error {
	cfg, err := f.config(env)
	if err != nil {
		return err
	}
	if f.lend && c.Token() == "" {
		return usagef("--lend-token: there is no token to lend; set $WEIR_TOKEN or name a file with --token-file")
	}
	addr, _ := netip.ParseAddr(cfg.URL.Hostname()) // the zero address for a name
	if cfg.URL.Scheme == "ws" && !addr.IsLoopback() && !strings.EqualFold(cfg.URL.Hostname(), "localhost") {
		fmt.Fprintln(env.Err, "weir: warning: tokens go over the network in clear; use a wss URL")
	}
	log := &relayLog{api: c, host: cfg.URL.Host}
	cfg.Notice, cfg.Ask = log.event, c.carry(f.lend)
	r := relay.New(cfg)
	err = r.Run(ctx)
	if dropped, unheard := r.Dropped.Load(), r.Unheard.Load(); dropped+unheard > 0 { // no other output reports them
		fmt.Fprintf(env.Err, "weir: %d messages could not be read and were dropped; %d answers had no receiver\n", dropped, unheard)
	}
	return err
}

// config is what the flags say of the relay.
func (f *relayFlags) config(env *Env) (cfg relay.Config, err error) {
	if f.url == "" {
		return cfg, usagef("--url names the relay, such as ws://127.0.0.1:8787; see `weir rules relay --help`")
	}
	if cfg.URL, err = relay.Address(f.url); err != nil {
		return cfg, usagef("--url: %w", err)
	}
	cfg.Token = env.Lookup("WEIR_RELAY_TOKEN", "") // Weir's own is never sent there
	if f.relayTokenFile != "" {
		if cfg.Token, err = readToken("--relay-token-file", f.relayTokenFile, "\r\n"); err != nil {
			return cfg, err
		}
	}
	if f.session == "" {
		f.session = "weir-" + rand.Text()
	}
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	if len(f.session) > 256 || !utf8.ValidString(f.session) || strings.ContainsFunc(f.session, control) {
		return cfg, usagef("--session is up to 256 bytes of text")
	}
	cfg.Session = f.session
	return cfg, nil
}

// relayWait is how long the answer to a relayed request may take, which is longer than the server
// takes.
const relayWait = 45 * time.Second

// carry sends a request of an agent's, as it came, and returns the answer. The
// client's own token goes along only where it is lent and the agent has none.
func (c *api) carry(lend bool) func(ctx context.Context, body []byte, tokened bool) ([]byte, error) {
	return func(ctx context.Context, body []byte, tokened bool) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, relayWait)
		defer cancel()
		header := http.Header{"Accept": {"application/json"}}
		resp, err := c.As(c.tokenFor(body, lend && !tokened)).Do(ctx, http.MethodPost, schemas.RouteAgentAPI, header, body)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		doc, err := io.ReadAll(io.LimitReader(resp.Body, maxAgentDoc+1))
		if err == nil && len(doc) > maxAgentDoc {
			err = errors.New("the answer is too large")
		}
		return doc, err
	}
}

// tokenFor is the token that a request is sent with: the client's own where it is lent, or else the
// request's, which a long one must have in its header.
func (c *api) tokenFor(body []byte, lent bool) string {
	if lent {
		return c.Token()
	}
	var token string
	outside := func(r rune) bool { return r <= ' ' || r > '~' }
	if json.Unmarshal(envelope.Find(body)["auth_token"], &token) != nil || strings.ContainsFunc(token, outside) {
		return ""
	}
	return token
}

// relayLog tells what happens: requests on standard output, the connection's fate
// on standard error; with --json all of it on standard output, one document a line.
type relayLog struct {
	*api
	host string
	mu   sync.Mutex
}

func (l *relayLog) event(e relay.Event) {
	to, text := l.Err, fmt.Sprintf("weir: %s; trying again in %s", e.Reason, e.Wait.Round(100*time.Millisecond))
	switch e.Event {
	case relay.Connected:
		text = fmt.Sprintf("weir: serving session %s at %s", e.Session, l.host)
	case relay.Unread:
		text = "weir: a message was dropped: " + e.Reason
	case relay.Served:
		to, text = l.Out, fmt.Sprintf("%-14s %-20s %s", e.Operation, e.Result, e.Took.Round(100*time.Microsecond))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asJSON {
		_ = PrintDocument(l.Out, e) // a closed output ends nothing, here and below
		return
	}
	fmt.Fprintln(to, text)
}
