#!/usr/bin/env python3
"""Words of the regexes of published tokenizers against Python's backtracking, normalization against its unicodedata."""
import os
import random
import re
import subprocess
import sys
import unicodedata
import unittest
from pathlib import Path

from seeds import seeds_of_test

PROBE = Path(os.environ["CRIA_BINARY_DIR"]) / "tests/bin/text_probe"
SEED = 20261122
CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
GPT2 = rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
LLAMA3 = (rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HEAD, TAIL = r"[^\r\n\p{L}\p{N}]?", r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"{HEAD}{UPPER}*{LOWER}+|{HEAD}{UPPER}+{LOWER}*|\p{{N}}{TAIL}"
O200K = rf"{HEAD}{UPPER}*{LOWER}+(?i:{CONTRACTIONS})?|{HEAD}{UPPER}+{LOWER}*(?i:{CONTRACTIONS})?|\p{{N}}{{1,3}}{TAIL}"
# Each a list of stages.
REGEXES = {
    "gpt-2": [GPT2], "smollm": [r"\p{N}", GPT2], "llama3": [LLAMA3], "qwen2": [LLAMA3.replace("{1,3}", "")],
    "cl100k": [CL100K], "tekken": [TEKKEN], "o200k": [O200K],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "deepseek-llm's end of spaces": [r"\s?[A-Za-z\u00b5\u00c0-\u00d6]+", r"\s+$", r"\p{N}+"],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "lazy": [r"\s+?(?=\p{L})|a{2,3}?b|[^\s]{1,4}?\n|\p{L}"], "counted": [r"(?:\p{L}{2}\p{N}){1,2}|\p{L}{,3}\p{N}|\p{N}{2,}"],
    "groups": [r"(?i)(?:ab|a(b|c)d)+|k|(x|xy)(?-i:z|S)\d"], "negated": [r"[^\P{L}a-c]+|\p{^N}|\D\S"],
    "possessive": [r"\p{Lu}?+a|\s?+\p{L}++1?|\p{N}++\s?+|."], "ahead": [r"\p{L}+(?=\p{N})|\p{L}+(?![ab])|\s+(?=[^\s])|(?!x)[a-z]"],
}
# Characters of many classes; those that fold to ASCII, combine, or are white space to some.
ALPHABET = ("abcdklmrstvexyzSTDRVELMKABZ" "'' ''  \n\r\t\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\u200b" "019\u0662\xbd\u2167\u3007"
            "\xe9\xdf\xb5\u01c5\u02b0\xaa\u0561\u0531\u4e2d\u6587\u3042\u30a2\uac00\u1100\u0301\u0903\u20dd\u0e33"
            "\u017f\u212a\u2019!?.,/\\-_~\u3002\u060c\u20ac+<\xac\U0001f600\U0001d400\U00010400\U00020000\U000e0100\ufffd\ue000\u0378")
N_TEXTS, MOST_CHARACTERS = 4000, 14


def spelled(characters):
    return "".join(f"\\U{ord(c):08x}" for c in sorted(characters))


def is_space(character):
    return character in "\t\n\x0b\x0c\r \x85" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


def members(escape):
    """The characters of the alphabet that an escape of the library's regexes stands for."""
    kind, name = escape[1], escape[3:-1]
    negated = kind in "PSD" or name.startswith("^")
    if kind in "sS":
        holds = is_space
    elif kind in "dD":
        holds = lambda c: unicodedata.category(c) == "Nd"  # noqa: E731
    else:
        holds = lambda c: unicodedata.category(c).startswith(name.lstrip("^"))  # noqa: E731
    return {c for c in ALPHABET if holds(c) != negated}


def for_python(regex):
    """The regex with every class of characters spelled out, and what the two write differently."""
    out, depth, i = "", 0, 0
    while i < len(regex):
        escape = re.match(r"\\[pP]\{\^?\w+\}|\\[sSdD]", regex[i:])
        if escape:
            found = spelled(members(escape.group()))
            out += found if depth else f"[{found}]"
            i += escape.end()
        elif regex[i] == "\\":
            out, i = out + regex[i:i + 2], i + 2
        else:
            depth += (regex[i] == "[") - (regex[i] == "]")
            out, i = out + regex[i], i + 1
    return re.compile(out, re.MULTILINE)


def pieces(compiled, text):
    """Matches and what is between them."""
    begin = 0
    for match in compiled.finditer(text):
        if match.start() > begin:
            yield text[begin:match.start()]
        yield match.group()
        begin = match.end()
    if begin < len(text):
        yield text[begin:]


def expected_words(stages, text):
    words = [text]
    for compiled in stages:
        words = [piece for word in words for piece in pieces(compiled, word)]
    return words


def random_texts(generator, alphabet, n_texts, most):
    for _ in range(n_texts):
        # Runs are where regexes differ.
        text = ""
        while len(text) < most and generator.random() < 0.9:
            text += generator.choice(alphabet) * generator.choice((1, 1, 1, 2, 4))
        if text:
            yield text


def probe(arguments, texts):
    data = b"".join(text.encode() + b"\0" for text in texts)
    done = subprocess.run([PROBE, *arguments], input=data, capture_output=True, check=False)
    if done.returncode:
        raise AssertionError(f"{arguments}: {done.stderr.decode()}")
    results = done.stdout.split(b"\0")[:-1]
    assert len(results) == len(texts)
    return results


class TextProbeTest(unittest.TestCase):
    def test_words_are_those_of_backtracking(self):
        for seed in seeds_of_test(SEED):
            with self.subTest(seed=seed):
                self.compare_words(seed)

    def compare_words(self, seed):
        compared = 0
        for name, regexes in REGEXES.items():
            try:
                stages = [for_python(regex) for regex in regexes]
            except re.error:
                # Possessive repetitions came with Python 3.11.
                self.assertLess(sys.version_info, (3, 11), name)
                continue
            texts = list(random_texts(random.Random(f"{seed} {name}"), ALPHABET, N_TEXTS, MOST_CHARACTERS))
            for text, result in zip(texts, probe(["words", *regexes], texts)):
                raw, begin, words = text.encode(), 0, []
                for end in map(int, result.split()):
                    words.append(raw[begin:end].decode())
                    begin = end
                self.assertEqual(words, expected_words(stages, text), f"{name}: {text!r}")
                compared += 1
        self.assertGreater(compared, 40_000)

    def check_nfc(self, texts):
        for text, result in zip(texts, probe(["nfc"], texts)):
            self.assertEqual(result.decode(), unicodedata.normalize("NFC", text), ascii(text))
        return len(texts)

    def test_every_character_is_normalized(self):
        codes = [code for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
        characters = [chr(code) for code in codes if unicodedata.category(chr(code)) != "Cn"]
        compared = self.check_nfc(characters)
        # Taken apart, and with a mark that may come before others.
        compared += self.check_nfc([unicodedata.normalize("NFD", c) for c in characters])
        apart = [c for c in characters if unicodedata.decomposition(c)]
        compared += self.check_nfc([c + "\u0323\u0301" for c in apart] + ["a" + c + "b" for c in apart])
        self.assertGreater(compared, 500_000)

    def test_random_sequences_are_normalized(self):
        for seed in seeds_of_test(SEED):
            with self.subTest(seed=seed):
                self.normalize_random_sequences(random.Random(seed))

    def normalize_random_sequences(self, generator):
        marks = [chr(c) for c in range(0x110000) if unicodedata.combining(chr(c))]
        parts = {p for c in range(0x300, 0x110000) if not 0xAC00 <= c <= 0xDFFF
                 for p in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(chr(c)) != "Cn"}
        parts = sorted(c for c in parts if unicodedata.decomposition(chr(ord(c))) == "")
        jamo = [chr(c) for c in (*range(0x1100, 0x1115), *range(0x1160, 0x1178), *range(0x11A6, 0x11C5), 0xAC00, 0xAC01, 0xD788)]
        decomposing = [chr(c) for c in range(0xC0, 0x30000) if unicodedata.decomposition(chr(c))[:1] not in ("", "<")]
        alphabet = "aeouAEO" * 40 + "".join(generator.sample(marks, 200)) + "".join(generator.sample(parts, 300)) + \
            "".join(jamo) * 3 + "".join(generator.sample(decomposing, 200)) + "\u0301\u0323\u0327\u0345\u09be\u09d7\u0cd5" * 20
        texts = list(random_texts(generator, alphabet, 30_000, MOST_CHARACTERS))
        self.assertGreater(self.check_nfc(texts), 20_000)

    def test_marks_without_end_are_put_in_order(self):
        generator = random.Random(SEED)
        marks = [chr(c) for c in range(0x110000) if unicodedata.combining(chr(c))]
        texts = ["e" + "".join(generator.choices(marks, k=5000)) + "x", "\u0301" * 20_000, "a" + "\u0327\u0301" * 10_000]
        self.assertEqual(self.check_nfc(texts), len(texts))


if __name__ == "__main__":
    if not PROBE.exists():
        print("text_probe is not built", file=sys.stderr)
        sys.exit(77)
    unittest.main()
