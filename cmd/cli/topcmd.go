package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/schemas"
)

// topFlags are the flags of weir top.
type topFlags struct {
	clientFlags

	since  string
	every  time.Duration
	once   bool
	tenant string
}

func newTop(env *Env) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "watch rates, latencies and outcomes as they change",
		Long: `Shows how many actions come and end a second, what is open, how long actions take and
how they end, and which entries and kinds are slowest. On a terminal it is drawn anew until
Ctrl-C; elsewhere it is printed once.`,
		Example: `  weir top
  weir top --since 24h --once
  weir top --json | jq .total.rate`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.every < 200*time.Millisecond || f.every > time.Hour {
				return usageError{fmt.Errorf("--every %s: it takes from 200ms to 1h", f.every)}
			}
			return f.asking(env, func(c *api) error { return c.top(cmd.Context(), env, &f) })
		},
	}
	f.register(cmd, env)
	cmd.Flags().StringVar(&f.since, "since", "15m", "from then on: 15m, 24h, 7d, or an instant")
	cmd.Flags().DurationVar(&f.every, "every", 2*time.Second, "how often it is drawn")
	cmd.Flags().BoolVar(&f.once, "once", false, "print it once, on a terminal too")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "another tenant's, or * for all; for an admin of the operator's")
	return cmd
}

// figures reads the figures, in groups.
func (c *api) figures(ctx context.Context, f *topFlags, by string) (schemas.Stats, error) {
	q := url.Values{"since": {f.since}, "by": {by}}
	if f.tenant != "" {
		q.Set("tenant", f.tenant)
	}
	return c.Stats(ctx, q)
}

// The sequences that draw on a terminal: another screen without a cursor, and back; the
// upper left corner; and the rest of a line or of the screen emptied.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l"
	screenOff = "\x1b[?25h\x1b[?1049l"
	screenTop = "\x1b[H"
	lineEnd   = "\x1b[K\n"
	screenEnd = "\x1b[J"
)

func (c *api) top(ctx context.Context, env *Env, f *topFlags) error {
	if f.asJSON {
		s, err := c.figures(ctx, f, "entry")
		if err != nil {
			return err
		}
		return printDocuments(env.Out, s)
	}
	text, err := c.topText(ctx, f)
	if err != nil {
		return err
	}
	if f.once || !Terminal(env.Out) {
		_, err := fmt.Fprint(env.Out, text)
		return err
	}
	screen := Unescaped(env.Out)
	fmt.Fprint(screen, screenOn)
	defer fmt.Fprint(screen, screenOff)
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		fmt.Fprint(screen, screenTop+strings.ReplaceAll(escaped(text, "\n\t"), "\n", lineEnd)+screenEnd)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now, err := c.topText(ctx, f)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil: // a server that was there comes back
			text = "weir: " + err.Error() + "; trying again\n" + text
		default:
			text = now
		}
	}
}

func (c *api) topText(ctx context.Context, f *topFlags) (string, error) {
	entries, err := c.figures(ctx, f, "entry")
	if err != nil {
		return "", err
	}
	kinds, err := c.figures(ctx, f, "kind")
	if err != nil {
		return "", err
	}
	return topView(entries, kinds, c.BaseURL()), nil
}
