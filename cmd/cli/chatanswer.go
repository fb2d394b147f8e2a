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

	action, finish string
	usage          gjson.Result
	some           bool // there was a choice
	broken         bool // the text is in the middle of a line
}

// stream prints the chunks of a streamed answer as they come.
func (a *chatAnswer) stream(body io.Reader) error {
	for e, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxAnswer}) {
		switch {
		case err != nil:
			return a.cut(err)
		case strings.TrimSpace(e.Data) == "[DONE]":
			return a.end()
		case e.Data == "":
		default:
			if err := a.part([]byte(e.Data)); err != nil {
				return errors.Join(a.line(), err)
			}
		}
	}
	return a.cut(errors.New("it has no end"))
}

func (a *chatAnswer) document(body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return a.cut(err)
	}
	if err := a.part(raw); err != nil {
		return errors.Join(a.line(), err)
	}
	return a.end()
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
	if a.usage.Exists() {
		used = fmt.Sprintf("%d tokens in, %d out", a.usage.Get("prompt_tokens").Int(), a.usage.Get("completion_tokens").Int())
		if dollars, err := strconv.ParseFloat(a.usage.Get("cost").String(), 64); err == nil {
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
