package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
	"github.com/tmaxmax/go-sse"

	"weir/client"
	"weir/schemas"
)

type chatFlags struct {
	system, key string
	whole       bool
	maxTokens   int64
}

func newChat(env *Env) *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat MODEL [MESSAGE]",
		Short: "Ask a model through a running Weir",
		Long: `Ask a model and print its answer as it comes. MESSAGE is what it is asked; @FILE
takes it from a file, and - or no MESSAGE from standard input. The answer goes to
standard output, the tokens and the cost to standard error. Ctrl-C cancels the completion.

Exit codes:
  0  the model answered
  1  the completion failed
  2  the command line is wrong; nothing was sent
  3  policy denied the completion
  4  it is not known whether the provider answered; a repeat may cost twice`,
		Example: `  weir chat openai/gpt-5 'What is a weir?'
  git diff | weir chat local/coder --system 'Review this diff in three sentences'
  weir chat small --no-stream --json 'Name a river' | jq -r '.choices[0].message.content'`,
		Args: between(1, 2, "chat takes a model and a message; `weir models` lists the models there are"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.system, "system", "", "the system message: a text, or @FILE")
	flags.BoolVar(&f.whole, "no-stream", false, "wait for the whole answer")
	flags.Int64Var(&f.maxTokens, "max-tokens", 0, "the most tokens of the answer (default the model's own)")
	flags.StringVar(&f.key, "idempotency-key", "", "make a repeat of this command join the same completion")
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		if flags.Changed("max-tokens") && f.maxTokens < 1 {
			return usagef("--max-tokens is below 1; leave it out for the model's own")
		}
		body, err := f.request(ctx, env, args)
		if err != nil {
			return err
		}
		return f.chat(ctx, c, body)
	})
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model         string          `json:"model"`
	Messages      []chatMessage   `json:"messages"`
	MaxTokens     int64           `json:"max_tokens,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	StreamOptions map[string]bool `json:"stream_options,omitempty"`
}

func (f *chatFlags) request(ctx context.Context, env *Env, args []string) (chatRequest, error) {
	r := chatRequest{Model: args[0], MaxTokens: f.maxTokens}
	if !schemas.ValidModel(r.Model) {
		return r, usagef("%q is no name of a model; `weir models` lists those there are", r.Model)
	}
	if f.system != "" {
		text, err := env.text(f.system)
		if err != nil {
			return r, err
		}
		r.Messages = append(r.Messages, chatMessage{"system", text})
	}
	text, err := env.typed(ctx, append(args, "-")[1])
	if err != nil {
		return r, err
	}
	if strings.TrimSpace(text) == "" {
		return r, usagef("there is nothing to ask: give a message, or one on standard input")
	}
	r.Messages = append(r.Messages, chatMessage{"user", text})
	if !f.whole {
		r.Stream, r.StreamOptions = true, map[string]bool{"include_usage": true}
	}
	return r, nil
}

// typed is text, for which Ctrl-C ends the wait.
func (s *Streams) typed(ctx context.Context, from string) (string, error) {
	read := make(chan func() (string, error), 1)
	go func() { // it ends with its input, or with the program
		text, err := s.text(from)
		read <- func() (string, error) { return text, err }
	}()
	select {
	case result := <-read:
		return result()
	case <-ctx.Done():
		return "", errors.New("stopped; nothing was asked")
	}
}

// chat asks, and prints what is answered. A completion that is left before its end is
// canceled by the server.
func (f *chatFlags) chat(ctx context.Context, c *api, body chatRequest) error {
	header := http.Header{"Accept": {"application/json"}, schemas.HeaderOnDisconnect: {schemas.DisconnectCancel}}
	if body.Stream {
		header.Set("Accept", "text/event-stream")
	}
	setAll(header, "Idempotency-Key", f.key)
	resp, err := c.Chat(ctx, header, body)
	if err != nil {
		return stopped(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return chatRefusal(resp)
	}
	answer := &chatAnswer{api: c, action: resp.Header.Get(schemas.HeaderGeneration)}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode == http.StatusAccepted:
		return answer.lacking("the completion is under way, and this server does not wait for its answer")
	case kind == "text/event-stream":
		err = answer.stream(ctx, resp.Body)
	case kind == "application/json":
		err = answer.document(ctx, resp.Body)
	default:
		return fmt.Errorf("the server answered %s with something that is no completion; is it a Weir?", resp.Status)
	}
	return stopped(ctx, err)
}

// stopped replaces the error of a completion that the user stopped.
func stopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("stopped; the completion is canceled")
	}
	return err
}

// chatRefusal reads the error that a completion was refused or failed with, and says it to
// a person.
func chatRefusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	text, code := chatError(raw)
	if err != nil || text == "" {
		text = fmt.Sprintf("the server answered %s with no error that can be read; is it a Weir?", resp.Status)
		return client.NewError(resp.StatusCode, text, nil)
	}
	return exitError{client.NewError(resp.StatusCode, joined("\n", text, chatHint(resp, text, code)), raw), exitOf(code)}
}

// chatError reads the error in an answer, if it holds one.
func chatError(raw []byte) (text string, code schemas.Code) {
	e := gjson.GetBytes(raw, "error")
	if text = e.Get("message").Str; text == "" {
		return "", ""
	}
	if budget := e.Get("metadata.limit_source").Str; budget != "" {
		text += ", by the budget " + budget
	}
	code = schemas.Code(e.Get("metadata.code").Str)
	return coded(text, code), code
}

// chatHint says what to do about a refusal, where that can be said.
func chatHint(resp *http.Response, text string, code schemas.Code) string {
	switch {
	case strings.Contains(text, "answers POST "+schemas.RouteChat+";"):
		return "`weir chat` speaks chat completions only; ask another model"
	case code == schemas.Forbidden && !strings.HasPrefix(text, "at /model:"): // it is about a scope
		return ""
	}
	hint := map[schemas.Code]string{
		schemas.ModelNotFound:       "`weir models` lists the models there are",
		schemas.BudgetExhausted:     "`weir budgets` shows what is left of each",
		schemas.IdempotencyMismatch: "give another question another --idempotency-key",
		schemas.Forbidden:           "`weir models` lists the models that the token may use",
		schemas.Unauthorized:        client.TokenHint(resp, code),
	}[code]
	if after := resp.Header.Get("Retry-After"); hint == "" && after != "" {
		return "try again in " + after + " s"
	}
	return hint
}

func newModels(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use:   "models",
		Short: "List the models that the token may use",
		Long: `List the models that the token may use: exact names, other names for them, and the models that
the providers of patterns list. Other names that a pattern matches work too. Prices are in US
dollars for a million tokens.`,
		Example: `  weir models
  weir models ls --json | jq .id
  weir chat openai/gpt-4o "What is a weir?"`,
		Args: Exactly(0, "no arguments"),
	}, func(ctx context.Context, c *api, _ []string) error {
		list, err := c.models(ctx)
		const empty = "there are no models that this token may ask; the configuration has them under models"
		return printList(c, read(list.Data, err), empty, "MODEL\tOWNER\tCONTEXT\tINPUT\tOUTPUT\tREQUEST\tALIAS OF", modelRow)
	})
}

// models reads the models. The errors of this route have a form of their own.
func (c *api) models(ctx context.Context) (list schemas.ModelList, err error) {
	resp, err := c.Do(ctx, http.MethodGet, "/v1"+schemas.RouteModels, http.Header{"Accept": {"application/json"}}, nil)
	if err != nil {
		return list, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return list, chatRefusal(resp)
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&list)
	return list, err
}

func modelRow(m schemas.ModelView) []any {
	input, output, request := "-", "-", "-"
	if p := m.Pricing; p != nil {
		input, output, request = perMillion(p.Prompt), perMillion(p.Completion), cmp.Or(p.Request, "0")
	}
	return []any{m.ID, m.OwnedBy, orDash(positive(m.ContextLength)), input, output, request, cmp.Or(m.AliasOf, "-")}
}

// maxAnswer is the most that is read of an answer, or of one event of it.
const maxAnswer = 64 << 20

// chatAnswer prints an answer: its text on Out, the rest on Err.
type chatAnswer struct {
	*api

	action, finish string
	usage          gjson.Result
	some           bool // there was a choice
	broken         bool // the text is in the middle of a line
}

// stream prints the chunks of a streamed answer as they come.
func (a *chatAnswer) stream(ctx context.Context, body io.Reader) error {
	for e, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxAnswer}) {
		switch {
		case err != nil:
			return a.cut(err)
		case strings.TrimSpace(e.Data) == "[DONE]":
			return a.end(ctx)
		case e.Data == "":
		default:
			if err := a.part([]byte(e.Data)); err != nil {
				return errors.Join(a.line(), err)
			}
		}
	}
	return a.cut(errors.New("it has no end"))
}

func (a *chatAnswer) document(ctx context.Context, body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return a.cut(err)
	}
	if err := a.part(raw); err != nil {
		return errors.Join(a.line(), err)
	}
	return a.end(ctx)
}

// part prints one chunk, or a whole answer.
func (a *chatAnswer) part(raw []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return fmt.Errorf("the answer holds something that is not JSON: %w", err)
	}
	if a.asJSON {
		if _, err := fmt.Fprintln(a.Out, line.String()); err != nil {
			return err
		}
	}
	doc := gjson.ParseBytes(raw)
	if text, code := chatError(raw); text != "" {
		return exitError{errors.New(joined("\n", text, labels(" ", "", "action", a.action))), exitOf(code)}
	}
	if usage := doc.Get("usage"); usage.IsObject() {
		a.usage = usage
	}
	a.some = a.some || doc.Get("choices.#").Int() > 0
	for _, choice := range doc.Get("choices").Array() {
		if choice.Get("index").Int() != 0 { // one was requested; some providers send no index
			continue
		}
		a.finish = cmp.Or(choice.Get("finish_reason").Str, a.finish)
		for _, path := range []string{"delta.content", "delta.refusal", "message.content", "message.refusal"} {
			if err := a.text(choice.Get(path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// text prints content, which is a text or a list of parts with texts, to a pipe or a file unescaped.
func (a *chatAnswer) text(content gjson.Result) (err error) {
	if content.IsArray() {
		for _, part := range content.Get("#.text").Array() {
			err = errors.Join(err, a.text(part))
		}
	}
	text := content.Str
	if text == "" || a.asJSON {
		return err
	}
	out := a.Out
	if !Terminal(out) {
		out = Unescaped(out)
	}
	a.broken = !strings.HasSuffix(text, "\n")
	_, err = io.WriteString(out, text)
	return err
}

// line ends a line of text.
func (a *chatAnswer) line() error {
	if !a.broken {
		return nil
	}
	a.broken = false
	_, err := fmt.Fprintln(a.Out)
	return err
}

// end prints the use of the model.
func (a *chatAnswer) end(ctx context.Context) error {
	if err := a.line(); err != nil {
		return err
	}
	if !a.some {
		return a.lacking("the answer is no completion: it holds no choices")
	}
	if a.asJSON {
		return nil
	}
	if a.finish == "stop" {
		a.finish = ""
	}
	used, cost := "", ""
	if a.usage.Exists() {
		used = fmt.Sprintf("%d tokens in, %d out", a.usage.Get("prompt_tokens").Int(), a.usage.Get("completion_tokens").Int())
		if dollars, err := strconv.ParseFloat(a.usage.Get("cost").String(), 64); err == nil {
			cost = "$" + strconv.FormatFloat(dollars, 'f', -1, 64)
		} else if a.action != "" {
			cost = a.cost(ctx)
		}
	}
	if said := joined(", ", labels(" ", "", "ended by", a.finish), used, cost, labels(" ", "", "action", a.action)); said != "" {
		fmt.Fprintln(a.Err, said)
	}
	return nil
}

// cost is what Weir counted for the answer; empty: the model has no price, or the token reads no actions.
func (a *chatAnswer) cost(ctx context.Context) string {
	view, _ := a.Action(ctx, a.action)
	nanos := gjson.GetBytes(view.Result, "usage.cost_nanousd")
	if !nanos.Exists() {
		return ""
	}
	return "$" + strconv.FormatFloat(nanos.Float()/1e9, 'f', -1, 64)
}

func (a *chatAnswer) cut(err error) error {
	return errors.Join(a.line(), fmt.Errorf("%w: %w", a.lacking("the answer broke off"), err))
}

// lacking is the error of an answer that is none, or not all of it.
func (a *chatAnswer) lacking(text string) error {
	if a.action != "" {
		text += "; `weir tail actions " + a.action + "` shows its result"
	}
	return errors.New(text)
}
