//go:build e2e

package canary_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// TestNothingLeaks drives the built program through all of its surfaces, kills it in the
// middle of its work, starts it again, has it die with a crash report, and finds no canary
// in any sink.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	g := &planted{}
	w := newWorld(t, g)
	w.drive()
	w.crash()
	w.ended()
	sinks := w.running()
	w.work("aborted")
	require.NoError(t, w.p.Signal(syscall.SIGQUIT))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code, _ := w.p.Wait(ctx)
	require.Equal(t, 2, code, "the program died of the signal")
	contains(t, w.p.Said(), "goroutine ", "a crash report")
	sinks = append(sinks, w.after()...)

	w.reached()
	leaks, err := scan(g.list(), sinks)
	require.NoError(t, err)
	assert.Empty(t, leaks)
	for _, p := range append(w.past, w.p) {
		assert.Empty(t, checkLog(p), "lines of the log")
	}
	// Each sink was read, and is searched. Accounts of budgets hold no name.
	marks := map[string]string{"stored accounts of budgets": `"used":{"r":`}
	for _, s := range sinks {
		found := newSeeker([]canary{{text: cmp.Or(marks[s.name], beacon)}}, false).find(s.data)
		assert.NotEmpty(t, found, "the sink %q (%d bytes) has no beacon", s.name, len(s.data))
	}
}

// work has a call of each sort under way. It returns the ids of two that are not sent again
// after a crash, of streams, and of two that are.
func (w *world) work(class string) (once, streams, again []string) {
	at := w.plain.URL() + "/held?q="
	once = []string{
		w.begin("plain", "/v1/execute", w.json(object{"method": "POST", "url": at + w.g.plant(class+" query"), "body": object{w.g.plant(class + " key"): w.g.plant(class + " body")}})),
		w.begin("agent", schemas.RouteRunSync, w.run("RUN.HELD", schemas.RiskPHI, w.json(object{w.g.plant(class + " input key"): w.g.plant(class + " input")}))),
	}
	again = []string{
		w.begin("plain", "/v1/execute", w.json(object{"method": "GET", "url": at + w.g.plant(class+" query of a GET")})),
		w.begin("llm", schemas.RouteChat, w.chat("held", false)),
	}
	for _, d := range []schemas.Dialect{schemas.DialectChat, schemas.DialectResponses, schemas.DialectMessages} {
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.p.URL+d.Route(), strings.NewReader(w.ask(d, "held", true)))
		require.NoError(w.t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+w.owner.token)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = resp.Body.Close() })
		w.wait("llm")
		streams = append(streams, resp.Header.Get(schemas.HeaderGeneration))
	}
	return once, streams, again
}

// crash kills the program in the middle of its work and starts it again.
func (w *world) crash() {
	once, streams, again := w.work("killed")
	w.p.Kill()
	w.start()
	for _, id := range slices.Concat(once, streams) {
		w.settled(id)
		w.owner.ask(http.MethodGet, "/v1/actions/"+id, "")
	}
	w.wait("plain")
	w.wait("llm")
	for _, id := range again {
		w.owner.ask(http.MethodPost, "/v1/actions/"+id+"/cancel", "")
		w.settled(id)
	}
	for code, ids := range map[schemas.Code][]string{schemas.OutcomeUnknownCode: once, schemas.Interrupted: streams, schemas.Canceled: again} {
		for _, id := range ids {
			contains(w.t, w.owner.get("/v1/actions/"+id), string(code), "an action that was under way")
		}
	}
	runs := 0
	for _, r := range w.agent.Ledger() {
		if r.Run.RequestID == once[1] {
			runs++
		}
	}
	assert.Equal(w.t, 1, runs, "a run is not given to its agent twice")
}

// ended proves that actions ended with every outcome, and with the codes that have a code path
// of their own.
func (w *world) ended() {
	outcomes, codes := map[string]int{}, map[schemas.Code]int{}
	pages(w, "/v1/actions?limit=1000", func(a schemas.ActionEntry) {
		outcomes[string(a.Status)]++
		codes[a.Code]++
	})
	for _, o := range schemas.Outcomes() {
		assert.Positive(w.t, outcomes[string(o)], "no action ended as %s", o)
	}
	for _, c := range []schemas.Code{
		schemas.HTTPFailure, schemas.RetriesExhausted, schemas.UpstreamDNS, schemas.UpstreamTLS, schemas.UpstreamConnect, schemas.UpstreamTruncated, schemas.UpstreamTooLarge, schemas.UpstreamEncoding, schemas.UpstreamProtocol, schemas.UpstreamTimeout,
		schemas.DenyHost, schemas.DenyAddress, schemas.DenyRedirect, schemas.DenyRule, schemas.SecretUnavailable, schemas.ResponseSchemaInvalid, schemas.AgentUnavailable, schemas.TaskFailed, schemas.ModelFailed,
		schemas.Canceled, schemas.DeadlineExceeded, schemas.Interrupted, schemas.OutcomeUnknownCode, schemas.GitRefDenied,
	} {
		assert.Positive(w.t, codes[c], "no action ended with %s", c)
	}
}

// reached proves that canaries and secrets arrived at their destinations: a text that
// arrives nowhere cannot leak.
func (w *world) reached() {
	var wire, models, agents strings.Builder
	for _, r := range append(w.plain.Ledger(), append(w.keyed.Ledger(), w.tls.Ledger()...)...) {
		fmt.Fprintf(&wire, "%s %v %s\n", r.Target, r.Headers, r.Body)
	}
	for _, r := range w.llm.Ledger() {
		fmt.Fprintf(&models, "%v %s\n", r.Header, r.Body)
	}
	for _, r := range w.agent.Ledger() {
		fmt.Fprintf(&agents, "%v %s\n", r.Header, r.Body)
	}
	objects := gitkit.Git(w.t, w.mirror, "cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
	objects = gitkit.GitIn(w.t, w.mirror, []byte(objects+"\n"), "cat-file", "--batch")
	for who, c := range map[string]struct{ text, classes string }{
		"an upstream": {wire.String(), "header|query|body|basic|other|sent key|sent value|sent item|sent deep key|sent query|sent parameter|sent idempotency key|sent header name|sent header|echoed body|echoed header|upstream key|keyed body|over tls|sent mail|" +
			"hop query|plan path|plan header|plan parameter|plan value|plan body key|plan body|rule path|rule query|rule wildcard|rule header|run query|run body|killed query|killed body|aborted body|body query|body header|body name|body deep name|body deep"},
		"an agent": {agents.String(), "agent|run user|run workflow|run input key|run input|killed input|aborted input|run stage|run domain|run name|run value"},
		"a model": {models.String(), "model|beside|chat system|chat name|chat text part|chat image query|chat file|chat argument|chat tool answer|chat tool description|chat enum|chat format title|chat stop|chat user|chat metadata key|chat unknown value|" +
			"responses beta|responses instructions|responses text part|responses image query|responses file|responses answered|responses encrypted|responses argument|responses tool answer|responses tool description|responses enum|responses grammar|responses format title|responses metadata|responses client|responses unknown value|" +
			"messages beta|messages system|messages text part|messages image|messages image query|messages document|messages thinking|messages redacted|messages argument|messages tool answer|messages tool description|messages enum|messages example|messages stop|messages user|messages unknown value|" +
			"count_tokens beta|count_tokens system|count_tokens text part|count_tokens schema title|embeddings beta|embeddings input|embeddings further input|embeddings instruction|embeddings unknown value"},
		"the git server": {objects, "push upstream content|push upstream file|push upstream author|push upstream message"},
		"the owner": {w.owner.seen.String(), "ok key|ok value|ok deep value|ok header name|ok header value|ok location|ok etag|echoed body|text body|bare body|zipped|plan effect|plan id|rule mock key|rule mock value|rule mock header|rule marked answer|" +
			"agent RUN.FULL output|agent RUN.FULL progress|agent RUN.FULL data over lines|agent RUN.JSON grounding|agent RUN.FAILED error message|agent RUN.FAILED details|agent RUN.CUT before the cut|agent while held|" +
			"model text|model message|model full content|model full refusal|model full detail|model full argument|model full inner|model full id|model full token|model refuses-400 message|model refuses-400 raw|" +
			"model full responses content|model full responses refusal|model full responses summary|model full responses argument|model full responses inner|model full responses token|model full responses usage key|" +
			"model full responses stream content|model full responses stream refusal|model full responses stream argument|model full responses stream summary|model full responses stream unknown delta|" +
			"model full messages content|model full messages thinking|model full messages cited|model full messages argument|model full messages refusal|model full messages inner|" +
			"model full messages stream content|model full messages stream thinking|model full messages stream cited|model full messages stream argument|model full messages stream refusal|" +
			"model full count_tokens inner|model full embeddings embedding|model full embeddings inner|" +
			"model breaks responses message|model breaks responses stream content|model breaks responses stream message|model breaks messages message|model breaks messages stream content|model breaks messages stream message|" +
			"task completed description|task failed metadata|task inquiry|task answer|task result|task failure|said by the git server|why the git server refuses|token name"},
		"the operator": {w.past[0].Said(), "wrong configuration"},
	} {
		text := strings.ToLower(c.text)
		for class := range strings.SplitSeq(c.classes, "|") {
			assert.True(w.t, w.g.reached(class, text), "%s did not receive the %s", who, class)
		}
	}
	for _, class := range []string{"model refuses-401 message"} { // of Weir's own account with the provider
		assert.False(w.t, w.g.reached(class, strings.ToLower(w.owner.seen.String())), class)
	}
	assert.True(w.t, w.spans.keyed.Load(), "the collector did not receive its credential")
	assert.NotZero(w.t, w.forged.Accepted())
	require.Greater(w.t, len(w.g.list()), 500, "canaries")
}
