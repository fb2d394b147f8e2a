package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmaxmax/go-sse"
)

// maxAnswer is the most that is read of an answer, or of one event of it.
const maxAnswer = 64 << 20

// chatAnswer prints an answer: its text on Out, the rest on Err.
type chatAnswer struct {
	*api

	action string
	usage  *chatUsage
	finish string
	some   bool // there was a choice
	broken bool // the text is in the middle of a line
}

type chatUsage struct {
	Prompt     int64           `json:"prompt_tokens"`
	Completion int64           `json:"completion_tokens"`
	Cost       json.RawMessage `json:"cost"` // in US dollars from some servers; others send something else
}

// words is a text, or the texts of a list of parts. Anything else that servers send there has none.
func words(content gjson.Result) string {
	if !content.IsArray() {
		return content.Str
	}
	var text strings.Builder
	for _, part := range content.Array() {
		if part.IsObject() {
			text.WriteString(part.Get("text").Str)
		}
	}
	return text.String()
}

// stream prints the chunks of a streamed answer as they come.
func (a *chatAnswer) stream(body io.Reader) error {
	done := false
	for e, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxAnswer}) {
		if err != nil {
			return a.cut(err)
		}
		if done = strings.TrimSpace(e.Data) == "[DONE]"; done {
			break
		}
		if e.Data == "" {
			continue
		}
		if err := a.part([]byte(e.Data)); err != nil {
			return err
		}
	}
	if !done {
		return a.cut(errors.New("it has no end"))
	}
	return a.end()
}

func (a *chatAnswer) document(body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return a.cut(err)
	}
	if err := a.part(raw); err != nil {
		return err
	}
	return a.end()
}

// part prints one chunk, or a whole answer.
func (a *chatAnswer) part(raw []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return errors.Join(a.line(), fmt.Errorf("the answer holds something that is not JSON: %w", err))
	}
	if a.asJSON {
		if _, err := fmt.Fprintln(a.Out, line.String()); err != nil {
			return err
		}
	}
	doc := gjson.ParseBytes(raw)
	choices := doc.Get("choices")
	if !doc.IsObject() || choices.Type != gjson.Null && !choices.IsArray() {
		return errors.Join(a.line(), errors.New("the answer holds something that is no completion"))
	}
	var usage *chatUsage
	if json.Unmarshal([]byte(doc.Get("usage").Raw), &usage) == nil && usage != nil {
		a.usage = usage
	}
	for _, c := range choices.Array() {
		a.some = true
		if !c.IsObject() || c.Get("index").Int() != 0 {
			continue // one was asked for
		}
		a.finish = cmp.Or(c.Get("finish_reason").Str, a.finish)
		for _, path := range []string{"delta.content", "delta.refusal", "message.content", "message.refusal"} {
			if err := a.print(words(c.Get(path))); err != nil {
				return err
			}
		}
	}
	text, code := chatError(raw)
	if text == "" {
		return nil
	}
	if err := a.line(); err != nil { // what had come of the answer was printed
		return err
	}
	fmt.Fprintf(a.Err, "weir: %s\n", text)
	if a.action != "" {
		fmt.Fprintln(a.Err, "action "+a.action)
	}
	return exitError{code: exitOf(code)}
}

// print writes text, to a pipe or a file unescaped.
func (a *chatAnswer) print(text string) error {
	if text == "" || a.asJSON {
		return nil
	}
	out := a.Out
	if !Terminal(out) {
		out = Unescaped(out)
	}
	a.broken = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(out, text)
	return err
}

func (a *chatAnswer) line() error {
	if !a.broken {
		return nil
	}
	a.broken = false
	_, err := fmt.Fprintln(a.Out)
	return err
}

// end says what was used.
func (a *chatAnswer) end() error {
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
	if u := a.usage; u != nil {
		used = fmt.Sprintf("%d tokens in, %d out", u.Prompt, u.Completion)
		if dollars, err := strconv.ParseFloat(strings.Trim(string(u.Cost), `"`), 64); err == nil {
			cost = "$" + strconv.FormatFloat(dollars, 'f', -1, 64)
		}
	}
	if said := joined(", ", labels(" ", "", "ended by", a.finish), used, cost, labels(" ", "", "action", a.action)); said != "" {
		fmt.Fprintln(a.Err, said)
	}
	return nil
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
