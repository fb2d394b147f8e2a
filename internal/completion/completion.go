// Package completion knows the documents of the chat completions protocol as far as a
// proxy has to: it edits a request without touching what it does not know, reads the
// chunks of a streamed answer, puts them together to the whole, and takes a whole one
// apart into chunks. It is pure.
//
// Text is never decoded on its way: what is put together are the bytes between the
// quotes. So an escape stays as it came, and a pair of surrogates that two chunks share
// is whole again.
package completion
