#!/usr/bin/env python3
"""What scripts/test.sh says at its end: of each preset whether it was built, what ctest says, and why a test failed."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import cria_cli as cli

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
# Programs in place of CMake's: each does as files of its folder say, if there are any for the preset.
CMAKE = """#!/bin/sh
[ "$1" != --build ] || { cat "$FOLDER/build.$3" 2>/dev/null && exit 1; }
exit 0
"""
CTEST = """#!/bin/sh
mkdir -p "build/$2/Testing/Temporary" && : >"build/$2/Testing/Temporary/LastTest.log"
[ ! -f "$FOLDER/tests.$2" ] || cat "$FOLDER/tests.$2" >"$6"; [ -s "$6" ] || exit 8
! grep -q '\\*\\*\\*Failed' "$6"
"""
PASSED = """\
1/2 Test #1: base.first ..........   Passed    0.01 sec
2/2 Test #2: base.second .........***Skipped   0.01 sec

100% tests passed, 0 tests failed out of 2
"""
FAILED = """\
      Start  1: base.first
1/4 Test #1: base.first ..........   Passed    0.01 sec
Error: of a test that passed
2/4 Test #2: base.second .........***Failed    0.51 sec
\x1b[01;31m\x1b[Kone.cpp:5: Failure\x1b[m\x1b[K
  Actual: \x001
      Start  4: base.fourth
3/4 Test #3: base.third ..........
***Failed    0.02 sec
the last words
4/4 Test #4: base.fourth .........   Passed    0.01 sec

50% tests passed, 2 tests failed out of 4
"""
BUILD = """\
[1/9] Building CXX object errors/error_text.cpp.o
FAILED: runtime/a.o
/usr/bin/c++ -Werror -Wfatal-errors -Wno-error=x -c a.cpp %s
-Dx-error: -Dy=error: none of both
a.h:1:2: \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kthe \xffcause
""" % ("-I" * 500) + f"a.h:3:4: error: {'a' * 400}\n" + "b.cpp:1:1: error: a follower\n" * 9000
CONFIGURE = """\
CMake Error at CMakeLists.txt:3 (find_package):

  the reason
  goes on
  and on
"""
LINK = "FAILED: bin/x\nld: x.o: in function `f()':\nx.cpp:(.text+0x1): undefined reference to `g()'\ncollect2: error: ld\n"


class Summary(unittest.TestCase):
    def summary(self, *targets, log="", **files):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "scripts").mkdir()
            (folder / "bin").mkdir()
            shutil.copy(ROOT / "scripts/test.sh", folder / "scripts")
            for program, text in (("scripts/setup.sh", "#!/bin/sh\n"), ("bin/cmake", CMAKE), ("bin/ctest", CTEST)):
                (folder / program).write_text(text)
                (folder / program).chmod(0o755)
            for file, text in files.items():
                (folder / file.replace("_", ".")).write_text(text, "latin-1")
            (folder / "build/release").mkdir(parents=True)
            (folder / "build/release/ctest.log").write_text(log)
            options = [word for target in targets for word in ("--target", target)]
            done = subprocess.run([folder / "scripts/test.sh", *options], capture_output=True, encoding="latin-1", timeout=cli.PATIENCE_S, check=False,
                                  env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "FOLDER": name})
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout[done.stdout.rindex("\n\n== ") + 2:].splitlines()

    def test_presets_that_pass(self):
        status, lines = self.summary("release", "dev", tests_release=PASSED, tests_dev=PASSED)
        self.assertEqual(status, 0)
        self.assertEqual(lines[1::2], ["100% tests passed, 0 tests failed out of 2"] * 2)
        self.assertRegex("\n".join(lines), r"\A== release: built in 0 min \d s, tested in .*\n.*\n== dev: built .*\n.*\n== all: ")

    def test_what_is_run_without_targets(self):
        presets = "release", "cortex-m33", "dev", "cortex-m55", "cortex-m55-helium", "cortex-m4"
        status, lines = self.summary(**{f"tests_{preset}": PASSED for preset in presets})
        self.assertEqual((status, [line.split(":")[0] for line in lines[:-1:2]]),
                         (0, ["== release", "== cortex-m33, short", "== dev", "== cortex-m55", "== cortex-m55-helium", "== cortex-m4, short"]))

    def test_what_is_asked_for_is_run_whole(self):
        with mock.patch.dict(os.environ, short="cortex-m33"):
            _, lines = self.summary("cortex-m33", **{"tests_cortex-m33": PASSED})
        self.assertRegex(lines[0], r"\A== cortex-m33: built in ")

    def test_why_tests_failed(self):
        status, lines = self.summary("release", tests_release=FAILED)
        self.assertEqual(status, 1)
        self.assertEqual(lines[1:-1], ["50% tests passed, 2 tests failed out of 4", "  2: base.second: Failed    0.51 sec",
                                       "    one.cpp:5: Failure", "      Actual: 1", "  3: base.third: Failed    0.02 sec",
                                       "    the last words"])

    def test_what_does_not_build_and_what_comes_after_it(self):
        status, lines = self.summary("release", "dev", build_release=BUILD, tests_dev=PASSED)
        self.assertEqual(status, 1)
        self.assertEqual(lines[:6], ["== release", "it does not build", "FAILED: runtime/a.o", "a.h:1:2: error: the cause",
                                     "a.h:3:4: error: " + "a" * 284, "b.cpp:1:1: error: a follower"])
        self.assertEqual(lines[9], "100% tests passed, 0 tests failed out of 2")
        _, lines = self.summary("release", build_release=CONFIGURE)
        self.assertEqual(lines[2:-1], ["CMake Error at CMakeLists.txt:3 (find_package):", "  the reason", "  goes on"])
        _, lines = self.summary("release", build_release=LINK)
        self.assertEqual(lines[2:-1], ["FAILED: bin/x", "x.cpp:(.text+0x1): undefined reference to `g()'", "collect2: error: ld"])
        for reason in "l.ld:1: syntax error", "region `FLASH' overflowed by 9 bytes", "y section `.text' will not fit in region `FLASH'":
            log = f"FAILED: bin/x\n/opt/arm/bin/arm-none-eabi-ld:{reason}\n/opt/arm/bin/ld: warning: old\ncollect2: error: ld\n"
            _, lines = self.summary("release", build_release=log)
            self.assertEqual(lines[2:-1], ["FAILED: bin/x", f"/opt/arm/bin/arm-none-eabi-ld:{reason}", "collect2: error: ld"])
        _, lines = self.summary("release", build_release="CMake Error at CMakeLists.txt:3 (message):\n  error: no\n\n  for this\n")
        self.assertEqual(lines[2:-1], ["CMake Error at CMakeLists.txt:3 (message):", "  error: no", "  for this"])
        status, lines = self.summary("release", build_release="Killed\n")
        self.assertEqual((status, lines[2]), (1, "see build/release/build.log"))

    def test_a_ctest_that_cannot_start(self):
        for before in "", FAILED:  # a log of an earlier run
            status, lines = self.summary("release", log=before)
            self.assertEqual((status, lines[1:-1]), (1, ["no test ran to its end"]))


if __name__ == "__main__":
    unittest.main()
