package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
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
