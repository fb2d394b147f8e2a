package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/schemas"
)

// api is a running Weir, as one command uses it.
type api struct {
	*client.Client
	Streams

	asJSON bool
	// last is the end of the page that was read last, and items the number of items on all pages.
	last  pageEnd
	items int
}

// pageEnd is a page of a list without its items.
type pageEnd struct {
	Next string `json:"next"`
	schemas.Freshness
}

// apiFunc is what a command does with a running Weir.
type apiFunc func(ctx context.Context, c *api, args []string) error

type clientFlags struct {
	server    string
	tokenFile string
	asJSON    bool
	// fallback is a file with a token that need not be there.
	fallback string
	// words has a refusal said in words with --json too.
	words bool
}

func (f *clientFlags) register(cmd *cobra.Command, env *Env) {
	registerServer(cmd, env, &f.server)
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "a file with the token to send (default $WEIR_TOKEN)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one document a line")
}

func registerServer(cmd *cobra.Command, env *Env, server *string) {
	cmd.Flags().StringVar(server, "server", env.serverURL(), "the URL of the Weir ($WEIR_URL)")
}

// remote completes a command that calls a running Weir.
func remote(env *Env, cmd *cobra.Command, run apiFunc) *cobra.Command {
	return new(clientFlags).command(env, cmd, run)
}

// command completes a command that calls a running Weir: it has the flags, and run has the client.
func (f *clientFlags) command(env *Env, cmd *cobra.Command, run apiFunc) *cobra.Command {
	f.register(cmd, env)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.client(env)
		if err != nil {
			return err
		}
		return f.refused(env, run(cmd.Context(), c, args))
	}
	return cmd
}

// refused prints an answer of the server that is an error, in the form that was asked for.
func (f *clientFlags) refused(env *Env, err error) error {
	if _, nobody := errors.AsType[*client.UnreachableError](err); nobody {
		return fmt.Errorf("%w, or name another with --server", err)
	}
	no, refused := errors.AsType[*client.Error](err)
	if !refused || no.Body == nil || !f.asJSON || f.words {
		return err
	}
	fmt.Fprintf(env.Err, "%s\n", bytes.TrimSpace(no.Body))
	return exitError{code: exitCode(err)}
}

func (f *clientFlags) client(env *Env) (*api, error) {
	token, err := f.token(env)
	if err != nil {
		return nil, err
	}
	c, err := client.New(f.server, token)
	if err != nil {
		return nil, usagef("--server %w", err)
	}
	return &api{Client: c, Streams: env.Streams, asJSON: f.asJSON}, nil
}

// token is what the file holds, or the environment, or the fallback; nothing
// where there is none, for a server may be open.
func (f *clientFlags) token(env *Env) (string, error) {
	if f.tokenFile != "" {
		return readToken("--token-file", f.tokenFile, " \t\r\n")
	}
	if token := env.Lookup("WEIR_TOKEN", ""); token != "" || f.fallback == "" {
		return token, nil
	}
	token, err := readToken("--token-file", f.fallback, " \t\r\n")
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return "", nil // it need not be there
	}
	return token, err
}

// readToken reads a file that holds one token and nothing else, which a flag names. The token has none of the
// characters of not.
func readToken(flag, name, not string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, not) {
		return "", usagef("%s does not hold one token", name)
	}
	return token, nil
}

// serverURL is the Weir that is called if no flag names another.
func (e *Env) serverURL() string { return e.Lookup("WEIR_URL", "http://127.0.0.1:8092") }

// Lookup is a variable of the environment, or other.
func (e *Env) Lookup(name, other string) string {
	for _, kv := range e.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name && v != "" {
			return v
		}
	}
	return other
}

// setAll sets the headers that have a value, from names and values in turn.
func setAll(h http.Header, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h.Set(pairs[i], pairs[i+1])
		}
	}
}

// get reads the document of a route.
func get[T any](ctx context.Context, c *api, route string, query url.Values) (T, error) {
	return client.Get[T](ctx, c.Client, route, query)
}

// post sends a document to a route, nil: none, and returns the document that answers it.
func post[T any](ctx context.Context, c *api, route string, body any) (T, error) {
	return client.Post[T](ctx, c.Client, route, body)
}

// within is the path of something below a route that lists such things.
func within(route, id, rest string) string { return route + "/" + url.PathEscape(id) + rest }

// The routes without a constant in the schemas, which other commands share.
const (
	routeActions = "/v1/actions"
	routeDead    = "/v1/dead-letters"
	routePolicy  = "/v1/policy"
	routeTokens  = "/v1/tokens"
)

// everything is the limit of a list without one.
const everything = math.MaxInt

// biggestPage is how many items the server gives at once.
const biggestPage = 1000

// list reads the items of a route page by page, until there are no more of them or as many as limit.
func list[T any](ctx context.Context, c *api, route string, query url.Values, limit int) iter.Seq2[T, error] {
	return pages[T](ctx, c, route, "cursor", query, limit)
}

// param is a query with the flag of that name, if it is set.
func param(cmd *cobra.Command, name string) url.Values {
	query := url.Values{}
	if value := cmd.Flags().Lookup(name).Value.String(); value != "" {
		query.Set(name, value)
	}
	return query
}

// history reads the events so far below a route.
func history[T any](ctx context.Context, c *api, route string, limit int) iter.Seq2[T, error] {
	return pages[T](ctx, c, route+"/events", paramAfter, url.Values{"limit": {strconv.Itoa(biggestPage)}}, limit)
}

// paramAfter is the parameter of events, of which each page has a next, be it empty. A list may have empty pages.
const paramAfter = "after"

// pages reads the items of a route until there are no more of them or as many as limit. next is the parameter that
// names the end of the page before.
func pages[T any](ctx context.Context, c *api, route, next string, query url.Values, limit int) iter.Seq2[T, error] {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	return func(yield func(T, error) bool) {
		for left := limit; left > 0; {
			if limit < everything {
				query.Set("limit", strconv.Itoa(min(left, biggestPage)))
			}
			p, err := get[struct {
				Items []T `json:"items"`
				pageEnd
			}](ctx, c, route, query)
			c.last, c.items = p.pageEnd, c.items+len(p.Items)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range p.Items[:min(len(p.Items), left)] {
				if left--; !yield(one, nil) {
					return
				}
			}
			if p.Next == "" || len(p.Items) == 0 && next == paramAfter {
				return
			}
			query.Set(next, p.Next)
		}
	}
}

// printList prints documents, one a line of JSON, or as a table for a person: a header, and a row for
// each. If there are none, a person reads empty on Err, unless that is empty. It prints what was read before an error.
func printList[T any](c *api, all iter.Seq2[T, error], empty, header string, row func(T) []any) (err error) {
	table := newTable(c.Out)
	defer func() { err = errors.Join(err, table.Flush()) }()
	headed := c.asJSON
	for one, err := range all {
		if err != nil {
			return err
		}
		if c.asJSON {
			if err := PrintDocument(c.Out, one); err != nil {
				return err
			}
			continue
		}
		if !headed {
			fmt.Fprintln(table, header)
		}
		headed = true
		printRow(table, row(one)...)
	}
	if !headed && empty != "" {
		fmt.Fprintln(c.Err, empty)
	}
	return nil
}

// print prints a document, or a line of text about it, unless there is an error.
func (c *api) print(doc any, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return c.Print(c.asJSON, doc, format, args...)
}

// printVerdict prints a document, or a text that may begin with an outcome, and ends the program with a code.
func (c *api) printVerdict(doc any, text string, code int) error {
	var err error
	if c.asJSON {
		err = PrintDocument(c.Out, doc)
	} else {
		err = printOutcome(c.Out, text)
	}
	return cmp.Or(err, ended(code))
}

// printLine prints a document, or cells of it with a separator between.
func (c *api) printLine(doc any, separator string, cells []any) error {
	if c.asJSON {
		return PrintDocument(c.Out, doc)
	}
	return printCells(c.Out, separator, cells)
}
