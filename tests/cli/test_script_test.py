#!/usr/bin/env python3
"""What scripts/test.sh runs in each lane, and what it says at its end: of each preset whether it was built, what ctest says, why a
test failed, and what took longest."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import cria_cli as cli

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
# Programs in place of CMake's: each does as files of its folder say, if there are any for the preset.
CMAKE = """#!/bin/sh
echo "cmake $*" >>"$FOLDER/calls"
[ "$1" != --build ] || { cat "$FOLDER/build.$3" 2>/dev/null && exit 1; }
exit 0
"""
CTEST = """#!/bin/sh
echo "ctest $*" >>"$FOLDER/calls"
case " $* " in *" --show-only=json-v1 "*) cat "$FOLDER/listed" && exit ;; esac
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


LISTED = """{"tests": [{"name": "runtime.json.unit_runtime_json", "properties": []},
  {"name": "fuzz.json_schema", "properties": []}, {"name": "cli.a_test", "command": ["/usr/bin/python3", "a_test.py"]}]}"""
PROGRAM = """\
1/2 Test #1: base.first ..........***Failed    0.51 sec
[ RUN      ] A.B
a.cpp:5: Failure
[  FAILED  ] A.B (3 ms)
[ RUN      ] A.C
[       OK ] A.C (3 ms)
2/2 Test #2: base.second ..........***Exception: SegFault  9.00 sec
[ RUN      ] A.D

0% tests passed, 2 tests failed out of 2
"""


class Runs(unittest.TestCase):
    def run_script(self, *arguments, log="", says=None, **files):
        """The exit status, and the lines of the output."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for below in ("scripts", "bin", "cmake", "tests/tools", "build/release"):
                (folder / below).mkdir(parents=True)
            for file in ("scripts/test.sh", "scripts/common.sh", "cmake/Lanes.cmake", "tests/tools/test_report.py", "tests/tools/changed_tests.py"):
                shutil.copy(ROOT / file, folder / file)
            for program, text in (("scripts/setup.sh", "#!/bin/sh\n"), ("bin/cmake", CMAKE), ("bin/ctest", CTEST)):
                (folder / program).write_text(text)
                (folder / program).chmod(0o755)
            for file, text in files.items():
                (folder / file.replace("_", ".")).write_text(text, "latin-1")
            (folder / "listed").write_text(LISTED)
            (folder / "build/release/ctest.log").write_text(log)
            self.prepare(folder)
            environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "FOLDER": name}
            done = subprocess.run([*self.caller(folder), *arguments], capture_output=True, encoding="latin-1", timeout=cli.PATIENCE_S, check=False,
                                  env={**environment, **self.environment}, cwd=folder)
            if says is None:
                self.assertEqual(done.stderr, "")
            else:
                self.assertIn(says, done.stderr)
            calls = folder / "calls"
            self.calls = calls.read_text().splitlines() if calls.exists() else []
            self.errors = done.stderr
            return done.returncode, done.stdout.splitlines()

    environment = {}

    def prepare(self, folder):
        pass

    def caller(self, folder):
        return [folder / "scripts/test.sh"]

    def refused(self, problem, *words):
        self.assertEqual((self.run_script(*words, says=""), self.calls), ((2, []), []), words)
        self.assertRegex(self.errors, rf"\Atest: {problem}[^\n]*; see --help\n\Z")

    def summary(self, *targets, arguments=(), **files):
        """The same of targets, and the lines from the first "== " after the last empty line."""
        options = [word for target in targets for word in ("--target", target)]
        status, lines = self.run_script(*options, *arguments, **files)
        return status, lines[len(lines) - lines[::-1].index(""):]


class Summary(Runs):
    def test_presets_that_pass(self):
        status, lines = self.summary("release", "dev", tests_release=PASSED, tests_dev=PASSED)
        self.assertEqual(status, 0)
        self.assertEqual(lines[1::2], ["100% tests passed, 0 tests failed out of 2"] * 2)
        self.assertRegex("\n".join(lines), r"\A== release: built in \d+ min \d+ s, tested in .*\n.*\n== dev: built .*\n.*\n== lane all: ")

    def test_the_default_lane(self):
        presets = "release", "dev", "cortex-m33"
        status, lines = self.summary(**{f"tests_{preset}": PASSED for preset in presets})
        self.assertEqual((status, [line.split(":")[0] for line in lines[:-1:2]]), (0, [f"== {preset}" for preset in presets]))
        tested = [call for call in self.calls if call.startswith("ctest")]
        self.assertEqual([call.split()[2] for call in tested], list(presets))
        self.assertTrue(all(call.endswith(" -L ^default$") for call in tested), tested)
        self.assertEqual(sum("--target lane_default" in call for call in self.calls), 3, self.calls)

    def test_the_lane_of_everything(self):
        presets = "release", "dev", "cortex-m33", "cortex-m55", "cortex-m55-helium", "cortex-m55-blocks", "cortex-m4", "armv7", "fuzz"
        status, lines = self.summary(arguments=["--all"], **{f"tests_{preset}": PASSED for preset in presets})
        self.assertRegex(lines[0], r"\A== CRIA_TEST_RANDOM_SEED=\d+\Z")
        self.assertEqual((status, [line.split(":")[0] for line in lines[1:-1:2]]), (0, [f"== {preset}" for preset in presets]))
        self.assertNotIn("fuzz", [call.split()[2] for call in self.calls if call.startswith("ctest")])  # it is built alone
        # Whole, but for the emulated one.
        parts = [call for call in self.calls if " -L " in call or "lane_default" in call]
        self.assertEqual([call.split("--preset ")[1].split()[0] for call in parts], ["armv7"] * 2)

    def test_what_is_asked_for_is_run_whole(self):
        _, lines = self.summary("cortex-m33", **{"tests_cortex-m33": PASSED})
        self.assertRegex(lines[0], r"\A== cortex-m33: built in ")
        self.assertFalse([call for call in self.calls if " -L " in call or "lane_default" in call])

    def test_help_has_the_lanes(self):
        status, lines = self.run_script("--help")
        self.assertEqual((status, [line.split(":")[0] for line in lines if line.startswith("lane ")]),
                         (0, ["lane default", "lane changed", "lane all"]))

    def test_words_that_are_not_known(self):
        for problem, *words in (("no option '--al'", "--al"), ("no option 'dev'", "dev"), ("no target ''; there are: release", "--target"),
                                ("no target 'cortex'", "--target", "cortex"), ("no target 'dev tsan'", "--target", "dev tsan")):
            self.refused(problem, *words)

    def test_a_run_has_one_lane(self):
        for one, other in (("--all", "--target"), ("--changed", "--all"), ("--target", "--changed")):
            for first, second in ((one, other), (other, one)):
                words = [word for option in (first, second) for word in ((option, "dev") if option == "--target" else (option,))]
                self.refused(f"{first} and {second} exclude each other", *words)

    def test_a_target_that_is_named_twice_runs_once(self):
        _, lines = self.summary("dev", "release", "dev", tests_dev=PASSED, tests_release=PASSED)
        self.assertEqual([line.split(":")[0] for line in lines[:-1:2]], ["== dev", "== release"])

    def test_a_folder_that_cannot_be_written_to(self):
        self.prepare = lambda folder: (folder / "build/dev").write_text("")
        status, lines = self.summary("dev", "release", tests_release=PASSED)
        self.assertEqual((status, lines[:2]), (1, ["== dev", "build/dev cannot be written to"]))
        self.assertEqual(lines[3], "100% tests passed, 0 tests failed out of 2")

    def test_why_tests_failed(self):
        status, lines = self.summary("release", tests_release=FAILED)
        self.assertEqual(status, 1)
        self.assertEqual(lines[1:-1], ["50% tests passed, 2 tests failed out of 4", "  2: base.second: Failed    0.51 sec",
                                       "    one.cpp:5: Failure", "      Actual: 1", "  3: base.third: Failed    0.02 sec",
                                       "    the last words"])

    def test_cases_that_failed_and_where_a_program_ended(self):
        _, lines = self.summary("release", tests_release=PROGRAM)
        self.assertEqual(lines[1:-1], ["0% tests passed, 2 tests failed out of 2", "  1: base.first: Failed    0.51 sec",
                                       "    a.cpp:5: Failure", "    [  FAILED  ] A.B (3 ms)",
                                       "  2: base.second: Exception: SegFault  9.00 sec", "    it ended in A.D"])

    def test_what_took_longest(self):
        _, lines = self.run_script("--target", "release", tests_release=PASSED)
        at = lines.index("2 tests, 0 s of one core or more; those that took longest, s:")
        self.assertEqual(lines[at + 1:at + 3], ["    0.0  release: base.second", "    0.0  release: base.first"])
        self.assertEqual(lines[lines.index("skipped (1):") + 1], "  release: base.second")

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


class Places(Runs):
    """Where the script is called from."""

    def check(self):
        status, lines = self.summary("dev", tests_dev=PASSED)
        self.assertEqual((status, lines[1]), (0, "100% tests passed, 0 tests failed out of 2"))

    def test_a_link_of_another_folder(self):
        with tempfile.TemporaryDirectory(prefix="a link ") as other:
            link = Path(other, "run")
            self.caller = lambda folder: link.symlink_to(folder / "scripts/test.sh") or ["bash", link]
            self.check()

    def test_a_path_for_cd(self):
        with tempfile.TemporaryDirectory() as other:
            Path(other, "scripts").mkdir()
            self.caller = lambda folder: ["scripts/test.sh"]
            for path in other, ".":
                self.environment = {"CDPATH": path}
                self.check()

    def test_descriptors_that_are_closed(self):
        for closed in ">&-", "2>&-", "<&-", ">&- 2>&- <&-":
            self.caller = lambda folder, closed=closed: ["sh", "-c", f'"$0" "$@" {closed}', folder / "scripts/test.sh"]
            status, _ = self.run_script("--target", "dev", tests_dev=PASSED)
            self.assertEqual((status, len(self.calls)), (0, 3), closed)


class Changed(Runs):
    """--changed, in a repository of its own."""

    def prepare(self, folder):
        def git(*words):
            subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)
        git("init", "-q", "-b", "main")
        (folder / "tests/fuzz").mkdir()
        (folder / "tests/fuzz/old.cpp").write_text("a line\n" * 30)
        (folder / ".gitignore").write_text("/build/\n/bin/\n/calls\n/listed\n/tests.*\n")
        git("add", "-A")
        git("commit", "-qm", "first")
        git("checkout", "-qb", "other")
        for path in self.committed:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("")
        for before, after in self.moved:
            (folder / after).parent.mkdir(parents=True, exist_ok=True)
            (folder / before).rename(folder / after)
        git("add", "-A")
        git("commit", "-qm", "second", "--allow-empty")
        for path in self.gone:
            (folder / path).unlink()
        for path in self.new:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("")

    committed = ["runtime/json/a.cpp"]
    new = ["tests/cli/a_test.py"]
    moved = []
    gone = []

    def expression(self):
        return [call for call in self.calls if call.startswith("ctest")][-1].split(" -R ")[1]

    def chosen(self):
        return {name.replace("[.]", ".") for name in re.fullmatch(r"\^\((.*)\)\$", self.expression())[1].split("|") if name}

    def test_files_ask_for_their_tests(self):
        status, _ = self.run_script("--changed", tests_release=PASSED)
        self.assertEqual(status, 0)
        self.assertEqual(self.chosen(), {"cli.a_test", "fuzz.json_schema", "runtime.json.unit_runtime_json"})
        self.assertTrue(any(call.endswith(" --target json_schema_fuzz lane_programs unit_runtime_json") for call in self.calls), self.calls)

    def test_nothing_changed(self):
        self.committed = self.new = []
        self.assertEqual(self.run_script("--changed"), (0, ["nothing differs from main"]))

    def test_another_commit(self):
        self.new = []
        self.assertEqual(self.run_script("--changed", "HEAD")[0], 0)
        self.assertEqual(self.calls, [])

    def test_a_commit_that_is_not_there(self):
        for commit in "nowhere", "", "HEAD:scripts", "@{u}":
            self.refused("--changed: (fatal|error): ", "--changed", commit)
        self.refused("no option '-x'", "--changed", "-x")

    def test_a_folder_without_git(self):
        self.prepare = lambda folder: None
        self.refused("--changed: fatal: not a git repository", "--changed")

    def test_without_git(self):
        with tempfile.TemporaryDirectory() as tools:
            for name in "bash", "basename", "dirname", "env", "realpath", "sed":
                Path(tools, name).symlink_to(shutil.which(name))
            self.environment = {"PATH": tools}
            self.refused("--changed needs git", "--changed")

    def test_files_that_left_or_have_odd_names(self):
        self.committed = []
        self.new = ["quant/a b.cpp", "quant/\u00e9", " x.h"]
        self.run_script("--changed", tests_release=PASSED)
        self.assertEqual(self.chosen(), {"runtime.json.unit_runtime_json"})
        self.new, self.gone = [], ["tests/fuzz/old.cpp"]
        self.run_script("--changed", tests_release=PASSED)
        self.assertEqual(self.chosen(), {"fuzz.json_schema"})

    def test_both_folders_of_a_file_that_moved(self):
        self.committed = self.new = []
        self.moved = [("tests/fuzz/old.cpp", "runtime/json/new.cpp")]
        self.run_script("--changed", tests_release=PASSED)
        self.assertEqual(self.chosen(), {"fuzz.json_schema", "runtime.json.unit_runtime_json"})
        self.moved = [("tests/fuzz/old.cpp", "tests/cli/new.py")]
        self.run_script("--changed", tests_release=PASSED)
        self.assertEqual(self.chosen(), {"fuzz.json_schema"})

    def test_everything_changed(self):
        """ctest takes an expression of few groups."""
        self.new = ["quant/a", "runtime/include/a", "converter/a", "platforms/hosted/cli/a", "scripts/a", "tests/tools/a", "tests/web/a",
                    "tests/package/a", "tests/bench/a", "tests/support/a", "CMakeLists.txt", "tests/cli/a_test.py"]
        self.run_script("--changed", tests_release=PASSED)
        self.assertEqual(self.expression().count("("), 1)
        self.assertEqual(self.chosen(), {"cli.a_test", "fuzz.json_schema", "runtime.json.unit_runtime_json"})

    def test_files_that_another_build_tests(self):
        self.committed, self.new = [], ["platforms/cortex_m/a.cpp"]
        status, lines = self.run_script("--changed", tests_release=PASSED)
        self.assertEqual((status, self.chosen()), (0, set()))
        self.assertIn("== not run: scripts/test.sh --target cortex-m33, the build that tests some of what changed", lines)


if __name__ == "__main__":
    unittest.main()
