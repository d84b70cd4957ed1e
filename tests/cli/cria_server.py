"""What the server's tests share: cria serve on the demo model, and requests to it."""
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

import cria_cli as cli


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.raw = response.read()

    @property
    def body(self):
        return json.loads(self.raw)

    @property
    def error(self):
        return self.body["error"]


# Where an answer is drawn: a seed that differs from run to run may end any of them after its first token.
ANSWERING = {"/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions"}


def with_seed(path, data):
    """data with a seed of the tests' own where it has none; bytes stay as they are, and so have none."""
    return {"seed": 1, **data} if path in ANSWERING and isinstance(data, dict) else data


class Server:
    """cria serve on a free port of this machine, until the end of a with statement."""

    def __init__(self, *options, model=None, limits="", prefix=()):
        """limits: of the process, as `ulimit` takes them; prefix: of its command."""
        shell = ["sh", "-c", f'ulimit {limits}; exec "$@"', "sh"] if limits else []
        command = [*prefix, *shell, cli.CRIA, "serve", model or cli.model(), "--port", "0", "--threads", "1", *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.told = ""
        self.log = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        for line in self.process.stdout:
            line = line.decode()
            self.told += line
            if line.startswith("listening on http://"):
                self.host, _, port = line.strip()[len("listening on http://"):].rpartition(":")
                self.port = int(port)
                return
        self.process.wait(cli.PATIENCE_S)
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        raise RuntimeError(f"{command}: {self.process.returncode}\n{self.log}")

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop(signal.SIGTERM)
        self.process.stdout.close()
        self.process.stderr.close()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(cli.PATIENCE_S)
        self._reader.join(cli.PATIENCE_S)
        return code

    def connection(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=cli.PATIENCE_S)

    def request(self, method, path, data=None, headers=None):
        connection = self.connection()
        try:
            data = with_seed(path, data)
            body = None if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **keywords):
        return self.request("GET", path, **keywords)

    def post(self, path, data, **keywords):
        return self.request("POST", path, data, **keywords)

    def stream(self, path, data):
        """The events of an answer, comments left out; the last is "[DONE]" where it is sent."""
        connection = self.connection()
        try:
            connection.request("POST", path, json.dumps({**with_seed(path, data), "stream": True}))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["Content-Type"].startswith("text/event-stream")
            events = []
            for line in response:
                line = line.decode().rstrip("\n")
                assert line == "" or line.startswith((":", "data: ")), line
                if line.startswith("data: "):
                    events.append(line[6:] if line == "data: [DONE]" else json.loads(line[6:]))
            return events
        finally:
            connection.close()

    def raw(self, data, seconds=cli.PATIENCE_S, closes=True):
        """Bytes as they are, and what comes back until the server closes or the time is over."""
        with socket.create_connection((self.host, self.port), timeout=seconds) as client:
            client.sendall(data)
            if closes:
                client.settimeout(seconds)
            answer = b""
            try:
                while chunk := client.recv(65536):
                    answer += chunk
            except (TimeoutError, ConnectionResetError):
                pass
            return answer

    def chat(self, text="hello", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def wait_until_idle(self):
        end = time.monotonic() + cli.PATIENCE_S
        while any(slot["is_processing"] for slot in self.get("/slots").body):
            assert time.monotonic() < end, "a session stays busy"
            time.sleep(0.02)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))
