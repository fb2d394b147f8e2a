package app

import (
	"fmt"
	"maps"
	"slices"

	"weir/internal/config"
	"weir/internal/redact"
	"weir/internal/secrets"
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
	for _, e := range c.Policy.Allowlist {
		for _, added := range []struct {
			what      string
			templates map[string]string
		}{{"header", e.Headers}, {"query parameter", e.Query}, {"body member", e.Body}} {
			for _, name := range slices.Sorted(maps.Keys(added.templates)) {
				if w := unsafeSecret(store, added.templates[name]); w != "" {
					all = append(all, fmt.Sprintf("entry %q: %s %s: %s", e.Name, added.what, name, w))
				}
			}
		}
	}
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		if w := unsafeSecret(store, c.Agents[taskType].Token); w != "" {
			all = append(all, fmt.Sprintf("agent %s: token: %s", taskType, w))
		}
	}
	for _, m := range slices.Sorted(maps.Keys(c.Models)) {
		all = append(all, unsafeHeaders(store, "model "+m, c.Models[m].Headers)...)
		for _, u := range c.Models[m].Upstreams {
			all = append(all, unsafeHeaders(store, "model "+m+": upstream "+u.Name, u.Headers)...)
		}
	}
	return all
}

// unsafeHeaders says what is wrong with the secrets of headers, by their names.
func unsafeHeaders(store *secrets.Store, whose string, headers map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if w := unsafeSecret(store, headers[name]); w != "" {
			all = append(all, whose+": header "+name+": "+w)
		}
	}
	return all
}

// natsWarnings are about what goes over NATS in the clear, and what does not go.
func (a *App) natsWarnings() (all []string) {
	if at := a.NATS(); at != "" && !config.Loopback(at) {
		text := fmt.Sprintf("nats.listen: other machines can reach %s, and it has no TLS: anyone who reads its traffic reads the evidence", at)
		if a.servesRPC() {
			text += ", and the tokens of those who use the agent API there"
		}
		all = append(all, text)
	}
	if a.role.takes() && !a.servesRPC() {
		all = append(all, "the agent API is served over HTTP and not over NATS: this node requires no token, so every client of the NATS server could change the rules; set auth.mode to tokens to serve it over NATS")
	}
	return all
}

// unsafeSecret says what is wrong with the secrets of a template.
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

// tellLoss says what is gone from the log by the operator's leave.
func (a *App) tellLoss() {
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
