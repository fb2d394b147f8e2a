// Package canary_test shows that content and secrets stay where they belong. It plants
// random texts, canaries, in what callers, upstreams, agents, models and git servers send, and
// searches every sink for them: plain, cut, escaped, encoded, compressed and hashed.
//
// TestScan shows that the scanner finds each form. TestEncoders fills every record that Weir
// writes about its work with canaries, and searches what the logger, the metrics, the spans,
// the evidence, the dead letters, the updates for observers and the refusals make of it.
// TestScrubberFindsWhatTheScanFinds shows that redact removes each form from an answer.
//
// TestNothingLeaks (tag e2e) runs the built program. These promises it alone shows, for all
// surfaces, all risk tiers and all outcomes together:
//
//   - Content is in no log line, label, span, subject, header, key, name of a file, stream or
//     consumer, account of a budget, index, update for observers, argument or environment of
//     a child, temporary file, crash report, nor in an answer to another tenant or to a caller
//     without a token.
//     The index holds of it what lists show: the host and the path of a call, but of no sensitive run,
//     and the names of models and tokens.
//   - Evidence has content in the members that content lists, and of a sensitive run in none.
//   - Credentials of the configuration, tokens, sessions and the key of sensitive evidence are
//     in none of these, nor in an answer to the owner, in a stored document, in a file of the
//     data directory or in words for the operator.
//   - All of it holds after kill -9 and a restart, and for a process that dies of a signal.
//
// The test fails if a sink has no data, if the scanner does not find an identifier in it that
// must be there, or if a canary did not reach its destination.
//
// Identifiers are no content: a request_id, an X-Request-ID, the names of tenants, entries,
// repositories and pools have an alphabet of their own, and are logged. The name of a model is
// in the evidence, the span and the budget's account of its call. Canaries that do not fit the
// alphabet of an identifier are sent as one, and refused.
package canary_test
