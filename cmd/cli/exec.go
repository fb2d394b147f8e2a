package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

// execFlags are what `weir exec` takes besides the client's flags.
type execFlags struct {
	clientFlags
	headers                                 []string
	data, key, schema, idempotent, upstream string
	async                                   bool
	begin                                   beginFlags
}

func newExec(env *Env) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec METHOD URL",
		Short: "Make an HTTP call through a running Weir",
		Example: `  weir exec GET http://localhost:8080/status
  weir exec POST http://localhost:8080/orders -d '{"item":7}' --idempotency-key order-7
  weir exec GET https://api.github.com/zen --key github --json
  weir exec POST http://localhost:8080/reports --delay 30m --priority high`,
		Args: Exactly(2, "a method and a URL"),
	}
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a request header, `'Name: value'`; may be repeated")
	cmd.Flags().StringVarP(&f.data, "data", "d", "", "the body: JSON, or @FILE")
	cmd.Flags().StringVar(&f.key, "key", "", "the allowlist entry to go by")
	cmd.Flags().StringVar(&f.schema, "response-schema", "", "a JSON Schema that the answer must satisfy: JSON, or @FILE")
	cmd.Flags().StringVar(&f.idempotent, "idempotency-key", "", "make a repeat of this command join the same action")
	cmd.Flags().StringVar(&f.upstream, "upstream-idempotency-key", "", "the Idempotency-Key that the target gets")
	f.begin.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.async, "async", false, "do not wait for the outcome")
	return f.command(env, cmd, func(ctx context.Context, c *api, args []string) error {
		body, err := f.request(env, args[0], args[1])
		if err != nil {
			return err
		}
		header := http.Header{}
		setAll(header, "Idempotency-Key", f.idempotent)
		if f.async {
			header.Set("Prefer", "respond-async")
		}
		if err := f.begin.header(header); err != nil {
			return err
		}
		resp, err := c.Execute(ctx, header, body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return c.showOutcome(resp)
	})
}

// request is the body of POST /v1/execute.
func (f *execFlags) request(env *Env, method, target string) (map[string]any, error) {
	args := map[string]any{"method": method, "url": target}
	headers, err := headersOf(f.headers)
	if err != nil {
		return nil, err
	}
	if headers != nil {
		args["headers"] = headers
	}
	if f.key != "" {
		args["allowlist_key"] = f.key
	}
	for name, text := range map[string]string{"body": f.data, "response_schema": f.schema} {
		if text == "" {
			continue
		}
		if args[name], err = env.document(name, text); err != nil {
			return nil, err
		}
	}
	body := map[string]any{"type": "Http", "args": args}
	if f.upstream != "" {
		body["idempotency_key"] = f.upstream
	}
	return body, nil
}

// showOutcome prints the answer: its body on Out, the rest on Err. A failure
// ends the program with 1.
func (c *api) showOutcome(resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if c.asJSON {
		fmt.Fprintf(c.Out, "%s\n", strings.TrimSpace(string(data)))
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
		fmt.Fprintf(c.Err, "weir: %s: %s", doc.Error.Variant, doc.Error.Message)
		if doc.Error.Code != "" {
			fmt.Fprintf(c.Err, " (%s)", doc.Error.Code)
		}
		fmt.Fprintln(c.Err)
		if !strings.Contains(doc.Error.Message, doc.Error.Reason) {
			fmt.Fprintln(c.Err, doc.Error.Reason)
		}
		if hint := client.TokenHint(resp, schemas.Code(doc.Error.Code)); hint != "" {
			fmt.Fprintln(c.Err, hint)
		}
	case resp.StatusCode >= http.StatusBadRequest:
		fmt.Fprintf(c.Err, "weir: %s (%s)\n", doc.Detail, doc.Code)
	case resp.StatusCode == http.StatusAccepted:
		fmt.Fprintf(c.Err, "accepted as %s; follow it with: weir tail actions %s\n", id, id)
		return nil
	default:
		if !c.asJSON {
			fmt.Fprintf(c.Out, "%s\n", doc.Body)
		}
		fmt.Fprintf(c.Err, "status %s, action %s\n", doc.Status, id)
		return nil
	}
	if id != "" {
		fmt.Fprintf(c.Err, "action %s\n", id)
	}
	return quietError{}
}
