package llm

import (
	"fmt"
	"strings"

	"weir/internal/weirtest/doubles"
)

// stream answers with events; false: not all of them.
func (x *Exchange) stream() bool {
	switch x.act.Fault {
	case NoType:
		x.Begin(200, "")
	case JSONType:
		x.Begin(200, "application/json")
	default:
		x.Stream()
	}
	if x.act.Fault == HangOpen {
		x.Await()
		return false
	}
	if x.act.Fault == ErrorFirst {
		d := x.document("chat.completion.chunk")
		d["error"] = object{"code": 429, "message": x.message()}
		return x.event(d) && x.Done()
	}
	if x.act.Fault == BOM && !x.Write("\uFEFF") {
		return false
	}
	pieces := x.pieces()
	for i := range x.choices() {
		if !x.event(x.chunk(i, object{"role": "assistant", "content": ""}, "")) {
			return false
		}
	}
	for n, p := range pieces {
		if !x.Wait(x.act.Step) {
			return false
		}
		for i := range x.choices() {
			d := x.chunk(i, p, "")
			if x.act.Fault == UsageEach {
				d["usage"] = usage(n + 1)
			}
			if !x.event(d) {
				return false
			}
		}
		if n == 0 {
			if over, whole := x.middle(p); over {
				return whole
			}
		}
	}
	return x.Wait(x.act.Hold) && x.finish(pieces)
}

// middle is what goes wrong behind the first piece; over: nothing comes after it.
func (x *Exchange) middle(first object) (over, whole bool) {
	switch x.act.Fault {
	case ErrorMid, EchoKeyMid:
		text := x.message()
		if x.act.Fault == EchoKeyMid {
			text = "quota of " + x.Key() + " is spent"
		}
		d := x.chunk(0, object{}, "error")
		d["error"] = object{"code": 502, "message": text}
		return true, x.event(d) && x.Done()
	case ErrorText:
		return true, x.Data(`{"error":"`+x.message()+`"}`) && x.Done()
	case NotJSON:
		return true, x.Data("upstream connect error") && x.Done()
	case NotChunk:
		return true, x.Data(`["no","chunk"]`) && x.Done()
	case HangMid:
		x.Await()
		return true, false
	case ResetMid:
		x.Reset()
	case Endless:
		for x.event(x.chunk(0, first, "")) { // until nobody takes any more
		}
		return true, false
	default:
	}
	return false, false
}

// finish is all that comes behind the pieces.
func (x *Exchange) finish(pieces []object) bool {
	f := x.act.Fault
	switch f {
	case NoFinish:
		return true
	case HalfEvent:
		return x.Write(`data: {"id":"chatcmpl-`)
	default:
	}
	told := usage(len(pieces) * x.choices())
	asked := x.Asked.StreamOptions.IncludeUsage && f != NoUsage || f == UsageEver
	for i := range x.choices() {
		d := x.chunk(i, object{}, x.reason(pieces))
		if f == UsageLast {
			d["usage"], asked = told, false
		}
		if !x.event(d) {
			return false
		}
	}
	if asked {
		d := x.document("chat.completion.chunk")
		d["usage"] = told
		if !x.event(d) {
			return false
		}
	}
	switch f {
	case NoDone:
		return true
	case AfterDone:
		return x.Data("[DONE]") && x.event(x.chunk(0, object{"content": "too late"}, ""))
	default:
		return x.written("data: [DONE]\n\n")
	}
}

// event writes one chunk in the form of the fault.
func (x *Exchange) event(d object) bool {
	data := doubles.Encode(d)
	if x.act.Fault == Lines {
		data = strings.ReplaceAll(data, `,"`, ",\ndata: \"")
	}
	return x.written("data: " + data + "\n\n")
}

// written writes the text of an event in the form of the fault.
func (x *Exchange) written(text string) bool {
	switch x.act.Fault {
	case CRLF:
		text = strings.ReplaceAll(text, "\n", "\r\n")
	case CR:
		text = strings.ReplaceAll(text, "\n", "\r")
	case Comments:
		text = ": PROCESSING\n\n\n:\nretry: 10\nid\nnovel: field\n" + text
	case Named:
		text = fmt.Sprintf("id: %d\nevent: message\n", x.Sent()) + text
	case SplitUTF8:
		for i := range len(text) {
			if !x.Write(text[i : i+1]) {
				return false
			}
		}
		return x.Event("") // it counts
	default:
	}
	return x.Event(text)
}
