"""What the server takes from clients that are hostile, slow or gone, and how it ends."""
import contextlib
import http.client
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import cria_cli as cli
from cria_server import Server
from seeds import seeds_of_test

HELLO = {"messages": [{"role": "user", "content": "hello"}], "seed": 1}
# An answer that goes on until its client leaves or the context is full.
LONG = {"prompt": "Once upon a time", "ignore_eos": True, "seed": 2}
KEY = "sk-this-is-the-secret-key"
MINUTES = "minutes, emulated or sanitized: six to fifty thousand tokens"


def head(text, *lines):
    return "\r\n".join([text, "Host: localhost", *lines, "", ""]).encode()


def status_of(answer):
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer[9:12])


def assert_memory_settles(server, work, n_rounds):
    """Sooner or later n_rounds of work take less than a megabyte more. What the heap keeps for later has an end, and is more on
    a busy machine; a leak has none."""
    if cli.IS_SANITIZED or cli.IS_EMULATED:
        return work()
    sizes = [server.resident_bytes()]
    for _ in range(12):
        for _ in range(n_rounds):
            work()
        sizes.append(server.resident_bytes())
        if sizes[-1] - sizes[-2] < 1 << 20:
            return None
    raise AssertionError(f"memory grows: {sizes}")


class Security(unittest.TestCase):
    def test_keys(self):
        path = cli.folder() / "keys"
        path.write_text(f"\n{KEY}\r\nsecond\n")
        with Server("--api-key-file", path) as server:
            for public in ("/health", "/v1/models", "/models", "/"):
                self.assertEqual(server.get(public).status, 200)
            wrong = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"X-Api-Key": ""}, {"X-Api-Key": KEY[:-1]},
                     {"Authorization": "Bearer "}, {"X-Api-Key": KEY + KEY}, {"Authorization": "Bearer None"})
            for headers in wrong:
                for answer in (server.post("/v1/chat/completions", HELLO, headers=headers), server.get("/props", headers=headers),
                               server.get("/nothing", headers=headers), server.get("/slots", headers=headers)):
                    self.assertEqual((answer.status, answer.error["type"]), (401, "authentication_error"))
            for headers in ({"Authorization": "Bearer " + KEY}, {"X-Api-Key": KEY}, {"authorization": "bearer second"}):
                self.assertEqual(server.post("/completions", {"prompt": "a", "n_predict": 1}, headers=headers).status, 200)
        self.assertNotIn(KEY, "".join(server.log) + server.told)

    def test_a_key_file_without_keys_is_an_error(self):
        for text in ("", "\n \n", "a b\n", "caf\u00e9\n", "k\n" + "k" * 8193):
            path = cli.folder() / "bad_keys"
            path.write_text(text)
            result = cli.cria("serve", cli.model(), "--port", "0", "--api-key-file", path)
            self.assertEqual(result.code, cli.BAD_INPUT, result.err)
        self.assertIn(": line 2 is longer than the 8192 bytes that a key can have", result.err)

    def test_readers_without_a_key_that_are_slow_keep_nobody_out(self):
        keys = cli.folder() / "keys"
        keys.write_text(f"{KEY}\n")
        with Server("--api-key-file", keys) as server, contextlib.ExitStack() as stack:
            slow = []
            for _ in range(256):
                client = stack.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.settimeout(cli.PATIENCE_S)
                client.connect((server.host, server.port))
                client.sendall(head("GET / HTTP/1.1"))
                slow.append(client)
            for client in slow:
                self.assertTrue(client.recv(1200).startswith(b"HTTP/1.1 200"))
            for _ in range(20):
                answer = server.post("/completion", {"prompt": "a", "n_predict": 1}, headers={"Authorization": f"Bearer {KEY}"})
                self.assertEqual(answer.status, 200)
                time.sleep(0.05)

    def test_the_longest_key_is_heard(self):
        path = cli.folder() / "long_key"
        path.write_text("k" * 8192)
        with Server("--api-key-file", path) as server:
            self.assertEqual(server.get("/slots", headers={"Authorization": "Bearer " + "k" * 8192}).status, 200)
            self.assertEqual(server.get("/slots", headers={"Authorization": "Bearer " + "k" * 8191}).status, 401)

    def test_names_and_sites(self):
        with Server("--allow-origin", "https://chat.example") as server:
            here = f"localhost:{server.port}"
            for host in (here, "localhost", "127.0.0.1", "127.8.9.1:80", "[::1]:8080", "chat.example", "LOCALHOST"):
                self.assertEqual(server.get("/health", headers={"Host": host}).status, 200, host)
            for host in ("evil.example", "localhost.evil.example", "localhost:x", "127.0.0.1.evil.example", "1.2.3.4", "[::2]",
                         "0x7f.1", "2130706433", "localhost@evil.example", "evil.example:80"):
                for method, path in (("GET", "/health"), ("POST", "/tokenize"), ("OPTIONS", "/health"), ("HEAD", "/")):
                    answer = server.request(method, path, {} if method == "POST" else None, headers={"Host": host})
                    self.assertEqual(answer.status, 403, (method, host))
            for origin in (f"http://{here}", "https://chat.example"):
                answer = server.post("/tokenize", {"content": "a"}, headers={"Host": here, "Origin": origin})
                self.assertEqual(answer.status, 200, origin)
            for origin in ("http://evil.example", "null", "", "http://localhost", f"https://{here}", "https://chat.example.evil",
                           f"http://{here}.evil.example"):
                for method in ("GET", "POST", "OPTIONS", "HEAD"):
                    answer = server.request(method, "/health", {} if method == "POST" else None, headers={"Host": here, "Origin": origin})
                    self.assertEqual(answer.status, 403, (method, origin))
                    self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
                    self.assertNotIn("evil", answer.raw.decode() + str(answer.headers))

    def test_an_allowed_site_gets_its_headers(self):
        site = "https://chat.example"
        with Server("--allow-origin", site) as server:
            before = server.request("OPTIONS", "/v1/chat/completions", headers={
                "Origin": site, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
            self.assertEqual((before.status, before.headers["Access-Control-Allow-Origin"]), (204, site))
            self.assertIn("POST", before.headers["Access-Control-Allow-Methods"])
            self.assertIn("Authorization", before.headers["Access-Control-Allow-Headers"])
            for answer in (server.post("/tokenize", {"content": "a"}, headers={"Origin": site}),
                           server.post("/tokenize", b"{", headers={"Origin": site})):
                self.assertEqual((answer.headers["Access-Control-Allow-Origin"], answer.headers["Vary"]), (site, "Origin"))
            self.assertIsNone(server.get("/health").headers["Access-Control-Allow-Origin"])

    def test_options_that_are_wrong(self):
        for options in (["--allow-origin", "*"], ["--allow-origin", "chat.example"], ["--allow-origin", "https://chat.example/"],
                        ["--host", "nowhere.example"], ["--port", "65536"], ["--sessions", "0"]):
            result = cli.cria("serve", cli.model(), *options)
            self.assertEqual(result.code, cli.USAGE, (options, result.err))

    def test_a_port_that_is_taken(self):
        with Server() as server:
            result = cli.cria("serve", cli.model(), "--port", server.port)
            self.assertEqual(result.code, cli.IO)
            self.assertRegex(result.err, r"cria: error: [^\n]*port \d+[^\n]*; choose another with --port, [^\n]*\n\Z")

    def test_an_address_of_another_machine(self):
        result = cli.cria("serve", cli.model(), "--host", "192.0.2.1", "--port", "0")  # of RFC 5737: nobody's
        self.assertEqual(result.code, cli.IO)
        self.assertRegex(result.err, r"cria: error: 192\.0\.2\.1 port 0: [^\n]*; give --host an address of this machine\n\Z")


class Transport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--sessions", 2, "--queue", 2))

    def test_what_is_no_request(self):
        post = "POST /tokenize HTTP/1.1"
        for data, wanted in (
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
            (b"nonsense\r\n\r\n", 400),
            (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
            (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403),
            (b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
            (b"GET http:///health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (b"GET http://localhost@evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403),
            (b"GET https://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            (head(post), 411),
            (head(post, "Content-Length: x"), 400),
            (head(post, "Content-Length: -1"), 400),
            (head(post, "Content-Length: 2", "Content-Length: 3") + b"{}", 400),
            (head(post, "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
            (head(post, "Transfer-Encoding: gzip"), 400),
            (head(post, "Transfer-Encoding: gzip, chunked") + b"2\r\n{}\r\n0\r\n\r\n", 400),
            (head(post, "Transfer-Encoding: chunked") + b"zz\r\n", 400),
            (head(post, "Content-Length: 99999999"), 413),
            (head(post, "Content-Length: 2", "Content-Encoding: gzip") + b"{}", 415),
            (head(post, "Content-Length: 2", "Content-Type: Multipart/form-data") + b"{}", 415),
            (head("GET / HTTP/1.1", "X: " + "a" * 20000), 431),
            (head("GET / HTTP/1.1", *["X: a"] * 2800), 431),
        ):
            answer = self.server.raw(data)
            self.assertEqual(status_of(answer), wanted, data[:80])
            self.assertIn(b"\r\nConnection: close\r\n", answer, data[:80])
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            self.assertEqual(error["code"], wanted)
        plain = self.server.raw(head(post, "Content-Length: 2", "Content-Encoding: Identity", "Connection: close") + b"{}")
        self.assertEqual(status_of(plain), 200)

    def test_targets_with_the_server_s_name_and_empty_lines_before_them(self):
        for start in (b"GET http://localhost/health", b"GET HTTP://LOCALHOST:80/health?a=/", b"\r\n\r\nGET /health"):
            answer = self.server.raw(start + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertTrue(answer.endswith(b'{"status":"ok"}'), answer)
        with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
            for part in (b"\r", b"\n", b"\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                client.sendall(part)
                time.sleep(0.05)
            self.assertEqual(status_of(client.recv(10000)), 200)

    def test_a_client_that_closes_its_sending_half(self):
        def answer_of(path, request):
            body = json.dumps(request).encode()
            with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
                client.sendall(head(f"POST {path} HTTP/1.1", f"Content-Length: {len(body)}") + body)
                client.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: client.recv(65536), b""))

        for path, request in (("/tokenize", {"content": ["word " * 2000] * 50}), ("/apply-template", HELLO)):
            self.assertEqual(status_of(answer_of(path, request)), 200)
        for stream in (True, False):
            # Pieces may come before the server sees it ("stop":false); the end, or a whole answer, must not: but on a machine
            # that lets the answer be written before the server's other thread runs, where it is tried again.
            end = b'"stop":true' if stream else b'"stop"'
            self.assertTrue(any(end not in answer_of("/completion", {**LONG, "stream": stream}) for _ in range(20)))
        self.server.wait_until_idle()

    def test_bodies_that_do_not_end_lock_out_nobody(self):
        def begun(*lines):
            client = socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S)
            client.sendall(head("POST /tokenize HTTP/1.1", *lines))
            return client

        length = f"Content-Length: {4 << 20}"
        clients = [begun("Transfer-Encoding: chunked") for _ in range(20)] + [begun(length) for _ in range(20)]
        self.assertEqual(self.server.post("/tokenize", {"content": "a"}).status, 200)
        # 20 times 2 MiB are too much: the largest are told so, and small ones still get in.
        for client in clients[20:]:
            client.sendall(b" " * (2 << 20))
        self.assertEqual(self.server.post("/tokenize", {"content": "a"}).status, 200)
        answered, _, _ = select.select(clients[20:], [], [], cli.PATIENCE_S)
        self.assertIn(503, [status_of(client.recv(10000)) for client in answered])
        self.assertLess(len(answered), 20)
        for client in clients:
            client.close()

    def test_requests_that_do_not_end_make_room_for_others(self):
        many = [socket.create_connection((self.server.host, self.server.port)) for _ in range(300)]
        for i, client in enumerate(many):
            try:
                client.sendall(head("POST /tokenize HTTP/1.1", "Content-Length: 9") + b"{" if i % 2 else b"GET / HT")
            except OSError:
                pass  # it had to make room
        for _ in range(5):
            self.assertEqual(self.server.get("/health").status, 200)
        for client in many:
            client.close()

    def test_requests_with_bytes_that_are_wrong(self):
        for seed in seeds_of_test(7):
            with self.subTest(seed=seed):
                self.send_wrong_bytes(random.Random(seed))

    def send_wrong_bytes(self, chance):
        body = json.dumps({**HELLO, "max_tokens": 2, "stream": True}).encode()
        good = (head("POST /v1/chat/completions HTTP/1.1", f"Content-Length: {len(body)}", "Connection: close") + body,
                head("POST /tokenize HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close") + b"f\r\n{\"content\":\"ab\"}\r\n0\r\n\r\n",
                head("GET /props HTTP/1.1", "Origin: http://localhost", "Connection: close"))
        for _ in range(300):
            data = bytearray(chance.choice(good))
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(data))
                chance.choice((lambda: data.__setitem__(at, chance.randrange(256)), lambda: data.__delitem__(at),
                               lambda: data.insert(at, chance.choice(b"\r\n :,0{\"")), lambda: data.__delitem__(slice(at, None))))()
                if not data:
                    break
            with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
                client.sendall(bytes(data))
                client.shutdown(socket.SHUT_WR)
                try:
                    answer = b"".join(iter(lambda: client.recv(65536), b""))
                except ConnectionResetError:
                    continue
                self.assertTrue(not answer or answer.startswith(b"HTTP/1.1 "), answer[:100])
        self.server.wait_until_idle()
        self.assertEqual(self.server.chat(max_tokens=2).status, 200)

    def test_bodies_that_are_no_json(self):
        for data in (b"", b"{", b"[]", b'"a"', b"\xff\xfe", b'{"a":1}x', b"[" * 100_000, b'{"content": "\xff"}', b"null", b'{"content":"a"}\0',
                     b'{"content":' + b'{"a":' * 200 + b"1" + b"}" * 201):
            answer = self.server.post("/tokenize", data)
            self.assertEqual(answer.status, 400, data[:40])
        many = self.server.post("/tokenize", b'{"content": [' + b"1," * 600_000 + b"1]}")
        self.assertEqual(many.status, 413)

    @unittest.skipIf(cli.IS_SANITIZED or cli.IS_EMULATED, "takes more address space than it uses")
    def test_requests_without_memory_for_them_end_nothing(self):
        many = ",".join(["1"] * 500_000)
        with Server(limits="-v 80000") as server:
            for name in ("x", "prompt", "messages", "stop"):
                for form in ("[%s]", "[[%s]]", '[{"a":[%s]}]'):
                    body = '{"prompt":"a","max_tokens":1,"%s":%s}' % (name, form % many)
                    answer = server.post("/completion", body.encode())
                    self.assertIn(answer.status, (200,) if name == "x" else (400, 413, 503), (name, form, answer.raw[:200]))
            text = server.post("/tokenize", {"content": ["a b " * 2000] * 130, "with_pieces": True})
            self.assertIn(text.status, (200, 503))
            self.assertEqual(server.chat(max_tokens=2).status, 200)

    def test_a_chunked_body_and_one_that_waits_to_be_asked_for(self):
        body = b'{"content":"hello"}'
        chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
        answer = self.server.raw(head("POST /tokenize HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close") + chunked)
        self.assertEqual(status_of(answer), 200)
        with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
            client.sendall(head("POST /tokenize HTTP/1.1", f"Content-Length: {len(body)}", "Expect: 100-continue"))
            self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
            client.sendall(body)
            self.assertEqual(status_of(client.recv(10000)), 200)
        huge = b"".join(b"100000\r\n" + b" " * 0x100000 + b"\r\n" for _ in range(5))
        answer = self.server.raw(head("POST /tokenize HTTP/1.1", "Transfer-Encoding: chunked") + huge)
        self.assertEqual(status_of(answer), 413)

    def test_trailers_count_into_the_header(self):
        begin = head("POST /tokenize HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close", "X: " + "a" * 8000)
        body = b'10\r\n{"content":"ab"}\r\n'
        for trailers, wanted in ((b"", 200), (b"A: b\r\n", 200), (b"A: " + b"a" * 7000 + b"\r\n", 200), (b"A: b\r\n" * 1000, 200),
                                 (b"A: " + b"a" * 9000 + b"\r\n", 431), (b"A: b\r\n" * 1500, 431), (b"A: b\r\n" * 20000, 431), (b"A" * 40000, 431)):
            for size in (None, 1000):  # at once, or in pieces that are read one by one
                with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    data = begin + body + b"0\r\n" + trailers + b"\r\n"
                    try:
                        for at in range(0, len(data), size or len(data)):
                            client.sendall(data[at:at + (size or len(data))])
                        answer = b"".join(iter(lambda: client.recv(65536), b""))
                    except (ConnectionResetError, BrokenPipeError):
                        answer = None  # more is sent than the server waits for
                if answer or wanted == 200:
                    self.assertEqual(status_of(answer), wanted, (len(trailers), size))
        for extension, wanted in ((b";a=" + b"b" * 7000, 200), (b";a=" + b"b" * 9000, 431)):
            data = begin + b"10" + extension + b'\r\n{"content":"ab"}\r\n0\r\n\r\n'
            self.assertEqual(status_of(self.server.raw(data)), wanted)
        many = b"".join(b'1;a=b\r\n%c\r\n' % byte for byte in b'{"content":"ab"}' + b" " * 20000)
        self.assertEqual(status_of(self.server.raw(begin + many + b"0\r\n\r\n")), 200)

    def test_connections_are_kept_and_requests_answered_in_order(self):
        connection = self.server.connection()
        for _ in range(3):
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            connection.request("POST", "/v1/chat/completions", json.dumps({**HELLO, "max_tokens": 3, "stream": True}))
            self.assertTrue(connection.getresponse().read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        body = json.dumps({**HELLO, "max_tokens": 5}).encode()
        chat = head("POST /v1/chat/completions HTTP/1.1", f"Content-Length: {len(body)}") + body
        answer = self.server.raw(chat * 3 + head("GET /health HTTP/1.1", "Connection: close"))
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK\r\n"), 4)
        self.assertTrue(answer.endswith(b'{"status":"ok"}'))

    def test_requests_that_come_while_one_sent_ahead_is_answered(self):
        def request(path, wish, *lines):
            body = json.dumps(wish).encode()
            return head(f"POST {path} HTTP/1.1", f"Content-Length: {len(body)}", *lines) + body

        with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
            # The second is read while the first is answered, and the third is waited for already when the second begins.
            client.sendall(request("/v1/completions", {"prompt": "a", "max_tokens": 400, "ignore_eos": True}))
            time.sleep(0.05)
            client.sendall(request("/v1/completions", {"prompt": "b", "max_tokens": 2}))
            answer = b""
            while answer.count(b"HTTP/1.1 200 OK\r\n") < 2 or not answer.endswith(b"]}"):
                answer += client.recv(65536)
            client.sendall(request("/tokenize", {"content": "c"}, "Connection: close"))
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        self.assertEqual(status_of(answer), 200, answer)
        self.assertIn(b'{"tokens":[', answer)

    def test_clients_of_http_1_0(self):
        answer = self.server.raw(b"GET /health HTTP/1.0\r\n\r\n")
        self.assertTrue(answer.endswith(b'\r\n\r\n{"status":"ok"}'))
        body = json.dumps({**HELLO, "max_tokens": 3, "stream": True}).encode()
        answer = self.server.raw(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        self.assertNotIn(b"chunked", answer)
        self.assertTrue(answer.endswith(b"data: [DONE]\n\n"))

    def test_a_client_that_leaves_frees_its_session(self):
        for stream in (True, False):
            for _ in range(4):
                connection = self.server.connection()
                connection.request("POST", "/completion", json.dumps({**LONG, "stream": stream}))
                connection.sock.close()
                connection.close()
        end = time.monotonic() + cli.PATIENCE_S
        while self.server.chat(max_tokens=2).status != 200:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.server.wait_until_idle()

    def test_more_than_sessions_and_queue_hold(self):
        statuses = []

        def ask():
            answer = self.server.post("/completion", {**LONG, "n_predict": 400, "n": 2})
            statuses.append((answer.status, answer.headers["Retry-After"]))

        end = time.monotonic() + cli.PATIENCE_S
        while time.monotonic() < end:
            statuses.clear()
            threads = [threading.Thread(target=ask) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertLessEqual({status for status, _ in statuses}, {200, 429})
            if (429, "1") in statuses:
                return
        self.fail("never too many")

    def test_the_same_request_gives_the_same_text_whoever_else_asks(self):
        alone = [self.server.chat(f"tell me about {i}", max_tokens=40, temperature=1.2).body["choices"] for i in range(6)]
        got = {}

        def ask(i, n):
            while True:
                answer = self.server.chat(f"tell me about {i}", max_tokens=40, temperature=1.2)
                if answer.status == 200:
                    got[i, n] = answer.body["choices"]
                    return
                time.sleep(0.01)

        threads = [threading.Thread(target=ask, args=(i, n)) for i in range(6) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for (i, _), choices in got.items():
            self.assertEqual(choices, alone[i])

    def test_memory_and_descriptors_stay(self):
        def round_of():
            for i in range(30):
                self.server.chat(f"question {i}", max_tokens=5)
                self.server.post("/tokenize", {"content": "word " * 3000})
                self.server.stream("/completion", {**LONG, "n_predict": 20})
                self.server.raw(b"nonsense\r\n\r\n")

        round_of()
        n_descriptors = self.server.n_descriptors()
        # A leak of 3 KB a request is seen.
        assert_memory_settles(self.server, round_of, 3)
        end = time.monotonic() + cli.PATIENCE_S
        while self.server.n_descriptors() > n_descriptors + 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_long_bodies_of_clients_that_reset_are_not_kept(self):
        text = json.dumps({"content": ["\u4e2d" * 2700] * 480}, ensure_ascii=False).encode()
        request = head("POST /tokenize HTTP/1.1", f"Content-Length: {len(text)}") + text
        before = self.server.resident_bytes()
        for _ in range(120):
            with socket.create_connection((self.server.host, self.server.port), timeout=cli.PATIENCE_S) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(request)
                time.sleep(0.02)
        if not cli.IS_SANITIZED and not cli.IS_EMULATED:
            # 32 MiB of bodies, and what is made of the one that is read, some 34 MiB: not 120 times 4 MB.
            self.assertLess(self.server.resident_bytes() - before, 200 << 20)
        self.assertEqual(self.server.post("/tokenize", {"content": "a"}).status, 200)

    def test_slow_headers_hold_up_nobody(self):
        slow = [socket.create_connection((self.server.host, self.server.port)) for _ in range(50)]
        for client in slow:
            client.sendall(b"GET / HTTP/1.1\r\nHost: local")
        self.assertEqual(self.server.chat(max_tokens=2).status, 200)
        slow[0].settimeout(cli.PATIENCE_S)
        self.assertEqual(status_of(slow[0].recv(10000)), 408)
        for client in slow:
            client.close()

    def test_more_connections_than_there_are(self):
        many = [socket.create_connection((self.server.host, self.server.port)) for _ in range(400)]
        self.assertEqual(self.server.get("/health").status, 200)
        for client in many:
            client.close()

    def test_a_client_that_reads_nothing_holds_no_session(self):
        client = socket.create_connection((self.server.host, self.server.port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps({**LONG, "stream": True, "n_probs": 20}).encode()
        client.sendall(head("POST /completion HTTP/1.1", f"Content-Length: {len(body)}") + body)
        self.server.wait_until_idle()
        client.close()


class LongAnswers(unittest.TestCase):
    """What is made faster than it is taken, and much at once."""

    MUCH = {"prompt": "Hi", "max_tokens": 500, "ignore_eos": True, "seed": 1, "logprobs": 20}

    def streams(self, server, n):
        """The raw answers of n clients that read as fast as they can."""
        answers = [b""] * n
        body = json.dumps({**self.MUCH, "stream": True}).encode()
        asked = head("POST /v1/completions HTTP/1.1", f"Content-Length: {len(body)}", "Connection: close") + body

        def ask(i):
            answers[i] = server.raw(asked)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def unread(self, server, data, n):
        """Clients that ask and read nothing."""
        clients = []
        body = json.dumps(data).encode()
        for _ in range(n):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(cli.PATIENCE_S)
            client.connect((server.host, server.port))
            client.sendall(head("POST /v1/completions HTTP/1.1", f"Content-Length: {len(body)}") + body)
            clients.append(client)
        return clients

    @unittest.skipIf(cli.IS_EMULATED, MINUTES)
    def test_streams_of_clients_that_read_are_whole(self):
        with Server("--sessions", 2, "--queue", 40) as server:
            for answer in self.streams(server, 12):
                self.assertTrue(answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), (len(answer), answer[-200:]))
                self.assertEqual(answer.count(b'"text_offset"'), 500)

    def test_a_long_answer_is_sent_as_it_is_written(self):
        with Server("--sessions", 2, "--queue", 40) as server:
            ask = {**self.MUCH, "max_tokens": 120, "temperature": 0}
            single = server.post("/v1/completions", ask).body["choices"][0]
            answer = server.post("/v1/completions", {**ask, "prompt": ["Hi"] * 4})
            self.assertGreater(len(answer.raw), 256 << 10)
            self.assertEqual(answer.headers["Transfer-Encoding"], "chunked")
            events = server.stream("/v1/completions", ask)[:-1]
            lists = {}
            for event in events:
                for name, rows in (event["choices"][0]["logprobs"] or {}).items():
                    lists.setdefault(name, []).extend(rows)
            for i, choice in enumerate(answer.body["choices"]):
                self.assertEqual(choice, {**single, "index": i})
                self.assertEqual(choice["logprobs"], lists)
                self.assertEqual(len(choice["logprobs"]["content"]), 120)
            old = json.dumps(ask).encode()
            whole = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(old), old))
            self.assertNotIn(b"chunked", whole)
            self.assertEqual(json.loads(whole.partition(b"\r\n\r\n")[2])["choices"][0], single)
            short = server.post("/v1/completions", {**ask, "max_tokens": 2})
            self.assertEqual(int(short.headers["Content-Length"]), len(short.raw))

    TOO_MUCH = {**MUCH, "prompt": ["Hi"] * 200}

    def test_more_than_an_answer_holds_is_refused_at_once(self):
        with Server("--sessions", 4, "--queue", 200) as server:
            answer = server.post("/v1/completions", {**self.TOO_MUCH, "max_tokens": 2000})
            self.assertEqual((answer.status, answer.error["param"]), (400, "max_tokens"))
            server.wait_until_idle()

    # Some 46,000 tokens.
    @unittest.skipIf(cli.IS_EMULATED or cli.IS_SANITIZED, MINUTES)
    def test_an_answer_ends_when_it_holds_too_much(self):
        with Server("--sessions", 4, "--queue", 200) as server:
            endless = {name: value for name, value in self.TOO_MUCH.items() if name != "max_tokens"}
            answer = server.post("/v1/completions", endless)
            self.assertEqual((answer.status, answer.error["param"]), (400, "max_tokens"))
            server.wait_until_idle()

    @unittest.skipIf(cli.IS_EMULATED, MINUTES)
    def test_memory_of_long_answers_comes_back(self):
        with Server("--sessions", 4, "--queue", 40) as server:
            many = {**self.MUCH, "prompt": ["Hi"] * 10}

            def ask():
                answer = server.post("/v1/completions", many)
                self.assertEqual(answer.status, 200)
                self.assertEqual(len(answer.body["choices"]), 10)
                self.assertEqual(server.post("/v1/completions", {**many, "prompt": "Hi", "n": 4}).status, 200)

            ask()
            # An answer of ten choices is some 6 MB.
            assert_memory_settles(server, ask, 2)

    def test_who_reads_nothing_holds_up_nobody(self):
        with Server("--sessions", 2, "--queue", 200) as server:
            clients = self.unread(server, {**self.MUCH, "stream": True}, 60) + self.unread(server, self.MUCH, 60)
            slowest = 0
            end = time.monotonic() + 5
            while time.monotonic() < end:
                begin = time.monotonic()
                self.assertEqual(server.get("/health").status, 200)
                slowest = max(slowest, time.monotonic() - begin)
                time.sleep(0.05)
            # Some milliseconds at rest; who reads nothing is cut off after a minute.
            self.assertLess(slowest, 30)
            if not cli.IS_SANITIZED and not cli.IS_EMULATED:
                self.assertLess(server.resident_bytes(), 256 << 20)
            for client in clients:
                client.close()
            server.wait_until_idle()
            self.assertEqual(server.chat(max_tokens=2).status, 200)


class Unread(unittest.TestCase):
    """Standard error and output that nobody reads: a paused terminal, a program behind a pipe that hangs."""

    def setUp(self):
        self.readers = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def tearDown(self):
        for reader in self.readers:
            os.close(reader)

    def full_pipe(self):
        """Its end to be written to."""
        reader, writer = os.pipe()
        self.readers.append(reader)
        os.set_blocking(writer, False)
        try:
            while os.write(writer, b"x" * 65536):
                pass
        except BlockingIOError:
            pass
        os.set_blocking(writer, True)
        return writer

    def serve(self, stdout, stderr):
        command = [cli.CRIA, "serve", cli.model(), "--port", str(self.port), "--threads", "1", "--metrics"]
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for descriptor in (stdout, stderr):
            if descriptor != subprocess.DEVNULL:
                os.close(descriptor)
        return process

    def connected(self):
        """A connection as soon as the server takes one."""
        end = time.monotonic() + cli.PATIENCE_S
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=cli.PATIENCE_S)
            try:
                connection.connect()
                self.addCleanup(connection.close)
                return connection
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), end, "the server does not start")
                time.sleep(0.05)

    def test_who_does_not_read_holds_up_nobody(self):
        process = self.serve(self.full_pipe(), self.full_pipe())  # from the beginning
        connection = self.connected()
        for _ in range(8000):  # more lines than are kept
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
        connection.request("POST", "/completion", json.dumps({"prompt": "a", "n_predict": 2, "seed": 1}))
        self.assertEqual(connection.getresponse().status, 200)
        connection = self.connected()
        connection.request("GET", "/metrics")
        counts = connection.getresponse().read().decode()
        self.assertGreater(int(counts.partition("\ncria_log_lines_dropped_total ")[2].split()[0]), 0)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(cli.PATIENCE_S), 0)

    def test_an_end_with_an_error_waits_for_nobody(self):
        with socket.create_server(("127.0.0.1", self.port)):
            process = self.serve(subprocess.DEVNULL, self.full_pipe())
            self.assertEqual(process.wait(cli.PATIENCE_S), cli.IO)

    def test_a_reader_that_is_gone(self):
        reader, writer = os.pipe()
        process = self.serve(subprocess.DEVNULL, writer)
        os.close(reader)
        connection = self.connected()
        connection.request("GET", "/health")
        self.assertEqual(connection.getresponse().status, 200)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(cli.PATIENCE_S), 0)


class Ending(unittest.TestCase):
    @unittest.skipIf(cli.IS_EMULATED, "the emulator has descriptors of its own")
    def test_too_few_descriptors_are_an_error_at_the_start(self):
        # A sanitizer's check of objects opens a pipe: without one it takes each for none.
        for few in (20,) if cli.IS_SANITIZED else (5, 20):
            with self.assertRaisesRegex(RuntimeError, r": 4\n.*needs \d+; raise ulimit -n"):
                Server(limits=f"-n {few}")
        if not cli.IS_SANITIZED:
            with Server(limits="-S -n 5") as server:
                self.assertEqual(server.get("/health").status, 200)
        with Server(limits="-S -n 20") as server:  # what it may raise itself
            many = [socket.create_connection((server.host, server.port)) for _ in range(100)]
            self.assertEqual(server.get("/health").status, 200)
            for client in many:
                client.close()

    @unittest.skipIf(cli.IS_SANITIZED or cli.IS_EMULATED, "takes more address space than it uses")
    def test_too_little_memory_is_an_error_at_the_start(self):
        n_refused = 0
        for n_kib in range(16000, 60000, 4000):
            try:
                with Server(limits=f"-v {n_kib}"):
                    pass
            except RuntimeError as error:
                n_refused += 1
                self.assertRegex(str(error), r": (5|127)\n", n_kib)  # 127: of the loader
        self.assertGreater(n_refused, 0)

    def test_signals_end_it(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with Server() as server:
                idle = server.connection()
                idle.request("GET", "/health")
                idle.getresponse().read()
                self.assertEqual(server.stop(number), cli.DONE)
                idle.close()

    def test_under_nohup_it_outlives_its_terminal(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            server = Server()
        finally:
            signal.signal(signal.SIGHUP, before)
        with server:
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            self.assertEqual(server.get("/health").status, 200)

    def test_what_runs_is_finished(self):
        # What ten seconds are enough for, at rest less than one.
        n_tokens = 40 if cli.IS_EMULATED or cli.IS_SANITIZED else 400
        with Server() as server:
            connection = server.connection()
            connection.request("POST", "/completion", json.dumps({**LONG, "stream": True, "n_predict": n_tokens}))
            response = connection.getresponse()
            self.assertTrue(response.readline().startswith(b":"))
            while not response.readline().startswith(b"data: "):  # then it has a session
                pass
            server.process.send_signal(signal.SIGTERM)
            text = response.read().decode()
            self.assertIn('"stop":true', text)
            self.assertEqual(server.process.wait(cli.PATIENCE_S), cli.DONE)
            connection.close()

    def test_one_line_a_request_without_its_text(self):
        with Server() as server:
            server.chat("a secret text", max_tokens=2)
            server.raw(head("GET /\x1b[31m/x HTTP/1.1", "Connection: close"))
            server.get("/" + "a" * 3000)
        text = "".join(server.log)
        self.assertRegex(text, r"\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ POST /v1/chat/completions 200, \d+ tokens \(\d+ held\), 2 made, \d")
        self.assertNotIn("secret", text)
        self.assertNotIn("\x1b", text)
        self.assertLess(max(map(len, server.log)), 300)


if __name__ == "__main__":
    cli.main()
