package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"weir/client"
	"weir/schemas"
)

// unsafe reports whether a character can make a terminal show something else than what it was sent: controls,
// characters that change the direction of a text, and characters that cannot be seen. U+200C and U+200D are not
// among them: scripts and emoji need them.
func unsafe(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d'
}

// printer writes what the commands print. It writes each unsafe character but line feed and tab
// as its JSON escape, such as \u009b: a text shows what it holds, and a JSON document keeps its
// meaning. Bytes that are not UTF-8 become U+FFFD. A character must not be split between two calls.
type printer struct {
	to io.Writer
	// colour has outcomes in colour: the output is a terminal.
	colour bool
}

func (p printer) Write(data []byte) (int, error) {
	if _, err := io.WriteString(p.to, escaped(string(data), "\n\t")); err != nil {
		return 0, err
	}
	return len(data), nil
}

// oneLine is a text from outside for one line or one cell of a table.
func oneLine(text string) string { return escaped(text, "") }

// escaped replaces the unsafe characters of a text, except those in keep.
func escaped(text, keep string) string {
	hides := func(r rune) bool { return unsafe(r) && !strings.ContainsRune(keep, r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, hides) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch hi, lo := utf16.EncodeRune(r); {
		case !hides(r):
			b.WriteRune(r)
		case hi != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Unescaped is the writer that a printer writes to. It is for what this program draws on a terminal,
// and for a body that goes to a pipe or a file.
func Unescaped(w io.Writer) io.Writer {
	if p, ok := w.(printer); ok {
		return p.to
	}
	return w
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

// newTable aligns the cells of rows, with tabs between them. In colour, the words of outcomes have theirs.
func newTable(out io.Writer) *tabwriter.Writer {
	if p, ok := out.(printer); ok && p.colour {
		out = cellPrinter{p}
	}
	return tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
}

// cellPrinter is what a table in colour writes to: cell by cell, aligned before.
type cellPrinter struct{ printer }

func (p cellPrinter) Write(cell []byte) (int, error) {
	word, _, _ := strings.Cut(string(cell), ",")
	if strings.Contains(word, " ") || colourOf(word) == 0 { // a sentence, such as an agent's, is no outcome
		return p.printer.Write(cell)
	}
	return len(cell), printTinted(p.printer, tinted{string(cell), string(cell)}, "")
}

// printRow writes a row of a table.
func printRow(to io.Writer, cells ...any) { _ = printCells(to, "\t", cells) }

// printCells writes a line of cells with a separator between, those that are tinted in colour if to has colours.
func printCells(to io.Writer, separator string, cells []any) (err error) {
	for i, cell := range cells {
		if i > 0 {
			_, err = io.WriteString(to, separator)
		}
		t, ok := cell.(tinted)
		if !ok {
			t.text = fmt.Sprint(cell)
		}
		t.text = oneLine(t.text)
		err = errors.Join(err, printTinted(to, t, ""))
	}
	_, last := io.WriteString(to, "\n")
	return errors.Join(err, last)
}

// tinted is a text in the colour of the outcome that another text begins with.
type tinted struct{ text, outcome string }

func (t tinted) String() string { return t.text }

// colourOf is the colour of an outcome or a status; 0: it has none.
func colourOf(outcome string) int {
	first, _, _ := strings.Cut(strings.TrimSpace(outcome), " ")
	switch strings.ToLower(strings.TrimRight(first, ",:")) {
	case string(schemas.OutcomeSucceeded), "completed", "active", "allowed", schemas.PreviewMocked:
		return 32 // green
	case string(schemas.OutcomeFailed), string(schemas.OutcomeDenied), string(schemas.OutcomeExpired), "revoked":
		return 31 // red
	case string(schemas.OutcomeUnknown), string(schemas.OutcomeCanceled), string(schemas.EventWaiting):
		return 33 // yellow
	case string(schemas.EventStarted), "running", "sent":
		return 36 // cyan
	default:
		return 0
	}
}

// printOutcome prints a text that begins with an outcome.
func printOutcome(out io.Writer, text string) error {
	end := strings.IndexAny(text+"\n", " :\n")
	return printTinted(out, tinted{text[:end], text[:end]}, text[end:])
}

// printTinted prints a text in the colour of an outcome, if out has colours, and another after it.
func printTinted(out io.Writer, first tinted, rest string) error {
	if p, ok := out.(printer); ok && p.colour && colourOf(first.outcome) != 0 {
		if _, err := fmt.Fprintf(p.to, "\x1b[%dm%s\x1b[0m", colourOf(first.outcome), oneLine(first.text)); err != nil {
			return err
		}
		first.text = ""
	}
	_, err := io.WriteString(out, first.text+rest)
	return err
}

// printFacts prints pairs of a name and a text, and leaves out those without a text. Only the characters
// of keep are not escaped in a text; its lines stand one below the other.
func printFacts(out io.Writer, keep string, facts [][2]string) error {
	table := newTable(out)
	for _, fact := range facts {
		text := strings.ReplaceAll(escaped(fact[1], keep), "\n", "\n\t")
		if text != "" {
			fmt.Fprintln(table, fact[0]+"\t"+text)
		}
	}
	return table.Flush()
}

// PrintDocument prints a document as a line of JSON, in which <, > and & stay as they are.
func PrintDocument(out io.Writer, doc any) error {
	data, err := client.Encode(doc)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", data)
	}
	return err
}

// Print prints a document as JSON, or a line of text about it.
func (s *Streams) Print(asJSON bool, doc any, format string, args ...any) error {
	if asJSON {
		return PrintDocument(s.Out, doc)
	}
	_, err := fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}

// when is an instant in a table, in the time of this machine; empty: it is none.
func when(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format(time.DateTime)
}

// perMillion is the price of a million tokens, from that of one.
func perMillion(price string) string {
	one, ok := new(big.Rat).SetString(price)
	if !ok {
		return price
	}
	text := one.Mul(one, big.NewRat(1_000_000, 1)).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// positive is a number in a table; empty: it is 0.
func positive[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// orDash is a text in a table, or a dash.
func orDash[T ~string](s T) string { return cmp.Or(string(s), "-") }

// joined is those parts that are not empty, with a separator between.
func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// labels is those pairs of a name and a value that have a value, with equals within a pair and a separator between.
func labels(equals, separator string, pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			parts = append(parts, pairs[i]+equals+pairs[i+1])
		}
	}
	return strings.Join(parts, separator)
}
