"""An agent service: a program that an orchestrator's runs reach through Weir.

Usage: python3 service.py [PORT]

It serves one task type, SUMMARY, on both routes of the run contract. Test it against the
contract with `weir check http://127.0.0.1:8000=SUMMARY --inputs '{"text": "…"}'`.
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TASK_TYPE = "SUMMARY"


def summarize(inputs):
    """Do the work. Replace this with your agent; yield progress, and return the outputs."""
    words = str(inputs.get("text", "")).split()
    yield {"step": "counted", "words": len(words)}
    return {"summary": " ".join(words[:10]), "words": len(words)}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path in ("/health", "/health/ready"):
            self.reply(200, {"status": "ok"})
        else:
            self.reply(404, error("NOT_FOUND", "no such route"))

    def do_POST(self):
        try:
            run = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            request_id, task_type, inputs = run["request_id"], run["task_type"], run.get("inputs", {})
        except (ValueError, KeyError, TypeError) as fault:
            return self.reply(422, error("VALIDATION_ERROR", f"the run cannot be read: {fault!r}"))
        if task_type != TASK_TYPE:
            return self.reply(400, error("UNSUPPORTED_TASK_TYPE", f"this service runs {TASK_TYPE} only", request_id))
        if self.path == "/agents/run/sync":
            work = summarize(inputs)
            try:
                while True:
                    next(work)
            except StopIteration as end:
                self.reply(200, {"status": "ok", "request_id": request_id, "outputs": end.value})
        elif self.path == "/agents/run/stream":
            self.stream(request_id, summarize(inputs))
        else:
            self.reply(404, error("NOT_FOUND", "no such route"))

    def stream(self, request_id, work):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.event("started", request_id, {})
        try:
            while True:
                self.event("progress", request_id, next(work))
        except StopIteration as end:
            self.event("complete", request_id, {"type": "final", "status": "ok", "success": True, "outputs": end.value})

    def event(self, name, request_id, data):
        data = {"request_id": request_id, "task_type": TASK_TYPE, **data}
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def error(code, message, request_id=None):
    document = {"status": "error", "ok": False, "outputs": {}, "error": {"code": code, "message": message}}
    return document | ({"request_id": request_id} if request_id else {})


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"serving {TASK_TYPE} on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
