"""Valid files whose tokenizers are as odd, and as slow to search, as the format allows."""
import itertools
import resource
import subprocess
import sys
import unittest
from pathlib import Path

import cria_cli as cli

sys.path.insert(0, str(cli.SOURCE / "tests" / "tools"))
from bad_models.model_writer import F16, MATRICES, Model  # noqa: E402
from bad_models.text_writer import (ADDED, AFTER_OTHERS, BEGIN, BYTE_TOKENS, END, RAW_BYTE, SENTENCE_PIECE,  # noqa: E402
                                    SPACE, SPECIAL, START, USER, Rule, Tokenizer, chat_template)

ESCAPE_BYTES, PREPEND_SPACE = 1 << 3, 1 << 4
# For what takes well below a second: what took minutes must not come back, on no machine.
SECONDS = 100 if cli.IS_EMULATED else 20
TEXT_BYTES = 1 << 16


def with_added(texts, **config):
    """A model with these added tokens beside the usual ones."""
    tokens = [*BYTE_TOKENS, *((text, ADDED) for text in texts)]
    added = sorted((i for i, token in enumerate(tokens) if token[1] & ADDED),
                   key=lambda i: (tokens[i][0][:1], -len(tokens[i][0]), tokens[i][0]))
    return Model(tokenizer=Tokenizer(tokens=tokens, added=added).bytes(), bos_token=BEGIN, end_tokens=[END],
                 vocab_size=-(-len(tokens) // 16) * 16, formats={name: (F16, 0) for name in MATRICES}, **config)


class Base(unittest.TestCase):
    def setUp(self):
        self.path = Path(cli.tempfile.mkdtemp(dir=cli.folder())) / "model.cria"

    def write(self, model):
        self.path.write_bytes(bytes(model.file().data))
        return self.path

    def cria(self, *arguments, stdin=b""):
        """Standard output of a command that must end well and soon; its processor time is printed."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([cli.CRIA, *map(str, arguments)], input=stdin, capture_output=True, timeout=cli.PATIENCE_S,
                              check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{self.id().rsplit('.', 1)[-1]}: {taken:.2f} s for {' '.join(map(str, arguments[:1]))}", flush=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(taken, SECONDS)
        return done.stdout


class Slow(Base):
    """The tables that cost a search most: as many lengths as may be, and long beginnings of the text."""

    def check(self, texts):
        path = self.write(with_added(texts))
        tokens = self.cria("tokenize", path, stdin=b"a" * TEXT_BYTES).split()
        self.assertEqual(len(tokens), TEXT_BYTES)

    def test_beginnings_of_the_text_of_every_length(self):
        self.check([b"a" * (n - 1) + b"\x80" for n in range(2, 63)])

    def test_each_token_agrees_a_byte_further(self):
        self.check([b"a" * i + b"\x80" + b"a" * (2047 - i) for i in range(1, 2048)])
        self.check([b"a" * i + (b"\x80" if i % 2 else b"\x10") + b"a" * (2047 - i) for i in range(1, 2048)])

    def test_many_tokens_of_many_lengths(self):
        texts = [b"a" * (n - 3) + bytes([0x80 + i // 64, 0x80 + i % 64]) for n in range(10, 63) for i in range(1024)]
        self.check(texts)

    def test_a_file_cannot_make_its_own_opening_slow(self):
        strings = {which: b"a" * 4096 for which in range(1, 7)}
        rules = (Rule(1 << START, 1 << USER, b"a" * 65535),)
        texts = [b"a" * i + b"\x80" + b"a" * (2047 - i) for i in range(1, 2048)]
        path = self.write(with_added(texts, chat=chat_template(rules=rules, strings=strings)))
        self.cria("verify", path)
        self.cria("run", path, "-p", "b", "-n", "1")

    def test_many_texts_cost_no_pass_over_the_tokens_each(self):
        names = (b"x" + bytes(pair) for pair in itertools.product(range(65, 123), repeat=3))
        path = self.write(with_added(list(itertools.islice(names, 1 << 17))))
        text = self.path.parent / "text"
        text.write_bytes(b"z<s>" * (1 << 16) + b"a a")
        self.cria("eval", path, "--text", text)


class Odd(Base):
    def test_a_byte_may_be_three_tokens(self):
        """Byte fallback without a token for U+2581 or U+FFFD."""
        tokens = [(b"<unk>", 0), (b"<s>", SPECIAL | ADDED), (b"</s>", SPECIAL | ADDED), *((bytes([b]), RAW_BYTE) for b in range(256))]
        tokenizer = Tokenizer(kind=SENTENCE_PIECE, pre_tokenizer=0, flags=ESCAPE_BYTES, tokens=tokens, lookup=(0,), merges=(),
                              byte_tokens=[(b, 3 + b) for b in range(256)], added=(2, 1), bos=1, eos=2, unknown=0)
        path = self.write(Model(tokenizer=tokenizer.bytes(), bos_token=1, end_tokens=[2], vocab_size=272,
                                max_context=4096, planned_context=512))
        blanks = self.cria("tokenize", path, stdin=b" " * 40).split()
        self.assertEqual(blanks, [str(3 + byte).encode() for byte in SPACE] * 40)
        self.assertEqual(len(self.cria("tokenize", path, stdin=b"\xff" * 40).split()), 120)
        self.cria("run", path, "-p", "a b c d e f g h i j k l m n o p q r s t", "-n", "1")

    def test_the_space_in_front_of_text_is_no_control_token(self):
        """An end token whose text is what the tokenizer itself puts before a text."""
        tokens = [(b"<unk>", 0), (b"<s>", SPECIAL | ADDED), (SPACE, SPECIAL | ADDED | AFTER_OTHERS), (b"a", RAW_BYTE), (b"b", 0)]
        tokenizer = Tokenizer(kind=SENTENCE_PIECE, pre_tokenizer=0, flags=ESCAPE_BYTES | PREPEND_SPACE, tokens=tokens,
                              lookup=(0, 4), merges=(), byte_tokens=((97, 3),), added=(1, 2), bos=1, eos=2, unknown=0)
        path = self.write(Model(tokenizer=tokenizer.bytes(), bos_token=1, end_tokens=[2]))
        for text in (b"b", b" b", b"bb b", b"a b"):
            self.assertNotIn(b"2", self.cria("tokenize", path, stdin=text).split(), text)
        self.assertEqual(self.cria("tokenize", path, "--parse-special", stdin=b"b").split(), [b"2", b"4"])


if __name__ == "__main__":
    cli.main()
