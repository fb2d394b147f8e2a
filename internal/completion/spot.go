package completion

// spot is where in an answer a value stands, as far as the protocol knows that.
type spot uint8

const (
	inPlain spot = iota
	inChoices
	inChoice
	inDelta
	inContent
	inCalls
	inCall
	inFunction
	inLogprobs
)

// member is the spot of a member of an object.
func (s spot) member(name string) spot {
	switch {
	case s == inChoice && name == "delta":
		return inDelta
	case s == inChoice && name == "logprobs":
		return inLogprobs
	case s == inDelta && name == "content":
		return inContent
	case s == inDelta && name == "tool_calls":
		return inCalls
	case s == inDelta && name == "function_call", s == inCall && (name == "function" || name == "custom"):
		return inFunction
	}
	return inPlain
}

// argument reports whether a member is a text that some send as another value.
func argument(in spot, name string) bool {
	return in == inFunction && (name == "arguments" || name == "input")
}
