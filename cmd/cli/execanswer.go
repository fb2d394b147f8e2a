package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/client"
	"weir/schemas"
)

type outputFlags struct {
	include bool
	output  string
}

func (f *outputFlags) register(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.include, "include", "i", false, "print the status and the headers of the answer before its body")
	flags.StringVarP(&f.output, "output", "o", "", "write the answer to this `FILE`, if the call succeeds")
}

// check refuses flags that do not go together, and a file that cannot be written, before the call is made.
func (f *outputFlags) check(asJSON bool) error {
	if asJSON && (f.include || f.output != "") {
		return usagef("--json prints one document with status, headers and body; leave out -i and -o")
	}
	if f.output == "" || f.output == "-" {
		return nil
	}
	info, missing := os.Stat(f.output)
	if missing == nil && !info.IsDir() && !info.Mode().IsRegular() { // a pipe takes one writer
		return nil
	}
	file, err := os.OpenFile(f.output, os.O_WRONLY|os.O_CREATE, newFile)
	if err != nil {
		return usagef("-o: %w", err)
	}
	err = file.Close()
	if missing != nil { // a call that fails leaves no file
		err = errors.Join(err, os.Remove(f.output))
	}
	return err
}

// newFile are the permissions of a new file, of which the umask takes some.
const newFile = 0o666

type execAnswer struct {
	schemas.ExecuteOutcome

	Error  *schemas.ExecuteFault `json:"error"`
	Title  string                `json:"title"`
	Detail string                `json:"detail"`
	Code   schemas.Code          `json:"code"`
}

// show prints the answer: the target's body on Out, all else on Err.
func (f *outputFlags) show(c *api, resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("the answer was cut off: %w", err)
	}
	accepted := resp.StatusCode == http.StatusAccepted // with a receipt
	var a execAnswer
	if err := json.Unmarshal(data, &a); err != nil && (!accepted || !json.Valid(data)) {
		return fmt.Errorf("the server answered %s with something that is not JSON; is it a Weir?", resp.Status)
	}
	if c.asJSON {
		fmt.Fprintf(c.Out, "%s\n", strings.TrimSpace(string(data)))
	}
	id := resp.Header.Get("Weir-Action-Id")
	switch {
	case a.Error != nil:
		return f.failed(c, resp, a.Error, id)
	case resp.StatusCode >= http.StatusBadRequest:
		c.sayOutcome(exitOf(a.Code), "weir:", " "+coded(cmp.Or(a.Detail, a.Title), a.Code))
		if id != "" {
			fmt.Fprintf(c.Err, "action %s\n", id)
		}
		return exitError{code: exitOf(a.Code)}
	case accepted:
		fmt.Fprintf(c.Err, "accepted as %s; follow it with: weir tail actions %s\n", id, id)
		return nil
	}
	if !c.asJSON {
		if err := f.print(c, a.ExecuteOutcome, id); err != nil {
			return err
		}
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(c.Err, "warning: the answer does not fit the response schema of its entry: %s\n", oneLine(w))
	}
	if a.Reconciled {
		fmt.Fprintln(c.Err, "the call was applied, but its own answer was lost; this is the answer of the entry's probe")
	}
	c.sayOutcome(ExitOK, fmt.Sprintf("status %d", a.Status), ", action "+id)
	return nil
}

// print writes the answer of a call that succeeded: to a terminal with unsafe characters escaped and without binary
// bodies, and to a pipe or a file as it came.
func (f *outputFlags) print(c *api, a schemas.ExecuteOutcome, id string) error {
	body, err := targetBody(a.Body, a.BodyEncoding, a.Headers)
	if err != nil {
		return err
	}
	head := ""
	if f.include {
		head = headText(a.Status, a.Headers)
	}
	out := c.Out
	switch {
	case f.output != "" && f.output != "-":
		return os.WriteFile(f.output, []byte(head+body), newFile)
	case !Terminal(out):
		out = Unescaped(out)
	case a.BodyEncoding != "" && f.output == "-":
		out = Unescaped(out)
	case a.BodyEncoding != "":
		fmt.Fprintf(c.Err, "weir: binary answer of %d bytes, not printed; use -o FILE, or see: weir actions show %s --json\n", len(body), id)
		body = ""
	default:
		if body = strings.ReplaceAll(body, "\r\n", "\n"); body != "" && !strings.HasSuffix(body, "\n") {
			body += "\n"
		}
	}
	_, err = io.WriteString(out, head+body)
	return err
}

// sayOutcome prints a line about a call on Err: a text in the colour of the outcome that an exit code stands for,
// and the rest.
func (c *api) sayOutcome(exit int, text, rest string) {
	_ = printTinted(c.Err, tinted{text, string(outcomeOfExit(exit))}, rest+"\n") // as good as it can be
}

func coded(text string, code schemas.Code) string {
	if code == "" {
		return text
	}
	return text + " (" + string(code) + ")"
}

func headText(status int, headers []schemas.Header) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %s\n", statusText(status))
	for _, h := range headers {
		fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
	}
	b.WriteString("\n")
	return b.String()
}

func statusText(status int) string {
	return joined(" ", strconv.Itoa(status), http.StatusText(status))
}

// targetBody is the body that the target sent. In a document of the executor's it is JSON as it came, or a JSON string
// that holds its bytes in base64 or any other text. The length of the body, or else its media type, tells text from a
// JSON string.
func targetBody(doc json.RawMessage, encoding string, headers []schemas.Header) (string, error) {
	var text string
	if string(doc) == "null" || len(doc) == 0 {
		return "", nil
	}
	if encoding != "" {
		var raw []byte
		if err := json.Unmarshal(doc, &raw); err != nil || encoding != "base64" {
			return "", fmt.Errorf("the server's answer has a body with the encoding %q that cannot be read; use a newer weir", encoding)
		}
		return string(raw), nil
	}
	if doc[0] != '"' {
		return string(doc), nil
	}
	if err := json.Unmarshal(doc, &text); err != nil {
		return "", err
	}
	length, kind := "", ""
	for _, h := range headers {
		switch strings.ToLower(h.Name) {
		case "content-length":
			length = h.Value
		case "content-type":
			kind, _, _ = mime.ParseMediaType(h.Value)
		}
	}
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	if length == strconv.Itoa(len(doc)) || length == "" && isJSON {
		return string(doc), nil
	}
	return text, nil
}

// failed prints an error of the executor, with what the target answered.
func (f *outputFlags) failed(c *api, resp *http.Response, e *schemas.ExecuteFault, id string) error {
	message, reason, body, hint := e.Message, e.Reason, "", ""
	if e.Variant == schemas.VariantDisallowedHost {
		message = "policy denied the call: " + message
	}
	if strings.Contains(e.Message, reason) {
		reason = ""
	}
	if e.Status != 0 && !c.asJSON {
		var err error
		if body, err = targetBody(e.Body, e.BodyEncoding, e.Headers); err == nil && e.BodyEncoding != "" {
			body = fmt.Sprintf("(%d bytes that are no text; --json has them)", len(body))
		}
		if f.include {
			body = headText(e.Status, e.Headers) + body
		}
	}
	exit := faultExit(e)
	switch {
	case exit == ExitDenied:
		hint = "`weir policy explain` with the same call says what would allow it"
	case exit == ExitUnknown && e.Resolution == nil:
		hint = "check the target, and record the result: weir actions resolve " + id + " --applied, or --not-applied"
	case e.Retryable:
		hint = "it may succeed later: repeat the command"
		if resp.Header.Get("Idempotency-Replayed") != "" {
			hint = "this is the stored answer: repeat the command with another key, or `weir actions redrive " + id + "`"
		}
		if wait := resp.Header.Get("Retry-After"); wait != "" {
			hint += " in " + wait + " s"
		}
	}
	c.sayOutcome(exit, "weir:", " "+coded(message, e.Code))
	for _, line := range []string{reason, client.TokenHint(resp, e.Code), strings.TrimSuffix(body, "\n"), hint, labels(" ", "", "action", id)} {
		if line != "" {
			fmt.Fprintln(c.Err, line)
		}
	}
	return exitError{code: exit}
}

func faultExit(e *schemas.ExecuteFault) int {
	switch e.Variant {
	case schemas.VariantDisallowedHost:
		return ExitDenied
	case schemas.VariantOutcomeUnknown:
		return ExitUnknown
	case schemas.VariantUnsupportedPrimitive, schemas.VariantMissingArgument, schemas.VariantInvalidArgumentValue,
		schemas.VariantInvalidMethod, schemas.VariantInvalidURL, schemas.VariantInvalidHeaderName,
		schemas.VariantInvalidHeaderValue, schemas.VariantInvalidSchema, schemas.VariantInvalidPostcondition,
		schemas.VariantUnsupportedPostcondition:
		return ExitUsage
	}
	if e.Code == schemas.InvalidRequest || e.Code == schemas.ValidationError {
		return ExitUsage
	}
	return ExitFailed
}
