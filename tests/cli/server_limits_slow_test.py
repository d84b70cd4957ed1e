"""All limits of docs/server.md that take memory, reached at once: what the server holds stays below what its document says."""
import json
import socket
import threading
import time
import unittest

import cria_cli as cli
from cria_server import Server

SESSIONS, QUEUE = 2, 6
MIB = 1 << 20
VOCABULARY, CONTEXT = 2048, 512


def bound():
    """docs/server.md's sum, beside what is told at the start."""
    requests = (SESSIONS + QUEUE) * (2 * MIB + 8 * VOCABULARY + 5 * 64 * 1024 + 4 * CONTEXT)
    reading = 2 * 48 * MIB  # those that have not begun share what is counted below
    bodies = 32 * MIB
    answers = 64 * MIB + 2 * 32 * MIB
    replies = 64 * MIB
    connections = 256 * 192 * 1024
    return requests + reading + bodies + answers + replies + connections


def large_schema(server):
    def of(n):
        return {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(n)}}

    low, high = 1, 20000
    while high - low > 50:
        middle = (low + high) // 2
        status = server.post("/completion", {"prompt": "a", "n_predict": 1, "json_schema": of(middle)}).status
        low, high = (middle, high) if status == 200 else (low, middle)
    return of(low)


@unittest.skipIf(cli.IS_SANITIZED or cli.IS_EMULATED, "measures resident memory")
class Memory(unittest.TestCase):
    def test_all_limits_at_once(self):
        with Server("--sessions", SESSIONS, "--queue", QUEUE, "--context", CONTEXT) as server:
            before = server.resident_bytes()
            peak = [0]
            is_over = threading.Event()

            def watch():
                while not is_over.wait(0.01):
                    peak[0] = max(peak[0], server.resident_bytes())

            schema = large_schema(server)
            watcher = threading.Thread(target=watch)
            watcher.start()
            rich = {"prompt": [f"{i}" for i in range(SESSIONS + QUEUE)], "n_predict": CONTEXT, "json_schema": schema,
                    "stop": [chr(33 + i) * 1024 for i in range(64)], "logit_bias": [[i, 0.01] for i in range(VOCABULARY)],
                    "response_fields": [f"{i:0256}" for i in range(64)]}
            texts = {"content": ["ab" * 4096] * 120}
            ids = {"tokens": [1] * (1 << 19), "content": "x"}
            values = {"messages": [{"role": "user", "content": ""}] * (1 << 14), "stop": "x" * 4096}
            untold = {"prompt": "a", "n_predict": 100, "n_probs": 20}

            def ask(path, data):
                try:
                    self.assertIn(server.post(path, data).status, (200, 400, 413, 429, 503))
                except OSError:
                    pass

            threads = [threading.Thread(target=ask, args=args)
                       for args in [("/completion", rich)] * 4 + [("/tokenize", texts)] * 8 + [("/detokenize", ids)] * 8 +
                       [("/v1/chat/completions", values)] * 8 + [("/completion", untold)] * 8]
            for thread in threads:
                thread.start()
            # Readers that take nothing of what they ask for.
            readers = []
            body = json.dumps({"tokens": [1] * 60_000}).encode()
            for _ in range(150):
                reader = socket.create_connection((server.host, server.port), timeout=cli.PATIENCE_S)
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.sendall(b"POST /detokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                readers.append(reader)
            for thread in threads:
                thread.join()
            time.sleep(0.5)
            for reader in readers:
                reader.close()
            is_over.set()
            watcher.join()
            self.assertLess(peak[0] - before, bound())
            self.assertGreater(peak[0] - before, 4 * MIB)
            print(f"{(peak[0] - before) / MIB:.0f} MiB of {bound() / MIB:.0f}")
            server.wait_until_idle()
            self.assertEqual(server.chat(max_tokens=2).status, 200)


if __name__ == "__main__":
    unittest.main()
