package agent

import (
	"net/http"
	"slices"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

const html = "<!doctype html>\n<html><body><h1>Oops</h1></body></html>\n"

func (p *plan) add(f frame) { p.frames = append(p.frames, f) }

func (p *plan) insert(n int, f frame) { p.frames = slices.Insert(p.frames, min(n, len(p.frames)), f) }

func (p *plan) each(change func(n int, f *frame)) {
	for n := range p.frames {
		change(n, &p.frames[n])
	}
}

// named moves every event's name into a member of its data.
func (p *plan) named(member string) {
	p.each(func(_ int, f *frame) {
		if f.data == nil {
			return // a progress event with a text of its own
		}
		delete(f.data, "type")
		f.data[member], f.name = f.name, ""
	})
}

// half lets a synchronous answer die in its middle.
func (p *plan) half() {
	if p.streaming() {
		return
	}
	whole := doubles.Encode(p.sync)
	p.begin = func(x *Exchange) bool {
		x.Begin(http.StatusOK, "application/json")
		x.Write(whole[:len(whole)/2])
		return die(x)
	}
}

// absent is a streaming route that is not there; the other one is.
func absent(status int) func(*plan) {
	return onStream(func(p *plan) { p.status, p.text = status, `{"detail":"Not Found"}` })
}

// refused is a status with an error in the contract's shape.
func refused(status int, code string) func(*plan) {
	return func(p *plan) {
		p.status = status
		p.text = doubles.Encode(map[string]any{
			"request_id": p.request.Run.RequestID, "ok": false, "status": schemas.RunFault,
			"outputs": map[string]any{}, "warnings": []string{},
			"error": schemas.RunError{Code: code, Message: "the agent does not take it"},
		})
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			p.header["Retry-After"] = "0"
		}
	}
}

// page is a status with a page of HTML.
func page(status int) func(*plan) {
	return func(p *plan) {
		p.status, p.text = status, html
		p.header["Content-Type"] = "text/html"
	}
}

// endless is a stream that begins well and never ends.
func endless(first, more string) func(*plan) {
	return onStream(func(p *plan) {
		p.frames, p.after = p.frames[:1], func(x *Exchange) bool {
			for ok := x.Write(first); ok; {
				ok = x.Write(more)
			}
			return false
		}
	})
}

func die(x *Exchange) bool {
	x.Die()
	return false
}

func silent(x *Exchange) bool {
	x.Await()
	return false
}
