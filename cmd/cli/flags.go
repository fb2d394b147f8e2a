package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/client"
	"weir/schemas"
)

// api is a running Weir, as the commands use it.
type api struct{ *client.Client }

// clientFlags are the flags that every such subcommand has.
type clientFlags struct {
	server    string
	tokenFile string
	asJSON    bool
	// fallback is a file with a token that need not be there.
	fallback string
}

func (f *clientFlags) register(cmd *cobra.Command, env *Env) {
	cmd.Flags().StringVar(&f.server, "server", env.Lookup("WEIR_URL", "http://127.0.0.1:8092"), "the Weir to talk to ($WEIR_URL)")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the token to send (default $WEIR_TOKEN)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one document a line")
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
	return &api{c}, nil
}

// token is what the file holds, or the environment, or the fallback; nothing
// where there is none, for a server may be open.
func (f *clientFlags) token(env *Env) (string, error) {
	name, must := f.tokenFile, true
	if name == "" {
		if token := env.Lookup("WEIR_TOKEN", ""); token != "" || f.fallback == "" {
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

// beginFlags say when what a command asks for begins.
type beginFlags struct {
	delay, notBefore, priority string
}

func (f *beginFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.delay, "delay", "", "begin this much later, such as 30s or 1h30m; not with --not-before")
	flags.StringVar(&f.notBefore, "not-before", "", "begin at this time at the earliest, such as 2026-01-31T09:00:00Z")
	flags.StringVar(&f.priority, "priority", "", "high: go before what is not and waits for a worker (default normal)")
}

// header adds what the flags say to a request's header. What the server would refuse is
// refused here, in the words of the command line.
func (f *beginFlags) header(h http.Header) error {
	for _, flag := range []struct {
		value, header string
		check         func(string) error
	}{
		{f.delay, schemas.HeaderDelay, checkDelay},
		{f.notBefore, schemas.HeaderNotBefore, checkNotBefore},
		{f.priority, schemas.HeaderPriority, checkPriority},
	} {
		if flag.value == "" {
			continue
		}
		if err := flag.check(flag.value); err != nil {
			return usageError{err}
		}
		h.Set(flag.header, flag.value)
	}
	if f.delay != "" && f.notBefore != "" {
		return usageError{errors.New("--delay and --not-before say the same in two ways; give one of them")}
	}
	return nil
}

func checkDelay(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < 0 {
		return fmt.Errorf("--delay %q is not a duration such as 30s, 5m or 1h30m", s)
	}
	return nil
}

func checkNotBefore(s string) error {
	if _, err := time.Parse(time.RFC3339, s); err != nil {
		return fmt.Errorf("--not-before %q is not a time with its zone, such as 2026-01-31T09:00:00Z or 2026-01-31T09:00:00+01:00", s)
	}
	return nil
}

func checkPriority(s string) error {
	if !schemas.Priority(s).Valid() {
		return fmt.Errorf("--priority %q is neither high nor normal", s)
	}
	return nil
}
