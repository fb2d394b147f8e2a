package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"weir/schemas"
)

type execFlags struct {
	callFlags
	outputFlags
	schema, repeat, batch string
	async                 bool
	begin                 beginFlags
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
	f.bind(cmd, "gets")
	cmd.Flags().StringVar(&f.schema, "response-schema", "", "a JSON Schema that the answer must satisfy: JSON, or @FILE")
	cmd.Flags().StringVar(&f.repeat, "idempotency-key", "", "make a repeat of this command join the same action")
	f.register(cmd.Flags())
	f.begin.register(cmd.Flags())
	cmd.Flags().StringVar(&f.batch, "batch", "", "make the calls in this `FILE`; - reads standard input")
	cmd.Flags().BoolVar(&f.async, "async", false, "do not wait for the outcome")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		if later := f.async || f.begin.delay != "" || f.begin.notBefore != ""; later && (f.include || f.output != "") {
			return usagef("-i and -o are for an answer, and with --async, --delay or --not-before there is none yet; leave them out")
		}
		if err := f.check(c.asJSON); err != nil {
			return err
		}
		header := http.Header{}
		setAll(header, "Idempotency-Key", f.repeat)
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

// execRequest is the body of POST /v1/execute.
type execRequest struct {
	Type           string   `json:"type"`
	Args           execArgs `json:"args"`
	IdempotencyKey string   `json:"idempotency_key,omitempty"`
}

type execArgs struct {
	schemas.ExplainRequest

	Method         string          `json:"method"` // there even if it is empty, which the server refuses
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
}

func (f *execFlags) request(env *Env, method, target string) (execRequest, error) {
	call, err := f.callFlags.request(env, method, target)
	call.IdempotencyKey = ""
	r := execRequest{Type: "Http", Args: execArgs{ExplainRequest: call, Method: method}, IdempotencyKey: f.idempotent}
	if err == nil && f.schema != "" {
		r.Args.ResponseSchema, err = env.document("response_schema", f.schema)
	}
	return r, err
}

func (f *execFlags) target(cmd *cobra.Command, args []string) error {
	if f.batch == "" {
		return Exactly(2, "a method and a URL, or --batch FILE")(cmd, args)
	}
	for _, name := range []string{"header", "data", "data-binary", "data-urlencode", "form", "key", "response-schema", "upstream-idempotency-key", "include", "output"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s belongs to one call; with --batch each request in the file has its own", name)
		}
	}
	return Exactly(0, "no arguments with --batch")(cmd, args)
}

// sendBatch sends the requests of a file, and prints a line for each as its action ends.
func (f *execFlags) sendBatch(ctx context.Context, c *api, header http.Header) error {
	data, err := c.read(f.batch, maxInput)
	if err != nil {
		return err
	}
	requests, err := batchIn(data)
	if err != nil {
		return usagef("--batch: %w", err)
	}
	header.Set("Accept", schemas.MediaNDJSON)
	resp, err := c.Batch(ctx, header, requests)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return f.show(c, resp)
	}
	worst, items := ExitOK, json.NewDecoder(resp.Body)
	for n := 0; ; n++ {
		var item schemas.BatchItem
		err := items.Decode(&item)
		switch {
		case errors.Is(err, io.EOF) && n == len(requests):
			return ended(worst)
		case err != nil:
			return fmt.Errorf("the answer was cut off after %d of %d items: %w", n, len(requests), cmp.Or(ctx.Err(), err))
		}
		exit, row := itemRow(item)
		worst = max(worst, exit)
		if err := c.printLine(item, "\t", row); err != nil {
			return err
		}
	}
}

// batchIn are the requests in a file: a list, or one document after another.
func batchIn(data []byte) (requests []json.RawMessage, err error) {
	if data = bytes.TrimSpace(data); bytes.HasPrefix(data, []byte("[")) {
		if err := json.Unmarshal(data, &requests); err != nil {
			return nil, fmt.Errorf("the file is not a JSON list: %w", err)
		}
	} else {
		for each := json.NewDecoder(bytes.NewReader(data)); ; {
			var request json.RawMessage
			err := each.Decode(&request)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("request %d is not JSON: %w", len(requests)+1, err)
			}
			requests = append(requests, request)
		}
	}
	if n := len(requests); n == 0 || n > schemas.MaxBatch {
		return nil, fmt.Errorf("the file has %d requests, and a batch takes 1 to %d; split the file", n, schemas.MaxBatch)
	}
	return requests, nil
}

// itemRow is what is printed of an item, index first, and the exit code that it alone would have.
func itemRow(item schemas.BatchItem) (exit int, row []any) {
	status, code, text := 0, schemas.Code(""), ""
	switch e := item.Error; {
	case item.Result != nil:
		status = item.Result.Status
	case e != nil:
		exit, status, code, text = faultExit(e), e.Status, e.Code, oneLine(e.Message)
	default:
		text = "accepted"
	}
	return exit, []any{item.Index, tinted{orDash(positive(status)), string(outcomeOfExit(exit))}, orDash(item.ActionID), orDash(code), orDash(text)}
}
