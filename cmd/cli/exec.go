package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

// execFlags are what `weir exec` takes besides the client's flags.
type execFlags struct {
	clientFlags
	headers    []string
	data       string
	key        string
	schema     string
	idempotent string
	upstream   string
	async      bool
	begin      beginFlags
}

func newExec(env *Env) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec METHOD URL",
		Short: "perform one HTTP call through a running Weir",
		Example: `  weir exec GET http://localhost:8080/status
  weir exec POST http://localhost:8080/orders -d '{"item":7}' --idempotency-key order-7
  weir exec GET https://api.github.com/zen --key github --json
  weir exec POST http://localhost:8080/reports --delay 30m --priority high`,
		Args: Exactly(2, "a method and a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			body, err := f.request(env, args[0], args[1])
			if err != nil {
				return err
			}
			header := http.Header{}
			if f.async {
				header.Set("Prefer", "respond-async")
			}
			if f.idempotent != "" {
				header.Set("Idempotency-Key", f.idempotent)
			}
			if err := f.begin.header(header); err != nil {
				return err
			}
			resp, err := c.Execute(cmd.Context(), header, body)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return showOutcome(env, &f, resp)
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a request header, `'Name: value'`; may be repeated")
	cmd.Flags().StringVarP(&f.data, "data", "d", "", "the body: JSON, or @FILE")
	cmd.Flags().StringVar(&f.key, "key", "", "the allowlist entry to go by")
	cmd.Flags().StringVar(&f.schema, "response-schema", "", "a JSON Schema that the answer must satisfy: JSON, or @FILE")
	cmd.Flags().StringVar(&f.idempotent, "idempotency-key", "", "make a repeat of this command join the same action")
	cmd.Flags().StringVar(&f.upstream, "upstream-idempotency-key", "", "the Idempotency-Key that the target gets")
	f.begin.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.async, "async", false, "do not wait for the outcome")
	return cmd
}

// request is the body of POST /v1/execute.
func (f *execFlags) request(env *Env, method, target string) (map[string]any, error) {
	args := map[string]any{"method": method, "url": target}
	if len(f.headers) > 0 {
		headers := map[string]string{}
		for _, h := range f.headers {
			name, value, ok := strings.Cut(h, ":")
			if !ok {
				return nil, usageError{fmt.Errorf("-H %q has no colon; write -H 'Name: value'", h)}
			}
			headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		args["headers"] = headers
	}
	if f.key != "" {
		args["allowlist_key"] = f.key
	}
	for name, text := range map[string]string{"body": f.data, "response_schema": f.schema} {
		if text == "" {
			continue
		}
		doc, err := document(env, name, text)
		if err != nil {
			return nil, err
		}
		args[name] = doc
	}
	body := map[string]any{"type": "Http", "args": args}
	if f.upstream != "" {
		body["idempotency_key"] = f.upstream
	}
	return body, nil
}

// document is a JSON text given on the command line, as @FILE in a file, or as @-
// on standard input.
func document(env *Env, what, text string) (json.RawMessage, error) {
	data := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if name == "-" {
			data, err = io.ReadAll(env.In)
		} else {
			data, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, usageError{err}
		}
	}
	var doc json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		what = strings.ReplaceAll(what, "_", " ")
		if text := strings.TrimSpace(string(data)); text == "" || strings.ContainsRune(`{["`, rune(text[0])) {
			return nil, usageError{fmt.Errorf("the %s is not JSON: %w", what, err)}
		}
		return nil, usageError{fmt.Errorf("the %s is not JSON; a plain text needs quotes of its own: '\"text\"'", what)}
	}
	return data, nil
}

// showOutcome prints the answer: its body on Out, the rest on Err. A failure
// ends the program with 1.
func showOutcome(env *Env, f *execFlags, resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if f.asJSON {
		fmt.Fprintf(env.Out, "%s\n", strings.TrimSpace(string(data)))
	}
	id := resp.Header.Get("Weir-Action-Id")
	var doc struct {
		Status json.RawMessage `json:"status"`
		Body   json.RawMessage `json:"body"`
		Error  *struct {
			Variant string `json:"variant"`
			Message string `json:"message"`
			Code    string `json:"code"`
			Reason  string `json:"reason"`
		} `json:"error"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("the server answered %s with something that is not JSON", resp.Status)
	}
	switch {
	case doc.Error != nil:
		fmt.Fprintf(env.Err, "weir: %s: %s", doc.Error.Variant, doc.Error.Message)
		if doc.Error.Code != "" {
			fmt.Fprintf(env.Err, " (%s)", doc.Error.Code)
		}
		fmt.Fprintln(env.Err)
		if !strings.Contains(doc.Error.Message, doc.Error.Reason) {
			fmt.Fprintln(env.Err, doc.Error.Reason)
		}
		if hint := client.TokenHint(resp, schemas.Code(doc.Error.Code)); hint != "" {
			fmt.Fprintln(env.Err, hint)
		}
	case resp.StatusCode >= http.StatusBadRequest:
		fmt.Fprintf(env.Err, "weir: %s (%s)\n", doc.Detail, doc.Code)
	case resp.StatusCode == http.StatusAccepted:
		fmt.Fprintf(env.Err, "accepted as %s; follow it with: weir tail actions %s\n", id, id)
		return nil
	default:
		if !f.asJSON {
			fmt.Fprintf(env.Out, "%s\n", doc.Body)
		}
		fmt.Fprintf(env.Err, "status %s, action %s\n", doc.Status, id)
		return nil
	}
	if id != "" {
		fmt.Fprintf(env.Err, "action %s\n", id)
	}
	return quietError{}
}
