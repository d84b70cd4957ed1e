"""Clients that load a server until something gives; scripts/serve_load.sh builds first and says how.

Every client asks on raw sockets: what a library would mend or retry is to be seen. Requests come from a list that is
made once; what each is answered when nobody else asks is noted before, and each answer under load must be the same
bytes. Answers that are given up are hung up on after a random time, in the prompt or in the answer.
"""
import asyncio
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from script_arguments import OneLineParser, number, output_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("CRIA_BIN_DIR", ROOT / "build/release/bin"))
HANG_UP_SHARE = 0.1
MEMORY_BAR_KB = 1024  # of growth after the warm-up, in the last round
SPEED_BAR = 2.5
SPEED_TOKENS = 96
SPEED_ROUNDS = 3
PATIENCE_S = 300  # what is waited for always comes
MEMORY_ROUNDS = 6
MOST_SESSIONS, MOST_QUEUE = 1024, 4096  # that cria takes
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "likes": {"type": "array", "items": {"enum": ["tea", "hay", "rain"]}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}


class Refused(Exception):
    """An answer that is no answer: its status."""


def requests(n):
    """Paths and bodies, each always answered with the same bytes."""
    chance = random.Random(13)
    words = "hay water mountain llama story snow road night the a little of and old".split()
    made = []
    for i in range(n):
        text = " ".join(chance.choice(words) for _ in range(chance.choice([3, 20, 120])))
        body = {"seed": i, "temperature": chance.choice([0, 0.8, 1.5]), "max_tokens": chance.choice([4, 24, 64]), "stream": i % 2 == 0}
        kind = i % 4
        if kind == 0:
            path, body["prompt"] = "/v1/completions", "Once upon a time " + text
        elif kind == 1:
            path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": text}]
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}
            body["stream"] = i % 8 == 1
        elif kind == 2:
            path = "/v1/chat/completions"
            body["messages"] = [{"role": "system", "content": "Tell stories. " * 12}, {"role": "user", "content": text}]
        else:
            path, body["prompt"], body["n_predict"] = "/completion", text, body.pop("max_tokens")
            body["stream"] = i % 8 == 3
        made.append((path, json.dumps(body).encode()))
    return made


async def open_request(port, path, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()
    return reader, writer


async def read_head(reader):
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    return int(lines[0].split()[1]), fields


async def read_parts(reader, fields):
    """The body as it comes."""
    if "chunked" not in fields.get("transfer-encoding", ""):
        length = fields.get("content-length")
        yield await (reader.read() if length is None else reader.readexactly(int(length)))
        return
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield data[:-2]


def text_of(fields, body):
    """What an answer says; what differs from one to the next, as ids and times do, left out."""
    if "event-stream" not in fields.get("content-type", ""):
        whole = json.loads(body)
        if "choices" not in whole:
            return whole["content"]
        choice = whole["choices"][0]
        return (choice["message"]["content"] if "message" in choice else choice["text"]) + "|" + str(choice["finish_reason"])
    text, reason, is_done = "", "", False
    for line in body.decode().split("\n"):
        if line == "data: [DONE]":
            is_done = True
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            if "error" in event:
                raise Refused(f"in the stream: {event['error']}")
            if "content" in event:
                text += event["content"]
                is_done = is_done or event.get("stop", False)
            for choice in event.get("choices", []):
                text += choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
                if choice.get("finish_reason"):
                    reason = "|" + choice["finish_reason"]
    if not is_done:
        raise Refused("a stream without an end")
    return text + reason


async def ask(port, path, body):
    reader, writer = await open_request(port, path, body)
    try:
        status, fields = await read_head(reader)
        data = b""
        async for part in read_parts(reader, fields):
            data += part
    finally:
        writer.close()
    if status in (429, 503):
        error = json.loads(data)["error"]
        if "retry-after" not in fields or not error["message"]:
            raise Refused(f"{status} without Retry-After or message")
        return None
    if status != 200:
        raise Refused(f"{status}: {data[:200]!r}")
    return text_of(fields, data)


async def hang_up(port, path, body, chance):
    """Asks and goes after a moment, sometimes before the body is whole."""
    reader, writer = await open_request(port, path, body if chance.random() < 0.9 else body[:-5])
    try:
        await asyncio.wait_for(reader.read(), chance.expovariate(20))
    except (asyncio.TimeoutError, ConnectionError):
        pass
    if chance.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()


class Counts:
    def __init__(self):
        self.answered = self.turned_away = self.hung_up = 0
        self.errors, self.differing = [], []


async def client(seed, port, until, work, known, counts):
    chance = random.Random(seed)
    while time.monotonic() < until:
        i = chance.randrange(len(work))
        try:
            if chance.random() < HANG_UP_SHARE:
                await hang_up(port, *work[i], chance)
                counts.hung_up += 1
                continue
            answer = await asyncio.wait_for(ask(port, *work[i]), PATIENCE_S)
        except Exception as error:  # whatever it is, it is to be told
            counts.errors.append(f"{work[i][0]} {i}: {type(error).__name__} {error}")
            await asyncio.sleep(0.05)
            continue
        if answer is None:
            counts.turned_away += 1
            await asyncio.sleep(chance.random() * 0.1)
        else:
            counts.answered += 1
            if answer != known[i]:
                counts.differing.append(f"{work[i][0]} {i}: {answer!r} instead of {known[i]!r}")


class Server:
    def __init__(self, model, *options):
        self.log = tempfile.TemporaryFile("w+")
        command = [str(BIN / "cria"), "serve", str(model), "--port", "0", *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.port = None
        for line in self.process.stdout:
            found = re.search(r"http://[^ ]*:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            sys.exit(f"serve_load: the server did not start: {self.logged()}")

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def resident_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """The exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None


async def settled(server, n_descriptors):
    """Waits until connections that were dropped are gone."""
    until = time.monotonic() + PATIENCE_S
    while server.n_descriptors() > n_descriptors and time.monotonic() < until:
        await asyncio.sleep(0.1)
    return server.n_descriptors()


async def get(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    status, fields = await read_head(reader)
    body = b"".join([part async for part in read_parts(reader, fields)])
    writer.close()
    return status, body


async def load(server, options):
    work = requests(48)
    known = [await ask(server.port, *each) for each in work]
    again = [await ask(server.port, *each) for each in work]
    n_descriptors = server.n_descriptors()
    counts = Counts()

    async def run(seconds):
        until = time.monotonic() + seconds
        await asyncio.gather(*(client(i, server.port, until, work, known, counts) for i in range(options.clients)))

    await run(min(10.0, max(2.0, options.seconds / 10)))  # the warm-up: as many connections as there will ever be
    await settled(server, n_descriptors)
    resident = [server.resident_kb()]
    started = time.monotonic()
    await run(options.seconds)
    seconds = time.monotonic() - started
    descriptors_after = await settled(server, n_descriptors)
    resident.append(server.resident_kb())
    # What the heap keeps for later has an end, which a busy machine comes to later; a leak has none.
    while not options.ignore_memory and resident[-1] - resident[-2] > MEMORY_BAR_KB and len(resident) <= MEMORY_ROUNDS:
        await run(options.seconds)
        descriptors_after = await settled(server, n_descriptors)
        resident.append(server.resident_kb())
    health, _ = await get(server.port, "/health")
    slots = json.loads((await get(server.port, "/slots"))[1])
    alone = [await ask(server.port, *each) for each in work]
    return [
        ("answers", f"{counts.answered}, {counts.answered / seconds:.0f} a second", counts.answered > 0),
        ("turned away (429, 503)", counts.turned_away, True),
        ("hung up on", counts.hung_up, counts.hung_up > 0),
        ("other errors", "; ".join([str(len(counts.errors)), *counts.errors[:3]]), not counts.errors),
        ("answers unlike those alone", "; ".join([str(len(counts.differing)), *counts.differing[:2]]), not counts.differing),
        ("twice alone before, once after", "the same", known == again == alone),
        ("resident", ", then ".join(f"{kb} KB" for kb in resident),
         options.ignore_memory or resident[-1] - resident[-2] <= MEMORY_BAR_KB),
        ("descriptors", f"{n_descriptors}, then {descriptors_after}", descriptors_after <= n_descriptors),
        ("healthy, all sessions free", health, health == 200 and not any(slot["is_processing"] for slot in slots)),
    ]


async def tokens_per_second(port, n_clients):
    """Tokens that n clients together get a second of streams, the reading of short prompts included."""
    async def stream(i):
        body = {"prompt": [300 + i, 301, 302, 303], "n_predict": SPEED_TOKENS, "stream": True, "ignore_eos": True, "seed": i}
        reader, writer = await open_request(port, "/completion", json.dumps(body).encode())
        status, fields = await read_head(reader)
        if status != 200:
            sys.exit(f"serve_load: {status} {await reader.read()}")
        data = b"".join([part async for part in read_parts(reader, fields)])
        writer.close()
        return json.loads([line for line in data.decode().split("\n") if line.startswith("data: {")][-1][6:])["tokens_predicted"]
    started = time.monotonic()
    n_tokens = sum(await asyncio.gather(*(stream(i) for i in range(n_clients))))
    return n_tokens / (time.monotonic() - started)


async def speeds(server):
    one, four = [], []
    await tokens_per_second(server.port, 1)
    for _ in range(SPEED_ROUNDS):
        one.append(await tokens_per_second(server.port, 1))
        four.append(await tokens_per_second(server.port, 4))
    ratio = statistics.median(b / a for a, b in zip(one, four))
    return [("tokens a second, one client", f"{statistics.median(one):.1f}", True),
            ("four clients together", f"{statistics.median(four):.1f}", True),
            ("ratio", f"{ratio:.2f}, at least {SPEED_BAR}", ratio >= SPEED_BAR)]


def speed_model(folder):
    """Random weights of a shape of 135M, with the demo model's tokenizer."""
    checkpoint, model = folder / "checkpoint", folder / "speed.cria"
    subprocess.run([sys.executable, ROOT / "tests/tools/make_random_checkpoint.py", checkpoint, "--shape", "smollm-135m"], check=True)
    demo = ROOT / "models/demo"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (checkpoint / name).write_bytes((demo / name).read_bytes())
    config, demo_config = (json.loads((at / "config.json").read_text()) for at in (checkpoint, demo))
    config |= {key: demo_config[key] for key in ("bos_token_id", "eos_token_id")}
    (checkpoint / "config.json").write_text(json.dumps(config))
    subprocess.run([BIN / "cria-convert", checkpoint, "-o", model, "--quiet"], check=True)
    return model


def stopped(server, rows):
    code = server.stop()
    rows.append(("exit code after SIGTERM", code, code == 0))
    return rows


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("seconds", type=number(1, 24 * 60 * 60))
    parser.add_argument("--clients", type=number(1, 1000), default=50)
    parser.add_argument("--sessions", type=number(1, MOST_SESSIONS), default=4)
    parser.add_argument("--queue", type=number(0, MOST_QUEUE), default=24)
    parser.add_argument("--ignore-memory", action="store_true", help="of a build with sanitizers, which keep what was freed")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--only-speed", action="store_true")
    parser.add_argument("--json", type=output_file)
    parser.add_check()
    options = parser.parse_args()
    if options.check:
        return
    rows = []
    with tempfile.TemporaryDirectory(prefix="cria_load_") as name:
        folder = pathlib.Path(name)
        if not options.only_speed:
            model = folder / "demo.cria"
            subprocess.run([BIN / "cria-convert", ROOT / "models/demo", "-o", model, "--quiet"], check=True)
            server = Server(model, "--sessions", options.sessions, "--queue", options.queue)
            try:
                rows += stopped(server, asyncio.run(load(server, options)))
            finally:
                if server.process.poll() is None:
                    server.process.kill()
        if options.speed or options.only_speed:
            server = Server(speed_model(folder), "--sessions", 4, "--threads", 2, "--context", 512)
            try:
                rows += stopped(server, asyncio.run(speeds(server)))
            finally:
                if server.process.poll() is None:
                    server.process.kill()
    for what, value, holds in rows:
        print(f"{'ok  ' if holds else 'MISS'}  {what:32} {value}")
    if options.json:
        options.json.write_text(json.dumps([{"what": w, "value": str(v), "holds": h} for w, v, h in rows], indent=1) + "\n")
    sys.exit(0 if all(holds for _, _, holds in rows) else 1)


if __name__ == "__main__":
    main()
