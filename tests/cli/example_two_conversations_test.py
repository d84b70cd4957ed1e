#!/usr/bin/env python3
"""examples/two_conversations writes, for each of its prompts, what cria run writes for it alone."""
import subprocess
import unittest

import cria_cli as cli

PROMPTS = ("Once upon a time the llama", "Once upon a time there was a fox")
PROGRAM = str(cli.BIN / "two_conversations")


class TwoConversations(unittest.TestCase):
    def test_writes_the_text_of_each_alone(self):
        for options in ((), ("--compress", "none"), ("--weights", "int8")):
            model = cli.model(*options)
            ran = subprocess.run([PROGRAM, model], capture_output=True, timeout=cli.PATIENCE_S, check=True)
            wanted = []
            for prompt in PROMPTS:
                text = cli.cria("run", model, "-p", prompt, "--greedy", "-n", "24", "--no-echo", "--backend", "exact").out
                self.assertGreater(len(text), 10)
                wanted.append(f"{prompt}:{text}")
            self.assertEqual(ran.stdout.decode(), "".join(wanted))
            self.assertNotEqual(wanted[0].split(":")[1], wanted[1].split(":")[1])

    def test_says_what_is_wrong(self):
        ran = subprocess.run([PROGRAM, cli.DEMO / "config.json"], capture_output=True, timeout=cli.PATIENCE_S, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (1, b"two_conversations: the file: not a cria model file\n"))
        ran = subprocess.run([PROGRAM], capture_output=True, timeout=cli.PATIENCE_S, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (2, b""))


if __name__ == "__main__":
    cli.main()
