"""cria chat on a terminal: random conversations with detours. What was refused, taken back, said differently, forgotten, or went
through files was never there: answers and saved files are those of a conversation that is told what is left alone."""
import json
import unittest
from random import Random
from typing import NamedTuple

import checkpoints
import cria_cli as cli
from seeds import seeds_of_test

CONVERSATIONS = 4 if cli.IS_SANITIZED or cli.IS_EMULATED else 7 if cli.IS_SAMPLED else 16
LINES = 12
TEMPLATES = ((), *(("--chat-template", name) for name in ("chatml", "llama2", "zephyr", "alpaca", "qwen3", "mistral")))
QUESTIONS = ("Hello", "What is a cria?", "Tell me a story.", "What is 3 + 4?", "llama " * 20, "llama " * 40)
SYSTEMS = ("You are kind.", "You are cria, a tiny assistant that likes to answer in short sentences.")
TOO_LONG = "llama " * 300
STATES = "states"
_with_states = []


def checkpoint(window):
    """The demo, as a model of an architecture whose layers all have this window if it is not 0; or a model whose layers keep a
    state."""
    if window == 0:
        return cli.DEMO
    if window == STATES:
        if not _with_states:
            _with_states.append(checkpoints.lfm2("lfm2_detours", 256))
        return _with_states[0]
    folder = cli.folder() / f"window{window}"
    if not folder.exists():
        folder.mkdir()
        for file in cli.DEMO.iterdir():
            if file.name != "config.json":
                (folder / file.name).symlink_to(file)
        config = json.loads((cli.DEMO / "config.json").read_text("utf-8"))
        config.update(architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=window)
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


def settings(seed, max_tokens):
    """Before each answer, so that it does not matter how many were drawn before."""
    return (f"/set seed {seed}", f"/set max-tokens {max_tokens}")


def random_turns(random, files):
    """Lines that are typed one after the other: settings and whatever comes then, which may be refused."""
    for _ in range(LINES):
        question, system, file = random.choice(QUESTIONS), random.choice(SYSTEMS), random.choice(files)
        line = random.choice((
            *[question] * 10, *["/undo"] * 4, *["/regen", f"/edit {question}"] * 2, f"/save {file}", f"/load {file}", "/reset",
            f"/system {system}", TOO_LONG, f"/edit {TOO_LONG}", f"/system {TOO_LONG}", f"/save {file}/none", "/load /dev/null",
            "/jump", "/stats"))
        yield (*settings(random.randrange(9), random.choice((1, 8, 12, 12, 40))), line)


class Kept(NamedTuple):
    """What is left of a conversation. Exchanges that leave a full context for what is taken back later do not come back: from
    there on what is taken back, and how, is told too."""
    told: tuple = ()  # turns, each with what was shown
    before: tuple = ()  # for each exchange, what was told before it; None where exchanges left for it or after it

    def behind(self, turn, shown, saved):
        """The same after another turn."""
        *setting, line = turn
        name, _, argument = line.partition(" ")
        if "cria: error: " in shown or name in ("/jump", "/stats"):
            return self
        if name == "/save":
            saved[argument] = self
            return self
        if name == "/load":
            return saved[argument]
        if name == "/reset":
            return Kept(tuple(entry for entry in self.told if entry[0][-1].startswith("/system")))
        if name == "/system":
            return Kept(((turn, shown),))
        told, before = self
        if name in ("/undo", "/regen", "/edit"):
            *before, first = before
            if first is None:
                first = (*told, (turn, shown))
                return Kept(first, tuple(before if name == "/undo" else self.before))
            if name == "/undo":
                return Kept(first, tuple(before))
            turn = (*setting, argument if name == "/edit" else told[-1][0][-1])
            shown = shown[shown.index("\n") + 1:] if shown.startswith("(greedy: ") else shown
            told = first
        before = (None,) * (len(before) + 1) if "forgot the oldest" in shown else (*before, told)
        return Kept((*told, (turn, shown)), before)


class ChatDetours(unittest.TestCase):
    def talk(self, random, model, options, first, turns):
        """What was shown after each turn, and the end: a file, an answer, and the file after it."""
        files = [cli.folder() / f"end.{i}" for i in range(2)]
        turns = [*turns, (*settings(1, 12), f"/save {files[0]}"), ("Who are you?",), (f"/save {files[1]}",)]
        code, shown = cli.talk("--backend", "exact", *options, "--threads", random.choice((1, 1, 2, 3)), model_path=model,
                               lines=[*first, *(line for turn in turns for line in turn)], pause=random.choice((0, 0, 0.01)))
        self.assertEqual(code, cli.DONE)
        behind, end = [], len(first)
        for turn in turns:
            end += len(turn)
            behind.append(shown[end - 1])
        return behind[:-3], (files[0].read_bytes(), behind[-2], files[1].read_bytes())

    def hold_one(self, seed):
        random = Random(seed)
        making = ("--weights", random.choice(("int4", "int4", "int8")), *random.choice(TEMPLATES))
        window = random.choice((0, 0, 0, 16, 48, 128, STATES, STATES))
        model = cli.converted(checkpoint(window), "--compress", "none", *making)
        options = ("--context", random.choice((64, 96, 128, 200, 256)), "--kv", random.choice(("int8", "f32", "k8v4")),
                   "--prefill-chunk", random.choice((8, 64)), *random.choice(((), (), ("--exact-context",))),
                   "--snapshots", random.choice("0125"))
        first = random.choice(((), ("/set greedy off",)))
        turns = list(random_turns(random, [cli.folder() / f"{seed}.{i}" for i in range(2)]))
        shown, end = self.talk(random, model, options, first, turns)
        kept, saved = Kept(), {}
        for turn, answer in zip(turns, shown):
            kept = kept.behind(turn, answer, saved)
        straight = [turn for turn, _ in kept.told]
        short = [[turn[-1][:24] for turn in each] for each in (turns, straight)]
        with self.subTest(seed=seed, making=making, window=window, options=options, first=first, turns=short[0], straight=short[1]):
            # What is left, told to a program that has had nothing else; and its file, loaded by one.
            file = cli.folder() / "loaded"
            file.write_bytes(end[0])
            for again, wanted in ((straight, [answer for _, answer in kept.told]), ([(f"/load {file}",)], None)):
                shown, other_end = self.talk(random, model, options, first, again)
                if wanted is not None:
                    self.assertEqual(shown, wanted)
                self.assertEqual(other_end[1], end[1])
                for one, other in zip(end[::2], other_end[::2]):
                    self.assertTrue(one == other, "the files differ")

    def test_what_is_left_is_all_that_was_said(self):
        for seed in seeds_of_test(*range(CONVERSATIONS)):
            self.hold_one(seed)


if __name__ == "__main__":
    cli.main()
