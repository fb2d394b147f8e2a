//go:build e2e

// Package canary_test plants texts that nobody else has in every place of every
// surface, drives the whole program through all it can do, and looks for them
// wherever they must not be. What a sink may hold is written down in
// allowed_test.go; everything else in it is a leak.
//
// A request_id, an X-Request-ID, the name of a tenant and the name of an entry
// of the policy are identifiers by contract: their alphabet is
// [A-Za-z0-9._:-]{1,128}, they stand in subjects, log lines and answers, and
// whoever puts anything else into them has put it there. They are planted with
// what their alphabet does not have, to show that it is refused; what they are
// within it serves to prove that the sinks are looked at, see prove_test.go. So is the
// name of a model, by whoever asks for it and by whoever says that it was the one: it
// stands in the evidence of the call, in its span and in the key of an account of a budget
// that tells models apart, and nowhere else.
package canary_test
