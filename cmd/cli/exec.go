package cli

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
)

// execFlags are what `weir exec` takes besides the client's flags.
type execFlags struct {
	clientFlags
	bodyFlags
	headers                                  []string
	key, schema, idempotent, upstream, batch string
	async                                    bool
	begin                                    beginFlags
	outputFlags
}

func newExec(env *Env) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec METHOD URL | --batch FILE",
		Short: "Make an HTTP call through a running Weir",
		Long: `Perform one HTTP call through a running Weir, and print the body of the target's answer
on standard output as it came. Everything else goes to standard error, with the answer
of a call that failed. Control characters are escaped on a terminal only. Bytes that are
no text are not printed on a terminal: write them to a file with -o.

With --batch, make the calls of a file: up to 1,000 bodies of POST /v1/execute, as a JSON
list or one after another. Print a line for each as it ends: its index, the status of the
target, the action, the code and the message. The exit code is the highest of all.

Exit codes:
  0  the target answered with a status of 2xx, or the action was accepted (--async, --delay)
  1  the call failed: standard error says why, and what the target answered
  2  the command line is wrong; nothing was sent
  3  policy denied the call
  4  it is not known whether the call took effect; do not repeat it before you know`,
		Example: `  weir exec GET http://localhost:8080/status
  weir exec -i GET http://localhost:8080/status
  weir exec GET http://localhost:8080/report.csv -o report.csv
  weir exec POST http://localhost:8080/orders -d '{"item":7}' --idempotency-key order-7
  weir exec POST http://localhost:8080/login --data-urlencode 'user=a b' --data-urlencode id=7
  weir exec POST http://localhost:8080/upload -F title=Logo -F 'file=@logo.png;type=image/png'
  weir exec PUT http://localhost:8080/blob --data-binary @blob.bin
  weir exec GET https://api.github.com/zen --key github --json
  weir exec POST http://localhost:8080/reports --delay 30m --priority high
  weir exec --batch requests.ndjson --idempotency-key import-7`,
		Args: f.target,
	}
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a request header, `'Name: value'`; may be repeated")
	f.bind(cmd.Flags())
	cmd.Flags().StringVar(&f.key, "key", "", "the entry of the policy to use (default the first that matches)")
	cmd.Flags().StringVar(&f.schema, "response-schema", "", "a JSON Schema that the answer must satisfy: JSON, or @FILE")
	cmd.Flags().StringVar(&f.idempotent, "idempotency-key", "", "make a repeat of this command join the same action")
	cmd.Flags().StringVar(&f.upstream, "upstream-idempotency-key", "", "the Idempotency-Key that the target gets")
	f.outputFlags.register(cmd.Flags())
	f.begin.register(cmd.Flags())
	cmd.Flags().StringVar(&f.batch, "batch", "", "make the calls in this `FILE`; - reads standard input")
	cmd.Flags().BoolVar(&f.async, "async", false, "do not wait for the outcome")
	return f.command(env, cmd, func(ctx context.Context, c *api, args []string) error {
		if err := f.check(c.asJSON); err != nil {
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
		if f.batch != "" {
			return f.sendBatch(ctx, c, header)
		}
		body, err := f.request(env, args[0], args[1])
		if err != nil {
			return err
		}
		resp, err := c.Execute(ctx, header, body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return f.show(c, resp)
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
	name, value, err := f.member(env)
	if err != nil {
		return nil, err
	}
	if name != "" {
		args[name] = value
	}
	if f.schema != "" {
		if args["response_schema"], err = env.document("response_schema", f.schema); err != nil {
			return nil, err
		}
	}
	body := map[string]any{"type": "Http", "args": args}
	if f.upstream != "" {
		body["idempotency_key"] = f.upstream
	}
	return body, nil
}
