#!/usr/bin/env python3
"""examples/minimal writes what cria run writes."""
import subprocess
import unittest

import cria_cli as cli


class Minimal(unittest.TestCase):
    def test_writes_the_text_of_cria_run(self):
        ran = subprocess.run([str(cli.BIN / "minimal")], capture_output=True, timeout=cli.PATIENCE_S, check=True)
        wanted = cli.cria("run", cli.model(), "-p", "Once upon a time", "--greedy", "-n", "24", "--no-echo",
                          "--backend", "exact")
        self.assertEqual(ran.stdout.decode(), wanted.out)
        self.assertGreater(len(ran.stdout), 10)


if __name__ == "__main__":
    cli.main()
