package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/client"
	"weir/cmd/cli/archive"
	"weir/internal/nearest"
	"weir/schemas"
)

// operation is what an operator does to calls, by the state that the first argument of a command names.
type operation struct {
	state, route string
	said         string // of it afterwards, with a place for the calls
}

const oneEntry = "%s takes one entry of the policy; see `%s --help`"

func newPause(env *Env) *cobra.Command {
	return operatorCommand(env, true, &cobra.Command{
		Use:   "pause [ENTRY]",
		Short: "Pause calls, on all workers",
		Long: `Hold back the calls of an entry of the policy, to a destination, for a tenant or of a
kind of action, until you resume them. Calls wait up to their deadlines, and new ones are
still accepted. Calls that are already sent go on.`,
		Example: `  weir pause github --reason "their maintenance, until 14:00"
  weir pause --destination https://api.example.com
  weir pause --tenant acme
  weir pause --kind plan`,
		Args: between(0, 1, oneEntry),
	}, operation{"", schemas.RouteOperationsPause, "paused: calls %s wait until `weir resume` lets them go"})
}

func newResume(env *Env) *cobra.Command {
	return operatorCommand(env, false, &cobra.Command{
		Use:   "resume [ENTRY]",
		Short: "Resume calls that are paused",
		Long:  `Resume the calls that a pause holds back. Waiting calls go on at once.`,
		Example: `  weir resume github
  weir resume --tenant acme`,
		Args: between(0, 1, oneEntry),
	}, operation{"", schemas.RouteOperationsResume, "resumed: calls %s"})
}

func newPin(env *Env) *cobra.Command {
	return operatorCommand(env, true, &cobra.Command{
		Use:   "pin open|closed|off [ENTRY]",
		Short: "Pin the breaker of a destination open or closed",
		Long: `Pin the breaker of a destination. Weir stops calls to a destination that failed too often in
a row, or that answered with 429 or Retry-After. A pin overrides that: pinned closed, Weir
calls the destination; pinned open, it does not. A pin is for all destinations of an entry
of the policy, or for one. A destination's pin overrides its entry's. Off removes the pin.`,
		Example: `  weir pin closed --destination https://api.example.com
  weir pin open github --reason "their data is wrong today"
  weir pin off github`,
		Args: between(1, 2, "%s takes open, closed or off, and an entry or --destination; see `%s --help`"),
	},
		operation{schemas.PinOpen, schemas.RouteOperationsPin, "pinned open: calls %s wait"},
		operation{schemas.PinClosed, schemas.RouteOperationsPin, "pinned closed: calls %s are made, whatever becomes of them"},
		operation{"off", schemas.RouteOperationsUnpin, "unpinned: calls %s are made as Weir finds their destination"})
}

func pinWords() []string { return []string{schemas.PinOpen, schemas.PinClosed, "off"} }

// operatorCommand completes a command for operations, which may have a reason. Several differ by their states: the first
// argument names one. The calls are those of an argument after that, or of a flag.
func operatorCommand(env *Env, reason bool, cmd *cobra.Command, all ...operation) *cobra.Command {
	var req schemas.OperationRequest
	what, n := "an entry of the policy or --destination", 1
	cmd.Flags().StringVar(&req.Destination, "destination", "", "calls to this destination, such as https://api.example.com")
	if reason {
		cmd.Flags().StringVar(&req.Reason, "reason", "", "why; weir operations shows it")
	}
	if len(all) == 1 {
		what, n = "an entry of the policy, --destination, --tenant or --kind", 0
		cmd.Flags().StringVar(&req.Tenant, "tenant", "", "calls for this tenant")
		cmd.Flags().StringVar((*string)(&req.Kind), "kind", "", "calls of this kind of action, such as plan")
	}
	return remote(env, cmd, func(ctx context.Context, c *api, args []string) error {
		if len(args) > n {
			req.Entry = args[n]
		}
		if req.Named() != 1 {
			return usagef("name one of these: %s; see `%s --help`", what, cmd.CommandPath())
		}
		state := strings.Join(args[:n], "")
		i := slices.IndexFunc(all, func(o operation) bool { return o.state == state })
		if i < 0 {
			return usagef("%q is not open, closed or off%s", state, nearest.Hint(state, pinWords()))
		}
		if state != "off" {
			req.State = state
		}
		op, err := post[schemas.Operation](ctx, c, all[i].route, req)
		return c.print(op, err, all[i].said, aboutOf(op.Target))
	})
}

func aboutOf(t schemas.Target) string {
	switch {
	case t.Entry != "":
		return "under the entry " + t.Entry
	case t.Destination != "":
		return "to " + t.Destination
	case t.Tenant != "":
		return "for the tenant " + t.Tenant
	default:
		return "of kind " + string(t.Kind)
	}
}

func newOperations(env *Env) *cobra.Command {
	return remote(env, &cobra.Command{
		Use:   "operations",
		Short: "List paused and pinned calls, and why",
		Long: `List the pauses and pins of operators, and the destinations that Weir does not call because
they answered with 429 or Retry-After or failed too often in a row.`,
		Example: `  weir operations
  weir operations --json`,
		Args: Exactly(0, "no arguments"),
	}, func(ctx context.Context, c *api, _ []string) error {
		v, err := get[schemas.OperationsView](ctx, c, schemas.RouteOperations, nil)
		if err != nil || c.asJSON {
			return c.print(v, err, "")
		}
		const header = "WHAT\tCALLS\tBY\tSINCE\tUNTIL\tREASON"
		return printList(c, read(heldBack(v), nil), "nothing is paused or pinned", header, func(row []any) []any { return row })
	})
}

// heldBack is a row for each operation and destination.
func heldBack(v schemas.OperationsView) (rows [][]any) {
	for _, op := range v.Items {
		what := "paused"
		if op.Do == schemas.OperationPin {
			what = "pinned " + op.State
		}
		rows = append(rows, []any{what, aboutOf(op.Target), orDash(op.By), when(op.At), "-", orDash(op.Reason)})
	}
	for _, d := range v.Destinations {
		why := map[string]string{
			schemas.DestinationAsked:  "it requested a pause",
			schemas.DestinationOpen:   fmt.Sprintf("%d failures in a row", d.Failures),
			schemas.DestinationTrying: "one call sees whether it is well again",
		}[d.State]
		if len(d.Tenants) > 0 {
			why += ", by tenant " + strings.Join(d.Tenants, ", ")
		}
		about := fmt.Sprintf("to %s under the entry %s", d.Destination, d.Entry)
		rows = append(rows, []any{"paused", about, "weir", "-", orDash(when(d.Until)), why})
	}
	return rows
}

func newBudgets(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budgets",
		Short: "List the use of models and its limits",
		Long: `List the accounts of budgets: used/limit, and in brackets the amount reserved for
completions in progress. The configuration defines the budgets; the budget called task is
a task's own.`,
		Example: `  weir budgets
  weir budgets --budget team --json`,
		Args: Exactly(0, "no arguments"),
	}
	name := cmd.Flags().String("budget", "", "only the accounts of this budget")
	return remote(env, cmd, func(ctx context.Context, c *api, _ []string) error {
		empty := "no budget was used yet; `budgets` in the configuration bounds what may be used"
		if *name != "" {
			empty = ""
		}
		all := list[schemas.BudgetView](ctx, c, schemas.RouteBudgets, param(cmd, "budget"), everything)
		err := printList(c, all, empty, "BUDGET\tOF\tREQUESTS\tTOKENS\tUSD\tOPEN\tRESETS", func(b schemas.BudgetView) []any {
			return []any{b.Budget, ownerOf(b), countOf(b.Requests), countOf(b.Tokens), countOf(b.USD), b.Open, cmp.Or(when(b.Resets), "never")}
		})
		if err == nil && *name != "" && c.items == 0 {
			err = fmt.Errorf("there is no budget %s, or nothing was used of it yet; `weir budgets` lists those in use", *name)
		}
		return err
	})
}

// ownerOf is whose an account is, as far as its budget tells them apart.
func ownerOf(b schemas.BudgetView) string {
	return cmp.Or(labels(" ", ", ", "token", b.Token, "task", b.Task, "model", b.Model), "all")
}

// countOf is used/limit, and in brackets what is held.
func countOf(c *schemas.BudgetCount) string {
	if c == nil {
		return "-"
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	text := number(c.Used) + "/" + number(c.Limit)
	if c.Held > 0 {
		text += " (" + number(c.Held) + ")"
	}
	return text
}

func newBackup(env *Env) *cobra.Command {
	return adminFlags().command(env, &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up a running Weir with an embedded log into a file",
		Long: `Back up a running Weir into FILE: the log, the evidence, tokens, rules, budgets and the
repositories that Weir hosts. Weir goes on working. FILE must not exist. The command writes
FILE.partial, verifies its checksums, and renames it to FILE when it is complete. The file
holds the callers' requests with their credentials: keep it as you keep the data directory.
The configuration file and admin.token are not in it.

It needs a token with the scope admin of the tenant default. weir restore reads the file.`,
		Example: `  weir backup weir.backup
  weir backup /backup/weir.backup --server https://weir.example.com --token-file admin.token`,
		Args: Exactly(1, "a file to write"),
	}, func(ctx context.Context, c *api, args []string) error {
		name := args[0]
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return usagef("%s exists already; name another file, or remove it", name)
		}
		resp, err := c.Do(ctx, http.MethodGet, schemas.RouteBackup, nil, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return client.ErrorOf(resp)
		}
		partial := name + ".partial"
		if err := receiveBackup(c, resp.Body, partial); err != nil {
			return err
		}
		return os.Rename(partial, name)
	})
}

// receiveBackup writes a backup to a file while it verifies it, and prints what is in it.
func receiveBackup(c *api, body io.Reader, file string) (err error) {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a backup that was interrupted
		return Usage(err)
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Usage(err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	body = io.TeeReader(body, out)
	part := ""
	m, err := archive.Read(body, func(entry string, _ io.Reader) error {
		if now := path.Dir(entry); path.Dir(now) == "streams" && now != part {
			part = now
			fmt.Fprintln(c.Err, "back up", path.Base(part))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // what follows the manifest ends the archive
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	total := int64(0)
	for _, p := range m.Parts {
		total += p.Bytes
	}
	return c.print(m, nil, "%d parts, %d bytes, of Weir %s", len(m.Parts), total, m.Weir)
}
