#!/usr/bin/env python3
"""The tables of docs/performance.md and README.md are what the files of docs/measurements make."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(os.environ.get("CRIA_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(ROOT / "scripts"))

import measurements  # noqa: E402
import measurements_table as tables  # noqa: E402


def run_of(kind, date, figures, **more):
    """A run of the 1B shape; figures by name: a ratio, or what the figure has besides."""
    run = {"date": date, "machine": {"kind": kind, "cores": 2}, "shape": "llama-3.2-1b", "level": None, "rival": {"build": 7}, "figures": []}
    for name, figure in figures.items():
        more_of_it = figure if isinstance(figure, dict) else {"ratio": figure}
        run["figures"].append({"name": name, "cria": 3.0, "rival": 2.0, "ratio": 1.5, "bar": None} | more_of_it)
    return run | more


class MeasurementsTable(unittest.TestCase):
    def test_the_documents_hold_what_the_files_make(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/measurements_table.py", "--check"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_every_file_keeps_to_the_schema(self):
        runs = measurements.load()
        self.assertGreater(len(runs), 40)
        for name, run in runs:
            self.assertEqual(measurements.problems_of(name, run), [], name)
            self.assertEqual(measurements.text_of(run), (measurements.FOLDER / f"{name}.json").read_text(), name)

    def row(self, runs, name):
        """The cells of a row of docs/performance.md; none when there is no such row."""
        for line in tables.table_of(runs).splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells[0] == name:
                return cells[1:]
        return []

    def test_a_cell_has_the_median_and_the_ends(self):
        name = "int4 prefill 512, 2 threads"
        runs = [run_of("zen4", "2026-01-01", {name: {"ratio": 2.0, "bar": 1.8}}), run_of("zen4", "2026-01-02", {name: 2.5}),
                run_of("zen4", "2026-01-03", {name: 2.1}), run_of("zen3", "2026-01-03", {name: {"ratio": None, "range": [1.2, 1.3]}}),
                run_of("a-new-core", "2026-01-03", {name: 4.0})]
        self.assertEqual(self.row(runs, name), ["≥ 1.80", "2.10 (2.00 to 2.50)", "1.20 to 1.30", "4.00"])
        self.assertEqual(self.row(runs, "ratio"), ["bar", "Zen 4", "Zen 3", "a-new-core"])
        self.assertEqual(self.row(runs, "runs"), ["", "3, 2026-01-01 to 03", "1, 2026-01-03", "1, 2026-01-03"])
        runs[1]["figures"][0]["excluded"] = "a busy hour"
        self.assertEqual(self.row(runs, name)[1], "2.05 (2.00 to 2.10)")
        self.assertIn("- Left out, Zen 4, 2026-01-02, figures: 1. Reason: a busy hour.\n", tables.table_of(runs))
        runs[0]["level"] = "avx2"
        self.assertEqual(self.row(runs, name)[1], "2.10")
        self.assertEqual(self.row([runs[0]], name), [])

    def whole_run(self, kind, date, ratio=1.5, **more):
        return run_of(kind, date, {name: {"ratio": ratio, "planned": 738} for _, name in tables.README_ROWS}, **more)

    def test_readme_has_the_newest_whole_run_and_the_ends_of_other_machines(self):
        runs = [("old", self.whole_run("zen4", "2026-01-01", 9.0)), ("new", self.whole_run("zen4", "2026-01-02", 1.5)),
                ("partial", run_of("zen4", "2026-01-03", {tables.README_ROWS[0][1]: 8.0})),
                ("other", self.whole_run("zen5", "2026-01-03", 2.0)), ("third", self.whole_run("zen3", "2026-01-03", 1.0, remark="in haste"))]
        text = tables.summary_of(runs)
        self.assertIn("two cores of an AMD EPYC (Zen 4), beside llama.cpp 7 ", text)
        self.assertIn("[2026-01-02](docs/measurements/new.json). ", text)
        self.assertIn("| prefill of 512 tokens, 2 threads, tokens/s | 3.00 | 2.00 | 1.5 | 1.0 (Zen 3, in haste) to 2.0 |\n", text)
        self.assertIn("| peak memory, MB (planned: 738) |", text)
        self.assertIn(" | 1.5 | the same |\n", tables.summary_of(runs[:2] + [("same", self.whole_run("zen5", "2026-01-03"))]))
        runs[1][1]["figures"][0]["excluded"] = "a busy hour"
        self.assertIn("[2026-01-01]", tables.summary_of(runs))
        with self.assertRaises(SystemExit):
            tables.summary_of(runs[2:])

    def test_a_document_that_differs_is_told_and_then_written(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "docs").mkdir()
            for document in ("docs/performance.md", "README.md"):
                (folder / document).write_text((ROOT / document).read_text().replace("| int4 peak memory |", "| int4 memory |")
                                               .replace("| peak memory,", "| memory,"))
            before = (folder / "README.md").read_text()

            def said(*words):
                with mock.patch.object(tables, "ROOT", folder), mock.patch.object(sys, "argv", ["measurements_table.py", *words]), \
                        contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as end:
                    tables.main()
                return str(end.exception.code)
            self.assertIn("performance.md: not what the files", said("--check"))
            self.assertIn("README.md: not what the files", said("--check"))
            self.assertEqual((folder / "README.md").read_text(), before)
            self.assertEqual((said(), said("--check")), ("0", "0"))
            self.assertEqual((folder / "README.md").read_text(), (ROOT / "README.md").read_text())
            (folder / "README.md").write_text("no marker\n")
            self.assertIn("README.md: a marker is missing", said())
            self.assertEqual((folder / "README.md").read_text(), "no marker\n")

    def test_a_file_that_is_wrong_stops_it(self):
        name, run = measurements.load()[0]
        run["figures"][0]["verdict"] = "met, nearly"
        with mock.patch.object(tables, "load", lambda: [(name, run)]), \
                mock.patch.object(sys, "argv", ["measurements_table.py"]), self.assertRaises(SystemExit) as end:
            tables.main()
        self.assertIn(f"docs/measurements/{name}.json: ", str(end.exception.code))


if __name__ == "__main__":
    unittest.main()
