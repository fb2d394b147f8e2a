package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/schemas"
)

// The values of the labels that OpenTelemetry's conventions for generative AI name.
const (
	operationChat = "chat"
	tokenInput    = "input"
	tokenOutput   = "output"
)

// The labels themselves, as the conventions' attributes are written in this format.
const (
	labelOperation = "gen_ai_operation_name"
	labelProvider  = "gen_ai_provider_name"
	labelModel     = "gen_ai_request_model"
	labelSide      = "gen_ai_token_type"
	labelError     = "error_type"
	labelBudget    = "budget"
)

// chatSeries describe the calls of models.
type chatSeries struct {
	models  modelSet
	budgets budgetSet

	tokens   *prometheus.HistogramVec
	duration *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	cost     *prometheus.CounterVec
	refused  *prometheus.CounterVec
}

func (m *Metrics) chats() {
	// The buckets are the conventions' own, so that dashboards made for them fit.
	m.chat.tokens = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gen_ai_client_token_usage",
		Help:    "Tokens of one call of a model, by whether they went in or came out. Where the provider told none they are estimated.",
		Buckets: prometheus.ExponentialBuckets(1, 4, 14),
	}, []string{labelOperation, labelProvider, labelModel, labelSide})
	m.chat.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gen_ai_client_operation_duration_seconds",
		Help:    "Time of one call of a model until the end of its answer. error_type is why it failed, and empty where it did not.",
		Buckets: prometheus.ExponentialBuckets(.01, 2, 14),
	}, []string{labelOperation, labelProvider, labelModel, labelError})
	m.chat.first = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gen_ai_server_time_to_first_token_seconds",
		Help:    "Time of one call of a model until the first of its answer came.",
		Buckets: []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10},
	}, []string{labelOperation, labelProvider, labelModel})
	m.registry.MustRegister(m.chat.tokens, m.chat.duration, m.chat.first)
	m.chat.cost = m.counters("weir_chat_cost_usd_total",
		"What calls of models have cost by the prices of the configuration, in US dollars.", labelProvider, labelModel)
	m.chat.refused = m.counters("weir_chat_refused_total", "Completions that a budget refused, by the budget.", labelBudget)
	m.SetBudgets(nil)
}

// SetModels says which models the configuration in force has, and where each is asked;
// every such pair gets series of its own. What else a caller may write as a model is
// "other", and so is every pair beyond the first 200 of the life of the process.
func (m *Metrics) SetModels(models []schemas.Model) {
	for _, p := range m.chat.models.set(models) {
		m.chat.tokens.WithLabelValues(operationChat, p.upstream, p.model, tokenInput)
		m.chat.tokens.WithLabelValues(operationChat, p.upstream, p.model, tokenOutput)
		m.chat.duration.WithLabelValues(operationChat, p.upstream, p.model, "")
		m.chat.first.WithLabelValues(operationChat, p.upstream, p.model)
		m.chat.cost.WithLabelValues(p.upstream, p.model)
	}
}

// SetBudgets says which budgets the configuration in force has; each gets a series of
// its own, up to 100 over the life of the process, beside that of tasks.
func (m *Metrics) SetBudgets(budgets []schemas.Budget) {
	for _, name := range m.chat.budgets.set(budgets) {
		m.chat.refused.WithLabelValues(name)
	}
}

// ChatCalled records one call of a model: how long it took in all and until the first of
// its answer, what it used, and what that cost. An empty code says that it was answered
// to its end. Of a call that was not sent, or used nothing, no tokens are recorded.
func (m *Metrics) ChatCalled(a schemas.ChatAudit, code schemas.Code) {
	p := m.chat.models.label(a.Model, a.Upstream)
	m.chat.duration.WithLabelValues(operationChat, p.upstream, p.model, errorType(code)).Observe(seconds(a.DurationMS))
	if a.FirstMS > 0 {
		m.chat.first.WithLabelValues(operationChat, p.upstream, p.model).Observe(seconds(a.FirstMS))
	}
	u := a.Usage
	if u == nil {
		return
	}
	m.chat.tokens.WithLabelValues(operationChat, p.upstream, p.model, tokenInput).Observe(float64(u.Prompt))
	m.chat.tokens.WithLabelValues(operationChat, p.upstream, p.model, tokenOutput).Observe(float64(u.Completion))
	if u.Priced && u.Nanos > 0 { // a counter refuses less
		m.chat.cost.WithLabelValues(p.upstream, p.model).Add(float64(u.Nanos) / 1e9)
	}
}

// errorType is how a call failed, as far as it is worth a histogram for each model: one
// has 17 series, and a configuration hundreds of models. The rest is other here, and has
// its code in the evidence.
func errorType(code schemas.Code) string {
	switch code {
	case "", schemas.ModelFailed, schemas.Canceled,
		schemas.UpstreamConnect, schemas.UpstreamTimeout, schemas.UpstreamReset, schemas.UpstreamTruncated:
		return string(code)
	default:
		return other
	}
}

// ChatRefused counts a completion that a budget refused.
func (m *Metrics) ChatRefused(budget string) {
	m.chat.refused.WithLabelValues(m.chat.budgets.label(budget)).Inc()
}

func seconds(ms int64) float64 { return (time.Duration(ms) * time.Millisecond).Seconds() }
