package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tmaxmax/go-sse"
)

// maxAnswer is the most that is read of an answer, or of one event of it.
const maxAnswer = 64 << 20

// chatAnswer prints an answer: its text on Out, the rest on Err.
type chatAnswer struct {
	env    *Env
	asJSON bool
	action string

	usage  *chatUsage
	finish string
	some   bool // there was a choice
	broken bool // the text is in the middle of a line
}

// chatPart is what the command reads of a chunk or of a whole answer.
type chatPart struct {
	Choices []struct {
		Index   int      `json:"index"`
		Delta   chatText `json:"delta"`
		Message chatText `json:"message"`
		Finish  string   `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

type chatText struct {
	Content chatWords `json:"content"`
	Refusal chatWords `json:"refusal"`
}

func (t chatText) words() string { return string(t.Content + t.Refusal) }

// chatWords is a text, or the texts of a list of parts. Anything else has none.
type chatWords string

// UnmarshalJSON never fails: what servers send in the place of a text is not ours to mind.
func (w *chatWords) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*w = chatWords(text)
		return nil
	}
	var parts []json.RawMessage
	_ = json.Unmarshal(raw, &parts)
	for _, p := range parts {
		var part struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(p, &part)
		*w += chatWords(part.Text)
	}
	return nil
}

type chatUsage struct {
	Prompt     int64           `json:"prompt_tokens"`
	Completion int64           `json:"completion_tokens"`
	Cost       json.RawMessage `json:"cost"` // in US dollars, where somebody says; others say something else
}

// dollars is what an answer cost, where that is said.
func (u *chatUsage) dollars() (float64, bool) {
	text := strings.Trim(string(u.Cost), `"`)
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
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

// document prints a whole answer.
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
		if _, err := fmt.Fprintln(a.env.Out, line.String()); err != nil {
			return err
		}
	}
	var p chatPart
	if err := json.Unmarshal(raw, &p); err != nil {
		return errors.Join(a.line(), fmt.Errorf("the answer holds something that is no completion: %w", err))
	}
	var usage *chatUsage
	if json.Unmarshal(p.Usage, &usage) == nil && usage != nil {
		a.usage = usage
	}
	for _, c := range p.Choices {
		a.some = true
		if c.Index != 0 {
			continue // one was asked for
		}
		if c.Finish != "" {
			a.finish = c.Finish
		}
		if err := a.print(c.Delta.words() + c.Message.words()); err != nil {
			return err
		}
	}
	if said, ok := readChatError(raw); ok {
		return a.fail(said)
	}
	return nil
}

// print writes text, to a pipe or a file unescaped.
func (a *chatAnswer) print(text string) error {
	if text == "" || a.asJSON {
		return nil
	}
	out := a.env.Out
	if !Terminal(out) {
		out = Unescaped(out)
	}
	a.broken = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(out, text)
	return err
}

// line ends a line that has begun.
func (a *chatAnswer) line() error {
	if !a.broken {
		return nil
	}
	a.broken = false
	_, err := fmt.Fprintln(a.env.Out)
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
	var words []string
	if a.finish != "" && a.finish != "stop" {
		words = append(words, "ended by "+a.finish)
	}
	if u := a.usage; u != nil {
		words = append(words, fmt.Sprintf("%d tokens in, %d out", u.Prompt, u.Completion))
		if dollars, ok := u.dollars(); ok {
			words = append(words, "$"+strconv.FormatFloat(dollars, 'f', -1, 64))
		}
	}
	if a.action != "" {
		words = append(words, "action "+a.action)
	}
	if len(words) > 0 {
		fmt.Fprintln(a.env.Err, strings.Join(words, ", "))
	}
	return nil
}

// fail ends an answer that broke off with an error; what had come of it was printed.
func (a *chatAnswer) fail(said chatError) error {
	if err := a.line(); err != nil {
		return err
	}
	fmt.Fprintf(a.env.Err, "weir: %s\n", said.Error())
	if a.action != "" {
		fmt.Fprintln(a.env.Err, "action "+a.action)
	}
	return quietError{}
}

// cut ends an answer whose connection broke off.
func (a *chatAnswer) cut(err error) error {
	return errors.Join(a.line(), fmt.Errorf("%w: %w", a.lacking("the answer broke off"), err))
}

// lacking is the error of an answer that is none, or not all of it.
func (a *chatAnswer) lacking(text string) error {
	if a.action != "" {
		text += "; `weir tail actions " + a.action + "` tells what became of it"
	}
	return errors.New(text)
}

// chatError is an error in the words of the protocol.
type chatError struct {
	Message  string `json:"message"`
	Metadata struct {
		Code        string `json:"code"`
		LimitSource string `json:"limit_source"`
	} `json:"metadata"`
}

func (e chatError) Error() string {
	text := e.Message
	if e.Metadata.LimitSource != "" {
		text += ", by the budget " + e.Metadata.LimitSource
	}
	if e.Metadata.Code != "" {
		text += " (" + e.Metadata.Code + ")"
	}
	return text
}

// readChatError reads the error in an answer, if it holds one: an object with a message,
// or, from servers that are no Weir, a text.
func readChatError(raw []byte) (e chatError, ok bool) {
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &doc) != nil || len(doc.Error) == 0 || string(doc.Error) == "null" {
		return e, false
	}
	if json.Unmarshal(doc.Error, &e.Message) == nil {
		return e, e.Message != ""
	}
	var lenient struct {
		Message  string          `json:"message"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(doc.Error, &lenient) != nil || lenient.Message == "" {
		return chatError{}, false
	}
	e.Message = lenient.Message
	_ = json.Unmarshal(lenient.Metadata, &e.Metadata) // a message alone is an error too
	return e, true
}
