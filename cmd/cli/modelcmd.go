package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/schemas"
)

func newModels(env *Env) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "models",
		Short: "list the models that may be asked",
		Long: `List the models that the token may ask, by the names they are asked for by: exact ones,
other names for them, and patterns, which stand for every name that fits. Prices are
in US dollars for a million tokens.`,
		Example: `  weir models
  weir chat openai/gpt-4o "What is a weir?"`,
		Args: Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.asking(env, func(c *api) error {
				all, err := c.listModels(cmd.Context())
				if err != nil {
					return err
				}
				return printModels(env, all, f.asJSON)
			})
		},
	}
	f.register(cmd, env)
	return cmd
}

// listModels asks on the one surface whose errors have a form of their own.
func (c *api) listModels(ctx context.Context) ([]schemas.ModelView, error) {
	resp, err := c.Do(ctx, http.MethodGet, "/v1"+schemas.RouteModels, http.Header{"Accept": {"application/json"}}, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, chatRefusal(resp)
	}
	var list schemas.ModelList
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&list)
	return list.Data, err
}

func printModels(env *Env, all []schemas.ModelView, asJSON bool) error {
	const empty = "there are no models that this token may ask; the configuration has them under models"
	return printList(env, asJSON, all, empty, "MODEL\tOWNER\tCONTEXT\tINPUT\tOUTPUT\tREQUEST", func(m schemas.ModelView) []any {
		context, input, output, request := "-", "-", "-", "-"
		if m.ContextLength > 0 {
			context = strconv.FormatInt(m.ContextLength, 10)
		}
		if p := m.Pricing; p != nil {
			input, output, request = perMillion(p.Prompt), perMillion(p.Completion), cmp.Or(p.Request, "0")
		}
		return []any{m.ID, m.OwnedBy, context, input, output, request}
	})
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
