"""cria run --prompt-cache: a prompt that was read is not read again, and no byte changes by that."""
import os
import re
import resource
import stat
import struct
import subprocess
import unittest
from pathlib import Path

import checkpoints
import cria_cli as cli

PROMPT = "Once upon a time there was a brave fox who lived in a forest."
LONGER = PROMPT + " One day the fox"
HEADER_BYTES = 128
STATE_HEADER_BYTES = 48


class PromptCache(unittest.TestCase):
    def setUp(self):
        self.folder = Path(cli.tempfile.mkdtemp(dir=cli.folder()))
        self.path = self.folder / "cache"

    def run_cached(self, prompt, *options, model=None, path=None, code=cli.DONE):
        """The result, and how many tokens were read and how many came from the cache."""
        result = cli.cria("run", model or cli.model(), "-p", prompt, "-n", "12", "--seed", "5", "--prompt-cache",
                          path or self.path, *options)
        self.assertEqual(result.code, code, result.err)
        read = re.search(r"prefill (\d+) tokens", result.err)
        cached = re.search(r"(\d+) from the cache", result.err)
        return result, int(read.group(1)) if read else None, int(cached.group(1)) if cached else 0

    def plain(self, prompt, *options, model=None):
        return cli.cria("run", model or cli.model(), "-p", prompt, "-n", "12", "--seed", "5", *options).raw

    def count(self, prompt):
        return len(cli.cria("tokenize", cli.model(), "--special", stdin=prompt).out.split())

    def test_the_second_run_reads_nothing_and_says_the_same(self):
        n = self.count(PROMPT)
        for option in ((), ("--greedy",), ("--threads", "2"), ("--prefill-chunk", "3"), ("--isa", "scalar")):
            option = ("--backend", "exact", *option)
            wanted = self.plain(PROMPT, *option)
            result, read, cached = self.run_cached(PROMPT, *option)
            self.assertEqual((read, cached), (0, n) if len(option) > 2 else (n, 0))
            self.assertEqual(result.raw, wanted)
        before = self.path.read_bytes(), self.path.stat().st_mtime_ns
        self.run_cached(PROMPT, "--backend", "exact")
        self.assertEqual((self.path.read_bytes(), self.path.stat().st_mtime_ns), before)
        self.assertEqual(os.listdir(self.folder), ["cache"])

    def test_of_a_longer_prompt_only_what_is_new_is_read(self):
        self.run_cached(PROMPT)
        n, n_longer = self.count(PROMPT), self.count(LONGER)
        result, read, cached = self.run_cached(LONGER)
        self.assertEqual((read, cached), (n_longer - n, n))
        self.assertEqual(result.raw, self.plain(LONGER))
        result, read, cached = self.run_cached(LONGER)
        self.assertEqual((read, cached), (0, n_longer))
        # A shorter one has its last token read, for what follows it.
        result, read, cached = self.run_cached(PROMPT)
        self.assertEqual((read, cached), (1, n - 1))
        self.assertEqual(result.raw, self.plain(PROMPT))

    def test_of_another_prompt_the_beginning_is_kept(self):
        self.run_cached(PROMPT)
        other = PROMPT.replace("forest", "castle")
        result, read, cached = self.run_cached(other)
        self.assertEqual(read + cached, self.count(other))
        self.assertGreater(cached, 5)
        self.assertEqual(result.raw, self.plain(other))
        result, read, cached = self.run_cached("What is a cria?")
        self.assertEqual(result.raw, self.plain("What is a cria?"))

    def test_ids_have_a_cache_too(self):
        first = cli.cria("run", cli.model(), "--ids", "1,2,3,4", "-n", "8", "--greedy", "--prompt-cache", self.path)
        again = cli.cria("run", cli.model(), "--ids", "1,2,3,4", "-n", "8", "--greedy", "--prompt-cache", self.path)
        self.assertIn("prefill 4 tokens", first.err)
        self.assertIn("prefill 0 tokens", again.err)
        self.assertEqual(again.raw, first.raw)

    def test_every_backend_says_what_it_says_without_a_cache(self):
        model = cli.model("--scales", "positive")
        for backend in cli.backends():
            path = self.folder / backend
            options = ("--backend", backend, "--prefill-chunk", "4")
            for prompt in (PROMPT, PROMPT, LONGER, PROMPT):
                result, _, _ = self.run_cached(prompt, *options, model=model, path=path)
                self.assertEqual(result.raw, self.plain(prompt, *options, model=model), backend)

    def assert_written_anew(self, *words, options=(), model=None):
        result, _, cached = self.run_cached(PROMPT, *options, model=model)
        self.assertEqual(result.raw, self.plain(PROMPT, *options, model=model))
        self.assertEqual(cached, 0)
        self.assertRegex(result.err, r"\Acria: warning: [^\n]*it is written again\nprefill")
        for word in words:
            self.assertIn(word, result.err)
        result, read, _ = self.run_cached(PROMPT, *options, model=model)
        self.assertEqual(read, 0)

    def test_a_cache_of_something_else_is_told_and_written_anew(self):
        self.run_cached(PROMPT)
        self.assert_written_anew("--kv", options=("--kv", "f32"))
        self.run_cached(PROMPT)
        self.assert_written_anew("another model", model=cli.model("--weights", "int8"))
        backends = cli.backends()
        if len(backends) > 1:
            model = cli.model("--scales", "positive")
            self.run_cached(PROMPT, "--backend", backends[0], model=model)
            self.assert_written_anew("backend", options=("--backend", backends[1]), model=model)
        long = PROMPT * 6
        self.run_cached(long)
        result, _, cached = self.run_cached(PROMPT, "--context", "64")
        self.assertEqual(cached, 0)
        self.assertIn("warning", result.err)

    def test_a_damaged_cache_is_told_and_written_anew(self):
        self.run_cached(PROMPT)
        good = self.path.read_bytes()
        n_tokens = struct.unpack("<Q", good[120:HEADER_BYTES])[0]
        state = HEADER_BYTES + 4 * n_tokens
        places = [*range(8, state + STATE_HEADER_BYTES), *range(state + STATE_HEADER_BYTES, len(good), len(good) // 7)]
        for place in places[::5]:
            self.path.write_bytes(good[:place] + bytes([good[place] ^ 0x40]) + good[place + 1:])
            result, _, cached = self.run_cached(PROMPT)
            if "warning" not in result.err:  # the random numbers, which are not the cache's
                self.assertTrue(state + 24 <= place < state + 32, place)
                continue
            self.assertEqual(cached, 0)
            self.assertEqual(self.path.read_bytes()[state + 32:], good[state + 32:])
        for size in (8, 127, 128, 129, state, state + 47, state + 48, len(good) - 1):
            self.path.write_bytes(good[:size])
            self.assert_written_anew()
        self.path.write_bytes(good + b"x")
        self.assert_written_anew()
        for n_state, n in ((0, n_tokens), (len(good) - state, 0), (1 << 63, n_tokens), (len(good) - state, 1 << 62)):
            self.path.write_bytes(good[:112] + struct.pack("<QQ", n_state, n) + good[HEADER_BYTES:])
            self.assert_written_anew()
        header = struct.pack("<QQQQIIII", *struct.unpack("<QQQQ", good[state:state + 32]), 0, 0xffffffff, 1, 0)
        self.path.write_bytes(good[:state] + header + good[state + 48:])
        self.assert_written_anew()

    def test_a_file_that_is_no_cache_is_not_written_over(self):
        for content in (b"a letter to somebody\n" * 100, b"crstate1", b"x"):
            self.path.write_bytes(content)
            result, _, _ = self.run_cached(PROMPT, code=cli.BAD_INPUT)
            self.assertRegex(result.err, r"\Acria: error: [^\n]*is not a prompt cache[^\n]*\n\Z")
            self.assertEqual(result.raw, b"")
            self.assertEqual(self.path.read_bytes(), content)
        result, _, _ = self.run_cached(PROMPT, path=cli.model(), code=cli.USAGE)
        self.assertIn("is the model itself", result.err)
        self.run_cached(PROMPT, path="-", code=cli.USAGE)

    def test_what_is_no_file_is_refused_without_waiting(self):
        os.mkfifo(self.path)
        for path in (self.path, self.folder, Path(os.devnull)):
            result, _, _ = self.run_cached(PROMPT, path=path, code=cli.BAD_INPUT)
            self.assertRegex(result.err, r"\Acria: error: [^\n]+\n\Z")

    def test_an_empty_file_and_a_link_to_nowhere_become_caches(self):
        n = self.count(PROMPT)
        self.path.write_bytes(b"")
        self.path.chmod(0o600)
        link = self.folder / "link"
        link.symlink_to("target")
        for path in (self.path, link):
            for wanted in ((n, 0), (0, n)):
                result, read, cached = self.run_cached(PROMPT, path=path)
                self.assertEqual((read, cached), wanted)
                self.assertNotIn("warning", result.err)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        self.assertTrue(link.is_symlink())
        self.assertGreater((self.folder / "target").stat().st_size, HEADER_BYTES)
        self.assertEqual(stat.S_IMODE((self.folder / "target").stat().st_mode), 0o600)  # it has the prompt's text

    def test_a_cache_that_cannot_be_written_is_told_and_the_text_made(self):
        wanted = self.plain(PROMPT)
        result, _, _ = self.run_cached(PROMPT, path=self.folder / "none" / "cache")
        self.assertRegex(result.err, r"\Acria: warning: [^\n]*none/cache: [^\n]+\nprefill")
        self.assertEqual(result.raw, wanted)
        command = cli.command_line(["run", cli.model(), "-p", PROMPT, "-n", "12", "--seed", "5", "--prompt-cache", self.path])
        done = subprocess.run(command, capture_output=True, timeout=cli.PATIENCE_S, check=False, preexec_fn=(
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))))
        self.assertEqual((done.returncode, done.stdout), (cli.DONE, wanted))
        self.assertIn(b"File too large", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_huge_file_is_refused_before_it_is_read(self):
        self.run_cached(PROMPT)
        with self.path.open("r+b") as file:
            file.truncate(1 << 40)  # to read it would take longer than PATIENCE_S
        self.assert_written_anew("longer than")
        self.assertLess(self.path.stat().st_size, 1 << 30)

    def chat(self, *options, system="You know many stories. " * 12, model=None):
        return cli.cria("chat", model or cli.model(), "--system", system, "--seed", "5", "-n", "12", *options, stdin="who are you\ntell me more\n")

    def test_a_chat_keeps_its_system_text(self):
        cache = ("--prompt-cache", self.path)
        wanted = self.chat().raw
        for _ in range(2):
            result = self.chat(*cache)
            self.assertEqual((result.raw, result.err), (wanted, ""))
            written = self.path.stat().st_mtime_ns
        n_tokens = struct.unpack("<Q", self.path.read_bytes()[120:HEADER_BYTES])[0]
        self.assertGreater(n_tokens, 60)
        self.chat(*cache)
        self.assertEqual(self.path.stat().st_mtime_ns, written)
        # Another system text has the same bytes as without, and takes the file.
        other = "You are a fox. " * 12
        self.assertEqual(self.chat(*cache, system=other).raw, self.chat(system=other).raw)
        self.assertNotEqual(self.path.stat().st_mtime_ns, written)
        # A changed state is told, not used and written anew.
        good = self.path.read_bytes()
        self.path.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
        result = self.chat(*cache, system=other)
        self.assertRegex(result.err, r"\Acria: warning: [^\n]*it is written again\n\Z")
        self.assertEqual(result.raw, self.chat(system=other).raw)
        self.assertEqual(self.path.read_bytes()[HEADER_BYTES:HEADER_BYTES + 4 * 60], good[HEADER_BYTES:HEADER_BYTES + 4 * 60])

    def test_another_system_text_of_a_chat_takes_the_file_as_if_begun_with_it(self):
        systems = ["You know many stories. " * 12, "You know many songs. " * 12]
        for model in (cli.model("--scales", "positive"), cli.converted(checkpoints.lfm2("lfm2_renewed", 1024), "--scales", "positive")):
            for backend in cli.backends():
                with self.subTest(model=model, backend=backend):
                    begun, changed = (self.folder / f"{backend}_{name}" for name in ("begun", "changed"))
                    self.chat("--backend", backend, "--prompt-cache", begun, model=model, system=systems[1])
                    for lines in (["who are you", f"/system {systems[1]}", "who are you"], [f"/system {systems[1]}", "who are you"],
                                  ["who are you", "/reset", f"/system {systems[1]}", "who are you", "/reset", "who are you"]):
                        code, shown = cli.talk("--backend", backend, "-n", "12", "--system", systems[0], "--prompt-cache", changed,
                                               lines=lines, model_path=model)
                        self.assertEqual(code, cli.DONE)
                        self.assertNotIn("warning", "".join(shown))
                        one, other = begun.read_bytes(), changed.read_bytes()
                        # But for the checksum of random numbers, and these, which are not the cache's.
                        at = len(one) - struct.unpack("<Q", one[112:120])[0] + 16
                        self.assertTrue(one[:at] + one[at + 16:] == other[:at] + other[at + 16:], lines)
                        changed.unlink()
                    begun.unlink()

    def test_too_few_snapshots_to_keep_a_system_text_are_told(self):
        model = cli.converted(checkpoints.lfm2("lfm2_few", 512), "--weights", "int8")
        for n in ("0", "1"):
            result = self.chat("--snapshots", n, "--prompt-cache", self.path, model=model)
            self.assertEqual(result.raw, self.chat(model=model).raw)
            self.assertRegex(result.err, rf"\Acria: warning: [^\n]*cache: not written: [^\n]*--snapshots {n}[^\n]*\n\Z")
            self.assertFalse(self.path.exists())
        # What is there is used all the same.
        self.chat("--prompt-cache", self.path, model=model)
        written = self.path.stat().st_mtime_ns
        result = self.chat("--snapshots", "0", "--prompt-cache", self.path, model=model)
        self.assertEqual((result.raw, result.err), (self.chat(model=model).raw, ""))
        self.assertEqual(self.path.stat().st_mtime_ns, written)
        # A prompt is kept where it ends, which takes none.
        path = self.folder / "prompt"
        self.run_cached(PROMPT, "--snapshots", "0", model=model, path=path)
        result, read, _ = self.run_cached(PROMPT, "--snapshots", "0", model=model, path=path)
        self.assertEqual((result.raw, read), (self.plain(PROMPT, model=model), 0))

    def test_states_of_layers_are_kept_too(self):
        model = cli.converted(checkpoints.lfm2("lfm2_kept", 512), "--scales", "positive")
        for backend in cli.backends():
            path = self.folder / f"states_{backend}"
            options = ("--backend", backend)
            wanted = self.chat(*options, model=model).raw
            for _ in range(3):
                result = self.chat(*options, "--prompt-cache", path, model=model)
                self.assertEqual((result.raw, result.err), (wanted, ""))
                written = path.stat().st_mtime_ns
            n_tokens = struct.unpack("<Q", path.read_bytes()[120:HEADER_BYTES])[0]
            self.assertGreaterEqual(n_tokens, 64)
            self.chat(*options, "--prompt-cache", path, model=model)
            self.assertEqual(path.stat().st_mtime_ns, written)
            path = self.folder / f"prompts_{backend}"
            n, n_longer = self.count(PROMPT), self.count(LONGER)
            for prompt, wanted in ((PROMPT, (n, 0)), (PROMPT, (0, n)), (LONGER, (n_longer - n, n)), (LONGER, (0, n_longer))):
                if backend != "exact" and prompt == LONGER:
                    continue  # its chunks would begin elsewhere
                result, read, cached = self.run_cached(prompt, *options, model=model, path=path)
                self.assertEqual(result.raw, self.plain(prompt, *options, model=model))
                self.assertEqual((read, cached), wanted)


if __name__ == "__main__":
    cli.main()
