package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/ledger"
	"weir/schemas"
)

// client talks to a running Weir on behalf of a subcommand.
type client struct {
	base  string
	token string
	http  *http.Client
}

// clientFlags are the flags that every such subcommand has.
type clientFlags struct {
	server    string
	tokenFile string
	asJSON    bool
	// fallback is a file with a token that need not be there.
	fallback string
}

func (f *clientFlags) register(cmd *cobra.Command, env *environment) {
	cmd.Flags().StringVar(&f.server, "server", env.lookup("WEIR_URL", "http://127.0.0.1:8092"), "the Weir to talk to ($WEIR_URL)")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the token to send (default $WEIR_TOKEN)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one document a line")
}

func (f *clientFlags) client(env *environment) (*client, error) {
	u, err := url.Parse(f.server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usageError{fmt.Errorf("--server %q is not an http or https URL", f.server)}
	}
	token, err := f.token(env)
	if err != nil {
		return nil, err
	}
	// Weir sends nobody elsewhere; a token must not follow what does.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{base: strings.TrimRight(f.server, "/"), token: token, http: &http.Client{CheckRedirect: stay}}, nil
}

// token is what the file holds, or the environment, or the fallback; nothing
// where there is none, for a server may be open.
func (f *clientFlags) token(env *environment) (string, error) {
	name, must := f.tokenFile, true
	if name == "" {
		if token := env.lookup("WEIR_TOKEN", ""); token != "" || f.fallback == "" {
			return token, nil
		}
		name, must = f.fallback, false
	}
	data, err := os.ReadFile(name)
	if err != nil {
		if !must {
			return "", nil // it need not be there
		}
		return "", usageError{fmt.Errorf("--token-file: %w", err)}
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usageError{fmt.Errorf("%s does not hold one token", name)}
	}
	return token, nil
}

// lookup is a variable of the environment, or other.
func (e *environment) lookup(name, other string) string {
	for _, kv := range e.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name && v != "" {
			return v
		}
	}
	return other
}

// do sends one request. The answer's body is the caller's to close.
func (c *client) do(ctx context.Context, method, path string, header http.Header, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		data, err := ledger.Encode(body) // what it holds of documents goes as it is written
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, usageError{err}
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nobodyError{c.base}
	}
	return resp, err
}

// nobodyError says that nothing listens where a Weir should be: nothing was sent.
type nobodyError struct{ base string }

func (e nobodyError) Error() string {
	return fmt.Sprintf("nobody answers at %s: start one with `weir serve`, or name another with --server", e.base)
}

// call sends one request and reads the JSON document that answers it. A problem
// is returned as a *refusal.
func (c *client) call(ctx context.Context, method, path string, body, into any) error {
	return c.callWith(ctx, method, path, http.Header{}, body, into)
}

// callWith is call with more headers, to which it adds.
func (c *client) callWith(ctx context.Context, method, path string, header http.Header, body, into any) error {
	header.Set("Accept", "application/json")
	resp, err := c.do(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return problemOf(resp)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// refusal is an answer that is an error.
type refusal struct {
	status int
	text   string
	raw    json.RawMessage // the answer itself, if it is a problem
}

func (r *refusal) Error() string { return r.text }

// problemOf reads an error answer, and says it to a person.
func problemOf(resp *http.Response) error {
	var p schemas.Problem
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Title == "" {
		return &refusal{status: resp.StatusCode, text: "the server answered " + resp.Status}
	}
	if p.Detail == "" {
		p.Detail = p.Title
	}
	if hint := tokenHint(resp, p.Code); hint != "" {
		p.Detail += "; " + hint
	}
	return &refusal{resp.StatusCode, fmt.Sprintf("%s (%s)", p.Detail, p.Code), raw}
}

// tokenHint says what to do about a token that is missing or does not suffice.
func tokenHint(resp *http.Response, code schemas.Code) string {
	sent := resp.Request != nil && resp.Request.Header.Get("Authorization") != ""
	switch {
	case code == schemas.Unauthorized && sent:
		return "the token that was sent is unknown here, has expired or was revoked: an admin makes another with `weir token create`"
	case code == schemas.Unauthorized:
		return "set $WEIR_TOKEN or name a file with --token-file, such as the admin.token in the server's data directory; an admin makes others with `weir token create`"
	case code == schemas.Forbidden && sent:
		return "an admin makes a token that may with `weir token create`"
	default:
		return ""
	}
}

// terminal reports whether w shows its output to a person.
func terminal(w io.Writer) bool {
	f, ok := unescaped(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
