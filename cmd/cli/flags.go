package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/client"
	"weir/schemas"
)

// api is a running Weir, as one command uses it.
type api struct {
	*client.Client
	Streams

	asJSON bool
}

// clientFlags are the flags of each command that calls a running Weir.
type clientFlags struct {
	server    string
	tokenFile string
	asJSON    bool
	// fallback is a file with a token that need not be there.
	fallback string
	// words has a refusal said in words with --json too.
	words bool
}

func (f *clientFlags) register(cmd *cobra.Command, env *Env) {
	registerServer(cmd, env, &f.server)
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the token to send (default $WEIR_TOKEN)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one document a line")
}

func registerServer(cmd *cobra.Command, env *Env, server *string) {
	cmd.Flags().StringVar(server, "server", env.serverURL(), "the URL of the Weir ($WEIR_URL)")
}

// command completes a command that calls a running Weir: it has the flags, and run has the client.
func (f *clientFlags) command(env *Env, cmd *cobra.Command, run apiFunc) *cobra.Command {
	f.register(cmd, env)
	cmd.RunE = f.runs(env, run)
	return cmd
}

// apiFunc is what a command does with a running Weir.
type apiFunc func(ctx context.Context, c *api, args []string) error

func (f *clientFlags) runs(env *Env, run apiFunc) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.client(env)
		if err != nil {
			return err
		}
		return f.refused(env, run(cmd.Context(), c, args))
	}
}

// refused prints an answer of the server that is an error, in the form that was asked for.
func (f *clientFlags) refused(env *Env, err error) error {
	var raw json.RawMessage
	if no, refused := errors.AsType[*agentError](err); refused {
		raw = no.raw
	} else if no, refused := errors.AsType[*client.Error](err); refused {
		raw = no.Body
	}
	if raw == nil || !f.asJSON || f.words {
		return err
	}
	fmt.Fprintf(env.Err, "%s\n", bytes.TrimSpace(raw))
	return exitError{code: exitCode(err)}
}

func (f *clientFlags) client(env *Env) (*api, error) {
	token, err := f.token(env)
	if err != nil {
		return nil, err
	}
	c, err := client.New(f.server, token)
	if err != nil {
		return nil, usageError{fmt.Errorf("--server %w", err)}
	}
	return &api{c, env.Streams, f.asJSON}, nil
}

// token is what the file holds, or the environment, or the fallback; nothing
// where there is none, for a server may be open.
func (f *clientFlags) token(env *Env) (string, error) {
	if f.tokenFile != "" {
		return readToken("--token-file", f.tokenFile, " \t\r\n")
	}
	if token := env.Lookup("WEIR_TOKEN", ""); token != "" || f.fallback == "" {
		return token, nil
	}
	token, err := readToken("--token-file", f.fallback, " \t\r\n")
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return "", nil // it need not be there
	}
	return token, err
}

// readToken reads a file that holds one token and nothing else, which a flag names. The token has none of the
// characters of not.
func readToken(flag, name, not string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, not) {
		return "", usageError{fmt.Errorf("%s does not hold one token", name)}
	}
	return token, nil
}

// serverURL is the Weir that is called if no flag names another.
func (e *Env) serverURL() string { return e.Lookup("WEIR_URL", "http://127.0.0.1:8092") }

// Lookup is a variable of the environment, or other.
func (e *Env) Lookup(name, other string) string {
	for _, kv := range e.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name && v != "" {
			return v
		}
	}
	return other
}

// Terminal reports whether w shows its output to a person.
func Terminal(w io.Writer) bool {
	f, ok := Unescaped(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// The most that is read of a text, and of a document.
const (
	maxText  = 1 << 20
	maxInput = 64 << 20
)

// read reads a file of at most some bytes; of the name -, standard input.
func (s *Streams) read(name string, most int64) ([]byte, error) {
	in := s.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		if name == "-" {
			name = "standard input"
		}
		err = fmt.Errorf("%s has more than %d MiB", name, most>>20)
	}
	if err != nil {
		return nil, usageError{err}
	}
	return data, nil
}

// text is a text that is given as such, in a @FILE or, for -, on standard input.
func (s *Streams) text(text string) (string, error) {
	name, file := strings.CutPrefix(text, "@")
	if !file && text != "-" {
		return text, nil
	}
	data, err := s.read(name, maxText)
	return string(data), err
}

// document is a JSON text given on the command line, as @FILE in a file, or as @-
// on standard input.
func (s *Streams) document(what, text string) (json.RawMessage, error) {
	data := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = s.read(name, maxInput); err != nil {
			return nil, err
		}
	}
	var doc json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		what = strings.ReplaceAll(what, "_", " ")
		if text := strings.TrimSpace(string(data)); text == "" || strings.ContainsRune(`{["`, rune(text[0])) {
			return nil, usageError{fmt.Errorf("the %s is not JSON: %w", what, err)}
		}
		hint := "a JSON string has quotes: '\"text\"'"
		if what == "body" {
			hint += "; other bodies are sent with --data-binary, --data-urlencode or -F"
		}
		return nil, usageError{fmt.Errorf("the %s is not JSON; %s", what, hint)}
	}
	return data, nil
}

// looseDocument is a document whose file needs no @, and whose standard input is - alone.
func (s *Streams) looseDocument(what, text string) (json.RawMessage, error) {
	switch first := strings.TrimLeft(text, " \t\r\n"); {
	case text == "-":
		text = "@-"
	case first != "" && strings.ContainsRune(`{["`, rune(first[0])), strings.HasPrefix(text, "@"):
	default:
		text = "@" + text
	}
	return s.document(what, text)
}

// headersOf reads headers of the form 'Name: value'; nil: there are none.
func headersOf(all []string) (headers map[string]string, err error) {
	for _, h := range all {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, usageError{fmt.Errorf("-H %q has no colon; write -H 'Name: value'", h)}
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return headers, nil
}

// beginFlags say when what a command asks for begins.
type beginFlags struct {
	delay, notBefore, priority string
}

func (f *beginFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.delay, "delay", "", "begin this much later, such as 30s or 1h30m; not with --not-before")
	flags.StringVar(&f.notBefore, "not-before", "", "begin at this time at the earliest, such as 2026-01-31T09:00:00Z")
	flags.StringVar(&f.priority, "priority", "", "high: run before waiting actions of normal priority (default normal)")
}

// header adds the flags to a request's header. It refuses values that the server would
// refuse, and names the flag.
func (f *beginFlags) header(h http.Header) error {
	_, notTime := time.Parse(time.RFC3339, f.notBefore)
	delay, notDelay := time.ParseDuration(f.delay)
	var err error
	switch {
	case f.delay != "" && (notDelay != nil || delay < 0):
		err = fmt.Errorf("--delay %q is not a duration such as 30s, 5m or 1h30m", f.delay)
	case f.notBefore != "" && notTime != nil:
		err = fmt.Errorf("--not-before %q is not a time with its zone, such as 2026-01-31T09:00:00Z or 2026-01-31T09:00:00+01:00", f.notBefore)
	case f.priority != "" && !schemas.Priority(f.priority).Valid():
		err = fmt.Errorf("--priority %q is neither high nor normal", f.priority)
	case f.delay != "" && f.notBefore != "":
		err = errors.New("--delay and --not-before say the same in two ways; give one of them")
	}
	if err != nil {
		return usageError{err}
	}
	setAll(h, schemas.HeaderDelay, f.delay, schemas.HeaderNotBefore, f.notBefore, schemas.HeaderPriority, f.priority)
	return nil
}

// setAll sets the headers that have a value, from names and values in turn.
func setAll(h http.Header, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h.Set(pairs[i], pairs[i+1])
		}
	}
}
