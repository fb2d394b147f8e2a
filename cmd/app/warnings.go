package app

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"weir/internal/config"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/telemetry"
)

// warnings are faults of a configuration that an operator can mend while Weir runs, so it takes effect.
func (a *App) warnings(c config.Config) []string {
	return append(secretWarnings(c, a.secretStore()), a.natsWarnings()...)
}

// secretWarnings are secrets that the store does not have, or that are too short to be redacted.
func secretWarnings(c config.Config, store *secrets.Store) (all []string) {
	if err := store.Check(); err != nil {
		all = append(all, fmt.Sprintf("secrets: %v", err))
	}
	warn := func(whose string, templates map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(templates)) {
			if w := unsafeSecret(store, templates[name]); w != "" {
				all = append(all, whose+name+": "+w)
			}
		}
	}
	for _, e := range c.Policy.Allowlist {
		entry := fmt.Sprintf("entry %q: ", e.Name)
		warn(entry+"header ", e.Headers)
		warn(entry+"query parameter ", e.Query)
		warn(entry+"body member ", e.Body)
	}
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		warn("agent "+taskType+": ", map[string]string{"token": c.Agents[taskType].Token})
	}
	for _, m := range slices.Sorted(maps.Keys(c.Models)) {
		warn("model "+m+": header ", c.Models[m].Headers)
		for _, u := range c.Models[m].Upstreams {
			warn("model "+m+": upstream "+u.Name+": header ", u.Headers)
		}
	}
	return all
}

// natsWarnings warn about content that crosses NATS in clear, and about what NATS does not serve.
func (a *App) natsWarnings() (all []string) {
	if at := a.NATS(); at != "" && !config.Loopback(at) {
		text := fmt.Sprintf("nats.listen: other machines can reach %s, and it has no TLS: anyone who reads its traffic reads the evidence", at)
		if a.servesRPC() {
			text += ", and the tokens of those who use the agent API there"
		}
		all = append(all, text)
	}
	if a.role.accepts() && !a.servesRPC() {
		all = append(all, "the agent API is served over HTTP and not over NATS: this node requires no token, so every client of the NATS server could change the rules; set auth.mode to tokens to serve it over NATS")
	}
	return all
}

// unsafeSecret describes the problem with the secrets of a template.
func unsafeSecret(store *secrets.Store, template string) string {
	_, used, err := store.Resolve(template)
	if err != nil {
		return err.Error() + "; its calls will fail until it is there"
	}
	for _, s := range used {
		if s.Len() < redact.MinSecret {
			return fmt.Sprintf("a secret in it is shorter than %d bytes; it cannot be taken out of answers", redact.MinSecret)
		}
	}
	return ""
}

func (a *App) notice(text string) { a.opts.notice(text) }

// notice writes a warning in the format of the log.
func (o Options) notice(text string) {
	switch {
	case o.Notices == nil:
	case o.Config.Telemetry.LogFormat == telemetry.FormatText:
		fmt.Fprintln(o.Notices, "weir: warning:", text)
	default:
		slog.New(slog.NewJSONHandler(o.Notices, nil)).Warn("warning_raised", "text", text)
	}
}

// reportLoss lists the records that the operator has given up.
func (a *App) reportLoss() {
	if a.server == nil || !a.opts.AcceptLoss {
		return
	}
	for _, l := range a.server.Lost() {
		a.notice(l + "; a call whose record is gone may be made a second time when it is asked for again")
	}
	if len(a.server.Lost()) == 0 {
		a.notice("--accept-loss: nothing was lost")
	}
	a.notice("--accept-loss: take it away before the next start, or damage is not noticed again")
}
