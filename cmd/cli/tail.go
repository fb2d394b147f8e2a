package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"
)

func newTail(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "tail actions [ID] | evidence | dead",
		Short: "follow what happens, as it happens",
		Example: `  weir tail actions                     # each action, as it is accepted and as it goes on
  weir tail actions 01890a5d-…          # one action, from its beginning to its end
  weir tail evidence --json | jq .payload`,
		ValidArgs: []string{"actions", "evidence", "dead"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || (len(args) == 2 && args[0] != "actions") {
				return usageError{errors.New("tail takes one of: actions [ID], evidence, dead")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.client(env)
			if err != nil {
				return err
			}
			show := func(e sse.Event) error { return showEvent(env, &f, e) }
			switch {
			case len(args) == 2:
				return c.Follow(cmd.Context(), "/v1/actions/"+url.PathEscape(args[1])+"/events", show)
			case args[0] == "actions":
				return c.watchActions(cmd.Context(), env.Out, f.asJSON)
			case args[0] == "evidence":
				return c.Follow(cmd.Context(), "/v1/evidence", show)
			case args[0] == "dead":
				return c.watchDead(cmd.Context(), env.Out, f.asJSON)
			default:
				return usageError{fmt.Errorf("tail knows no %q; it takes actions, evidence or dead", args[0])}
			}
		},
	}
	f.register(cmd, env)
	return cmd
}

// showEvent prints one event.
func showEvent(env *Env, f *clientFlags, e sse.Event) error {
	if f.asJSON {
		_, err := fmt.Fprintln(env.Out, e.Data)
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(e.Data), &doc); err != nil {
		return fmt.Errorf("the stream holds something that is not JSON: %w", err)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s %-10s", e.LastEventID, e.Type)
	for _, key := range []string{"time", "action_id", "kind", "entry", "code", "reason"} {
		if v, ok := doc[key].(string); ok && v != "" {
			line.WriteString("  " + v)
		}
	}
	nested, ok := doc[e.Type].(map[string]any)
	if !ok {
		nested, ok = doc["data"].(map[string]any)
	}
	if ok {
		if brief, err := json.Marshal(nested); err == nil {
			line.WriteString("  " + cut(string(brief), 160))
		}
	}
	_, err := fmt.Fprintln(env.Out, oneLine(line.String()))
	return err
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
