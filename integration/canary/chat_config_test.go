//go:build e2e

package canary_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/schemas"
)

// asked is a model that completions are asked of, and what a completion of it ends with, as
// a whole and as a stream alike.
type asked struct {
	model string
	end   string
}

// completed says that a completion came to its end.
const completed = `"finish_reason"`

// chatEnds are models that bring completions to every end that one can have by itself.
func chatEnds() []asked {
	word := func(c schemas.Code) string { return `"code":"` + string(c) + `"` }
	failed, broken := word(schemas.ModelFailed), word(schemas.UpstreamProtocol)
	list := []asked{
		{"any/fine", completed},
		{"any/full", completed},
		{"any/tells", completed},
		{"any/split", completed},
		{"short", completed},
		{"pair", completed},
		{"pairless", failed},
		{"any/first", failed},
		{"slow/hang", word(schemas.UpstreamTimeout)},
		{"any/reset", word(schemas.UpstreamReset)},
		{"any/garbage", broken},
		{"any/html-200", broken},
		{"any/html-502", failed},
		{"wire", broken},
		{"wire.bad", failed},
		{"wire.away", ""},
		{"wire.talk", ""},
		{"wire.short", ""},
		{"wire.coding", word(schemas.UpstreamEncoding)},
		{"nobody", word(schemas.UpstreamConnect)},
		{"forged", word(schemas.UpstreamTLS)},
		{"unresolved", word(schemas.UpstreamDNS)},
		{"inside", word(schemas.DenyAddress)},
		{"keyless", word(schemas.SecretUnavailable)},
		{"unpriced", word(schemas.BudgetExhausted)},
	}
	for _, status := range refusals() {
		list = append(list, asked{fmt.Sprintf("any/refuses-%d", status), failed})
	}
	return list
}

// streamEnds are ends that only a stream comes to, behind the first of an answer.
func streamEnds() []asked {
	word := func(c schemas.Code) string { return `"code":"` + string(c) + `"` }
	return []asked{
		{"any/middle", word(schemas.ModelFailed)},
		{"any/cut", word(schemas.UpstreamTruncated)},
		{"any/lost", `"code":"UPSTREAM_`},
		{"any/not-json", word(schemas.UpstreamProtocol)},
		{"slow/hang-open", word(schemas.UpstreamTimeout)},
		{"slow/hang-mid", word(schemas.UpstreamTimeout)},
		{"cut/endless", word(schemas.BudgetExhausted)},
	}
}

// refusals are the statuses that a provider refuses with.
func refusals() []int { return []int{400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529} }

// modelsText is the models' part of the configuration, and that of the budgets. All but
// one get the same secrets, and all but one every member: a canary is in each.
func modelsText() string {
	const headers = `headers: {Authorization: "Bearer ${secret:MODEL}", X-Beside: "Basic ${secret:BESIDE}"}`
	upstream := func(url, model string) string {
		return fmt.Sprintf("url: %q, network: public, pass: \"*\", model: %q, %s", url, model, headers)
	}
	models := map[string]string{
		"short":    `alias: any/fine`,
		"pair":     "upstreams: [{name: first, " + upstream("http://llm.example/v1", "status-503") + "}, {name: second, " + upstream("http://llm.example/v1", "fine") + "}]",
		"pairless": "upstreams: [{name: third, weight: 1, " + upstream("http://llm.example/v1", "refuses-500") + "}, {name: fourth, weight: 2, " + upstream("http://llm.example/v1", "refuses-429") + "}]",
		"keyless":  `url: "http://llm.example/v1", network: public, pass: "*", headers: {Authorization: "Bearer ${secret:NOT_THERE}"}`,
		"unpriced": upstream("http://llm.example/v1", "fine"),
		"closed":   `url: "http://llm.example/v1", network: public`,
	}
	for _, pattern := range []string{"any/*", "slow/*", "cut/*", "spent/*", "window/*", "named/*"} {
		models[pattern] = upstream("http://llm.example/v1", "*")
	}
	for model, url := range map[string]string{
		"wire": "http://plain.example/model/wire", "wire.bad": "http://plain.example/model/bad", "wire.away": "http://plain.example/model/away", "wire.talk": "http://plain.example/model/talk",
		"wire.short": "http://plain.example/model/short", "wire.coding": "http://plain.example/model/coding",
		"nobody": "http://refused.example", "forged": "https://bad.example", "inside": "http://private.example", "poison": "http://panics.example", "unresolved": "http://nowhere.open.example",
	} {
		models[model] = upstream(url, "fine")
	}
	var b strings.Builder
	b.WriteString("models:\n")
	for _, name := range slices.Sorted(maps.Keys(models)) {
		more := models[name]
		if !strings.Contains(more, "alias") {
			if name != "unpriced" {
				more += ", price: {input: 1.25, output: 10}"
			}
			if strings.HasPrefix(name, "slow/") {
				more += ", timeouts: {connect: 5s, first_byte: 500ms, idle: 500ms}"
			}
		}
		fmt.Fprintf(&b, "  %q: {%s}\n", name, more)
	}
	return b.String() + `budgets:
  everybody: {per: [tenant, token], window: 24h, requests: 1000000, tokens: 1000000000}
  each: {per: [tenant, model], models: ["any/*"], tokens: 1000000000, usd: 100000}
  tasks: {per: [task], requests: 1000}
  spent: {models: ["spent/*"], requests: 1}
  windows: {per: [model], models: ["window/*"], window: 8760h, requests: 1}
  money: {models: [unpriced], usd: 5}
  cut: {per: [model], models: ["cut/*"], tokens: 4000}
`
}

// withoutModel is the configuration as it is behind the removal of one.
func (h *house) withoutModel(name string) func() (cfg config.Config, err error) {
	cfg := h.cfg
	cfg.Models = maps.Clone(cfg.Models)
	delete(cfg.Models, name)
	return func() (config.Config, error) { return cfg, nil }
}
