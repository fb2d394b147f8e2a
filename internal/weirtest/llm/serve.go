package llm

import (
	"encoding/json"
	"io"
	"net/http"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == prefix+schemas.RouteModels {
		s.list(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	record := &Request{Call: doubles.NewCall(), Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	var known bool
	record.Dialect, known = schemas.DialectOf(r.URL.Path)
	known = known && r.URL.Path == prefix+record.Dialect.Route()
	notJSON := json.Unmarshal(body, &record.Asked)
	s.Enter(record)
	defer s.Remove(record.Call)
	x := &Exchange{Request: record, Exchange: doubles.NewExchange(record.Call, w, r)}
	switch {
	case !known:
		x.Refuse(http.StatusNotFound, "there is nothing here")
	case r.Method != http.MethodPost:
		x.Refuse(http.StatusMethodNotAllowed, "only POST is served")
	case s.cfg.Key != "" && record.Key() != s.cfg.Key:
		x.Refuse(http.StatusUnauthorized, "Incorrect API key provided")
	case notJSON != nil || record.Asked.Model == "" || record.Dialect == schemas.DialectChat && len(record.Asked.Messages) == 0:
		x.Refuse(http.StatusBadRequest, "model and messages are needed")
	default:
		x.act = s.act(record)
		done := x.complete()
		if packed, ok := x.Out.(io.Closer); ok {
			_ = packed.Close()
		}
		record.Answered(done) // its caller may leave as soon as it has all
		return
	}
	record.Answered(!x.Ended())
}

// list answers with the models.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	status, data := http.StatusOK, []map[string]any{}
	for _, id := range s.cfg.Listed {
		data = append(data, map[string]any{"id": id, "object": "model", "created": 1795262400, "owned_by": "llm", "context_length": 8192})
	}
	switch {
	case s.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key:
		status = http.StatusUnauthorized
	case len(data) == 0:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data}) //nolint:errchkjson // the caller is gone if it fails
}

// complete answers a completion; false: not all of it.
func (x *Exchange) complete() bool {
	if !x.Wait(x.act.Begin) {
		return false
	}
	f := x.act.Fault
	switch {
	case x.act.Answer != nil:
		x.act.Answer(x)
		return !x.Ended()
	case f == Hang:
		x.Await()
		return false
	case f == Reset:
		x.Reset()
	case f == HTML, f == HTML200:
		x.html()
		return true
	case f == Empty:
		x.Begin(http.StatusOK, "text/event-stream")
		return true
	case f == EchoKeyError:
		x.Refuse(http.StatusBadRequest, "the key "+x.Key()+" is not known")
		return true
	case f == ErrorOnly:
		x.Begin(http.StatusOK, "application/json")
		return x.Write(`{"error":{"code":429,"message":"` + x.message() + `"}}`)
	case f.status() >= 300:
		x.Refuse(f.status(), x.message())
		return true
	}
	if x.act.Fault == EchoKeyHeader {
		x.W.Header().Set("X-Request-Id", x.Key())
	}
	switch {
	case x.Dialect != schemas.DialectChat:
		return x.speak()
	case f != JSONAnswer && (x.Asked.Stream || f == SSEAnswer):
		return x.stream()
	default:
		return x.whole()
	}
}

func (x *Exchange) html() {
	status := http.StatusBadGateway
	if x.act.Fault == HTML200 {
		status = http.StatusOK
	}
	x.Begin(status, "text/html")
	x.Write("<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1></center></body>\r\n</html>\r\n")
}

// message is that of an error.
func (x *Exchange) message() string {
	if x.act.Message != "" {
		return x.act.Message
	}
	return "the double has the fault " + string(x.act.Fault)
}
