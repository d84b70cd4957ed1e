"""A server that serves the page under the real one's rules and answers as the last message asks: slowly, with an error, with
texts that try to be markup."""
import http.server
import json
import os
import random
import threading
import time
from pathlib import Path

SOURCE = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PAGE = SOURCE / "platforms/hosted/serve/page/index.html"
N_CONTEXT = 512

MARKDOWN = """# Llamas

A **cria** is a *young* llama, `born` standing; ~~not~~ see [the page](https://example.org/cria?a=1&b=2).
Second line \u00e4\u00f6\u00fc \U0001f999 \u65e5\u672c\u8a9e.

1. one
2. two
   - two a
   - two b

> a word
> of wisdom

| name | legs |
|---|---|
| llama | 4 |

```python
def f(x):
    return "<b>" + x
```

---
The end: https://example.org/a_b_c."""

# Each wants to become an element, an attribute or an address that runs something.
HOSTILE = [
    "<img src=x onerror=window.hacked=1>", "<script>window.hacked=1</script>", "<svg onload=window.hacked=1>",
    "[click](javascript:window.hacked=1)", "[click]( javascript:window.hacked=1)", "[x](JaVaScRiPt:window.hacked=1)",
    "[x](data:text/html,<script>window.hacked=1</script>)", "[x](vbscript:x)", "[x](//example.org)", "[x](http:javascript)",
    "![x](javascript:window.hacked=1)", "![x](https://example.org/x.png)", "[x](https://a\"onmouseover=window.hacked=1)",
    "[x](https://example.org/'onclick='window.hacked=1)", "https://example.org/\"onload=\"window.hacked=1",
    "`<img src=x onerror=window.hacked=1>`", "```html\n<script>window.hacked=1</script>\n```", "```<img/src/onerror=hacked=1>\nx\n```",
    "# <iframe src=javascript:window.hacked=1>", "- <a href=javascript:window.hacked=1>x</a>", "> <style>*{display:none}</style>",
    "| <b onclick=window.hacked=1>x</b> | y |\n|---|---|\n| <img src=x onerror=window.hacked=1> | </td></table><script>hacked=1</script> |",
    "</div></li></ol></main><script>window.hacked=1</script>", "<think><img src=x onerror=window.hacked=1></think><b>x</b>",
    "&lt;img src=x onerror=window.hacked=1&gt;", "&#60;script&#62;window.hacked=1&#60;/script&#62;", "\\<img src=x onerror=window.hacked=1\\>",
    "**<u>x</u>**_<i>_</i>~~<s>~~", "<!-- x --><base href=https://example.org>", "<meta http-equiv=refresh content=0;url=https://example.org>",
    "<form action=https://example.org><input name=q autofocus onfocus=window.hacked=1></form>", "javascript:window.hacked=1",
    "\u202egnp.exe \u202c \u0000 \ufeff \ud7ff", "data: [DONE]\n\ndata: {}\n\n", "*" * 3000, "[" * 3000, "`" * 3000, "> " * 3000, "- " * 2000,
    "".join("`" * n + " " for n in range(1, 80)), "*a _b **c " * 400, "(" * 2000 + "https://x" + ")" * 2000, "|" * 2000 + "\n" + "|-" * 2000,
    "1. " * 500, "999999999. x", "![" * 1500 + "](" * 1500, "h" * 5000, "http://" * 1000, "\\" * 3001, "#" * 3000, " " * 5000 + "x", "\t- x\n" * 300,
    "__proto__", "constructor", "[object Object]", "a" * 20000,
]


def words(count):
    return [f"word{i} " for i in range(count)]


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def _send(self, status, value, headers=(), kind="application/json"):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in [("Content-Type", kind), ("Content-Length", str(len(body))), *headers]:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def _error(self, status, kind, message, headers=(), **more):
        self._send(status, {"error": {"message": message, "type": kind, "param": None, "code": status, **more}}, headers)

    def _is_allowed(self):
        mock = self.server.mock
        if mock.key is None or self.headers.get("Authorization") == f"Bearer {mock.key}":
            return True
        self._error(401, "authentication_error", "a key is needed")
        return False

    def parse_request(self):
        # A connection that was made before the server was stopped gets no answer either.
        return self.server.mock.is_running(self.server) and super().parse_request()

    def do_GET(self):
        if self.path in ("/", "/index.html"):
            nonce = f"{random.getrandbits(128):032x}"
            policy = (f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
                      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
            page = PAGE.read_text("utf-8").replace("CRIA_NONCE", nonce).encode()
            self._send(200, page, [("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"),
                                   ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
                                   ("Cross-Origin-Opener-Policy", "same-origin")], "text/html; charset=utf-8")
        elif self.path == "/health":
            self._send(200, {"status": "ok"})
        elif self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": "mock-llama", "object": "model", "created": 0, "owned_by": "cria"}]})
        elif self.path == "/props":
            if self._is_allowed():
                self._send(200, {"default_generation_settings": {"n_ctx": N_CONTEXT, "params": {
                    "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0, "seed": 4294967295, "max_tokens": -1}},
                    "total_slots": 4, "model_path": "mock-llama.cria", "has_chat": True, "build_info": "mock",
                    "memory": {"model": 2 << 20, "sessions": 4 << 20, "workspaces": 1 << 20, "json": 0, "total": 7 << 20, "in_place": 0}})
        else:
            self._error(404, "not_found_error", "there is no such thing")

    def do_POST(self):
        mock = self.server.mock
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_allowed():
            return
        mock.requests.append(body)
        said = body["messages"][-1]["content"].split("\n\n")[-1]  # the page makes one of two in a row
        wish = said.split()[0]
        if wish == "busy" and not mock.was_busy:
            mock.was_busy = True
            self._error(429, "rate_limit_error", "the queue is full", [("Retry-After", "1")])
        elif wish == "overflow" and sum(len(message["content"]) for message in body["messages"]) > 60:
            self._error(400, "exceed_context_size_error", "too long", n_prompt_tokens=1100, n_ctx=N_CONTEXT)
        elif wish == "teapot":
            self._error(418, "invalid_request_error", "<b>no coffee</b> here")
        else:
            self._stream(wish, said)

    def _stream(self, wish, said):
        mock = self.server.mock
        answers = {"slow": words(2000), "story": [f"Paragraph *{i}* of a story.\n\n" for i in range(150)], "markdown": list(MARKDOWN), "hostile": ["\n\n".join(HOSTILE)], "cut": words(5), "fail": words(5),
                   "think": ["<think>", "so ", "be it", "</think>", "\n\nDone."], "long": words(600), "empty": []}
        pieces = answers.get(wish, ["You said: ", said])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.wfile.write(b": one moment\n\n")
            events = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]}]
            events += [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
            if wish in ("slow", "story"):
                for event in events:
                    self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
                    self.wfile.flush()
                    time.sleep(0.01)
                while True:  # until the client leaves, however late a busy machine lets it do so
                    self.wfile.write(b": still here\n\n")
                    time.sleep(0.05)
            timings = {"cache_n": 3, "prompt_n": 7, "prompt_ms": 10.0, "prompt_per_second": 700.0, "predicted_n": len(pieces),
                       "predicted_ms": 100.0, "predicted_per_second": 42.0}
            usage = {"prompt_tokens": 10, "completion_tokens": len(pieces), "total_tokens": 10 + len(pieces), "prompt_tokens_details": {"cached_tokens": 3}}
            tail = [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": timings},
                    {"choices": [], "usage": usage, "timings": timings}]
            if wish == "fail":
                tail = [{"error": {"message": "the model gave up", "type": "server_error", "param": None, "code": 500}}]
            # Ends of lines of every kind, cut anywhere: inside characters, names and line ends.
            end = mock.random.choice(["\n", "\r\n", "\r"])
            lines = []
            for event in events + (tail if wish != "cut" else []):
                lines += ["data: " + json.dumps(event, ensure_ascii=False), ""] + ([": still here", ""] if mock.random.random() < 0.1 else [])
            if wish not in ("cut", "fail"):
                lines += ["data: [DONE]", ""]
            data = (end.join(lines) + end).encode("utf-8", "surrogatepass")
            most = max(7, len(data) // 300)
            at = 0
            while at < len(data):
                size = mock.random.randint(1, most)
                self.wfile.write(data[at:at + size])
                self.wfile.flush()
                at += size
                if mock.random.random() < 0.2:
                    time.sleep(0.002)
        except (BrokenPipeError, ConnectionResetError):
            mock.hangups += 1


class MockServer:
    def __init__(self, port=0):
        self.key = None
        self.random = random.Random(20)
        self.clear()
        self._start(port)

    def clear(self):
        self.requests, self.hangups, self.was_busy, self.key = [], 0, False, None

    def _start(self, port):
        http.server.ThreadingHTTPServer.allow_reuse_address = True
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.mock = self
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def is_running(self, server):
        return server is self._server

    def stop(self):
        server, self._server = self._server, None
        server.shutdown()
        server.server_close()
        self._thread.join()

    def restart(self):
        self._start(self.port)


if __name__ == "__main__":  # to look at the page by hand
    mock = MockServer(8089)
    print(mock.url)
    mock._thread.join()
