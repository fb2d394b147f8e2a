package agent

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

// plan is an answer before it is written, for a fault to change.
type plan struct {
	request *Request
	act     Act

	status int
	header map[string]string
	// sync is the document of the synchronous answer; text, if not empty, stands
	// in its place, also on the streaming route.
	sync map[string]any
	text string
	// frames are the events of the stream.
	frames []frame
	eol    string
	lead   string // before the first event
	colon  string // between a field's name and its value
	open   bool   // the last event is not ended by a blank line
	// begin comes before the head of the answer and after before its end. False
	// ends the connection without another word.
	begin, after func(*Exchange) bool
}

// frame is one event.
type frame struct {
	name   string         // none: no such line
	data   map[string]any // its document
	raw    string         // in place of data
	lines  bool           // data over several lines
	before string         // bytes ahead of the event, with \n as line break
	last   bool           // the terminal event, for Hold
}

func newPlan(r *Request, act Act) *plan {
	p := &plan{
		request: r, act: act, status: http.StatusOK, header: map[string]string{},
		sync: end(r, act), eol: "\n", colon: ": ",
	}
	id, task := r.Run.RequestID, r.Run.TaskType
	p.frames = append(p.frames, frame{name: "started", data: map[string]any{"type": "started", "request_id": id, "task_type": task}})
	for n := range max(0, act.Steps) {
		f := frame{name: "progress", data: map[string]any{"step": n + 1, "percent": 100 * (n + 1) / act.Steps}}
		if act.Progress != nil {
			f.data, f.raw = nil, act.Progress(n)
		}
		p.frames = append(p.frames, f)
	}
	final := end(r, act)
	final["type"], final["task_type"], final["success"] = "final", task, act.Error == nil
	p.frames = append(p.frames, frame{name: "complete", data: final, last: true})
	return p
}

// end is what both routes tell of a run's end.
func end(r *Request, act Act) map[string]any {
	inputs := r.Run.Inputs
	if len(inputs) == 0 {
		inputs = json.RawMessage("{}")
	}
	outputs := json.RawMessage(act.Outputs)
	if len(outputs) == 0 {
		outputs = json.RawMessage(doubles.Encode(map[string]any{"echo": inputs}))
	}
	doc := map[string]any{"status": schemas.RunOK, "request_id": r.Run.RequestID, "outputs": outputs}
	if act.Error != nil {
		doc["status"], doc["outputs"], doc["error"] = schemas.RunFault, map[string]any{}, act.Error
	}
	maps.Copy(doc, act.Extras)
	return doc
}

// final is the data of the terminal event.
func (p *plan) final() map[string]any { return p.frames[len(p.frames)-1].data }

// ends changes the end on both routes.
func (p *plan) ends(change func(doc map[string]any)) {
	change(p.sync)
	change(p.final())
}

func (p *plan) streaming() bool { return p.request.Route == schemas.RouteRunStream }

// play writes the answer; false: not all of it.
func (p *plan) play(x *Exchange) bool {
	if p.begin != nil && !p.begin(x) {
		return false
	}
	if !p.streaming() || p.text != "" {
		return p.playDocument(x)
	}
	p.head(x, "text/event-stream")
	if p.lead != "" && !x.Write(p.lead) {
		return false
	}
	for i, f := range p.frames {
		if !p.ready(x, i, f) || !x.Exchange.Event(p.render(f, i == len(p.frames)-1)) {
			return false
		}
	}
	return p.after == nil || p.after(x)
}

func (p *plan) playDocument(x *Exchange) bool {
	if !x.Wait(p.act.Hold) {
		return false
	}
	text := p.text
	if text == "" {
		text = doubles.Encode(p.sync)
	}
	p.header["Content-Length"] = strconv.Itoa(len(text))
	p.head(x, "application/json")
	return x.Write(text)
}

// head sends the head of the answer, with a content type where none was set.
func (p *plan) head(x *Exchange, contentType string) {
	for name, value := range p.header {
		x.W.Header().Set(name, value)
	}
	if set := p.header["Content-Type"]; set != "" {
		contentType = set
	}
	x.Begin(p.status, contentType)
}

// ready waits for what holds the n-th event up.
func (p *plan) ready(x *Exchange, n int, f frame) bool {
	if n == 0 {
		return true
	}
	hold := p.act.Step
	if f.last {
		hold = p.act.Hold
	}
	return x.Wait(hold)
}

// render is an event as it goes over the wire.
func (p *plan) render(f frame, last bool) string {
	data := f.raw
	if f.data != nil {
		data = doubles.Encode(f.data)
	}
	if f.lines {
		data = strings.ReplaceAll(data, `,"`, ",\n\"")
	}
	var b strings.Builder
	b.WriteString(f.before)
	if f.name != "" {
		b.WriteString("event" + p.colon + f.name + "\n")
	}
	for line := range strings.SplitSeq(data, "\n") {
		b.WriteString("data" + p.colon + line + "\n")
	}
	if !p.open || !last {
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), "\n", p.eol)
}
