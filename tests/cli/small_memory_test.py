#!/usr/bin/env python3
"""A file with experts that is larger than memory runs: experts stay in the mapped file, whose pages come and go. The same text comes
with all memory, with 60 % of the file's size for what a program writes (ulimit -d), and in a memory cgroup of so much for everything."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import cria_cli as cli
from cria_server import Server

sys.path.insert(0, str(cli.SOURCE / "tests/tools"))
import make_random_checkpoint  # noqa: E402

SHAPE = ("--d-model", "256", "--layers", "3", "--heads", "4", "--kv-heads", "2", "--ffn", "512", "--vocab", "2048", "--context", "256",
         "--experts", "64", "--chosen", "2")
SHARE = 0.6
PROMPT = ("--prompt", "Once upon a time", "-n", "8", "--greedy")
NEEDS = re.compile(r"the model needs [\d,]+ bytes \([\d.]+ MB\) of memory(: |, the limit of this container \(cgroup\) is [\d.]+ MB; ).*"
                   r"leave out --no-mmap")


def model():
    """Weights in 8 bits, nearly all of them of experts."""
    checkpoint = cli.folder() / "many-experts"
    if not checkpoint.exists():
        make_random_checkpoint.main([str(checkpoint), *SHAPE])
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(cli.DEMO / name, checkpoint)
    return cli.converted(checkpoint, "--weights", "int8", "--method", "rtn")


def limit_for(path):
    return int(SHARE * Path(path).stat().st_size)


def run(prefix, path, *options):
    done = subprocess.run([*prefix, *cli.command_line(("run", path, *PROMPT, *options))], capture_output=True, text=True,
                          timeout=cli.PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def forget_pages(path):
    """Has the system read the file anew: pages count for the group that reads them first."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class MemoryGroup:
    """A control group of so much memory below this process's own, for what begins with prefix. OSError where none can be made."""

    def __init__(self, n_bytes):
        groups = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines())
        # Version 2 is what is left where no controller of version 1 has the memory.
        one = next((name for name in groups if "memory" in name.split(",")), "")
        top = Path("/sys/fs/cgroup") / one
        self._is_one = bool(one)
        self._folder = top / groups.get(one, "/").lstrip("/") / f"cria-test-{os.getpid()}"
        self._folder.mkdir()
        try:
            self._write({"memory.limit_in_bytes": n_bytes, "memory.swappiness": 0} if one else
                        {"memory.max": n_bytes, "memory.swap.max": 0})
        except OSError:
            self._folder.rmdir()
            raise
        self.prefix = ("sh", "-c", f'echo $$ > "{self._folder}/cgroup.procs" && exec "$@"', "sh")

    def _write(self, settings):
        for name, value in settings.items():
            with open(self._folder / name, "r+", encoding="utf-8") as file:  # which is there or not
                file.write(str(value))

    def n_full(self):
        """How often the limit was met, and pages were taken back."""
        if self._is_one:
            return int((self._folder / "memory.failcnt").read_text("utf-8"))
        events = (self._folder / "memory.events").read_text("utf-8")
        return int(re.search(r"^max (\d+)$", events, re.MULTILINE).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.rmdir()


@unittest.skipIf(cli.IS_SANITIZED or cli.IS_EMULATED, "sanitizers and emulators hold memory of their own")
class SmallMemory(unittest.TestCase):
    def setUp(self):
        self.model = model()
        self.limit = limit_for(self.model)
        self.free = run((), self.model)
        self.assertEqual(self.free[0], cli.DONE, self.free[2])

    def group(self):
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.model], capture_output=True, text=True, check=False).stdout.strip()
        if kind in ("tmpfs", "ramfs"):
            self.skipTest(f"{kind} keeps the file in memory")
        try:
            return MemoryGroup(self.limit)
        except OSError as error:
            self.skipTest(f"no control group can be made here: {error}")

    def test_experts_are_nearly_all_of_the_file(self):
        told = json.loads(cli.cria("info", self.model, "--json").out)
        size = Path(self.model).stat().st_size
        self.assertGreater(told["memory_plan"]["in_place_bytes"], 0.85 * size)
        self.assertLess(told["memory_plan"]["total_bytes"], 0.1 * size)

    def test_what_is_written_is_little(self):
        of_data = ("sh", "-c", f'ulimit -d {self.limit // 1024} && exec "$@"', "sh")
        for threads in ("1", "2"):
            self.assertEqual(run(of_data, self.model, "--threads", threads)[:2], self.free[:2])
        code, _, err = run(of_data, self.model, "--no-mmap")
        self.assertEqual(code, cli.MEMORY, err)
        self.assertRegex(err, NEEDS)

    def test_the_same_text_comes_in_a_group_of_less_memory_than_the_file(self):
        with self.group() as group:
            forget_pages(self.model)
            self.assertEqual(run(group.prefix, self.model)[:2], self.free[:2])
            self.assertGreater(group.n_full(), 0)
            code, _, err = run(group.prefix, self.model, "--no-mmap")
            self.assertEqual(code, cli.MEMORY, err)
            self.assertRegex(err, NEEDS)

    def test_a_server_there_has_as_many_sessions_as_elsewhere(self):
        with self.group() as group:
            forget_pages(self.model)
            with Server(model=self.model, prefix=group.prefix) as server:
                self.assertIn("4 sessions of 256 positions", server.told)
                self.assertEqual(server.post("/completion", {"prompt": "Once upon a time", "n_predict": 2}).status, 200)


if __name__ == "__main__":
    cli.main()
