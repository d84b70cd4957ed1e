"""Documents of random schemas, and of those that people write, held against the Debian package python3-jsonschema."""
import datetime
import importlib.util
import ipaddress
import json
import os
import re
import subprocess
import sys
import time
import unittest
import uuid
from pathlib import Path

DEBIAN_PYTHON = "/usr/bin/python3"
if importlib.util.find_spec("jsonschema") is None:
    finds = [DEBIAN_PYTHON, "-c", "import jsonschema"]
    is_asked = "CRIA_TEST_DEBIAN_PYTHON" in os.environ
    if is_asked or subprocess.run(finds, capture_output=True, check=False).returncode != 0:
        print("skipped: python3-jsonschema is not installed")
        sys.exit(77)
    os.execve(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv], {**os.environ, "CRIA_TEST_DEBIAN_PYTHON": "1"})

import jsonschema  # noqa: E402

import cria_cli as cli  # noqa: E402
import random_schemas  # noqa: E402
from seeds import seeds_of_test  # noqa: E402

PROBE = Path(os.environ.get("CRIA_BINARY_DIR", "build/release")) / "tests/bin/json_probe"
SEED = 20261123
# The time that random schemas may take; the least number of them is tried all the same.
SECONDS = float(os.environ.get("CRIA_TEST_SECONDS", "12"))
N_SCHEMAS = 200


def no_name_twice(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"a name appears twice in {pairs}")
    return dict(pairs)


def parsed(text):
    """A document read as strictly as Python can."""
    def refuse(name):
        raise ValueError(name)
    return json.loads(text, object_pairs_hook=no_name_twice, parse_constant=refuse)


def context(error):
    """What each alternative found."""
    return [f"{inner.json_path}: {inner.message[-200:]}" for inner in error.context]


class Validity:
    def __init__(self, root):
        self.root = root
        self.validator = jsonschema.Draft202012Validator(root)

    def __call__(self, schema, value):
        """Not where a schema asks itself about the same value, which jsonschema does not survive."""
        try:
            return self.validator.evolve(schema=schema).is_valid(value)
        except RecursionError:
            return False

    def why_not(self, text):
        """Nothing where a document satisfies the schema."""
        value = parsed(text)
        try:
            errors = [f"{e.json_path}: {e.message[-300:]}: {context(e)}" for e in self.validator.iter_errors(value)]
        except RecursionError:
            errors = []
        return "\n".join(["", *errors, text, json.dumps(self.root)]) if errors else ""


class Probe:
    """runtime/json, byte by byte."""

    def __init__(self):
        self.process = subprocess.Popen([str(PROBE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, schema, documents=(), walks=0, seed=0):
        text = schema if isinstance(schema, bytes) else json.dumps(schema, ensure_ascii=False).encode()
        question = {"schema": text.hex(), "documents": [d.encode("utf-8", "surrogatepass").hex() for d in documents],
                    "walks": walks, "seed": seed}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def random_cases(n, seed):
    """Schemas with what says which value satisfies them."""
    schemas = random_schemas.Schemas(seed)
    for _ in range(n):
        schema = schemas.make()
        jsonschema.Draft202012Validator.check_schema(schema)
        yield schema, Validity(schema)


def moment(text):
    """RFC 3339's, of which Python 3.9 reads other fractions and no Z."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|[+-](\d\d):(\d\d))", text)
    assert int(found[2] or 0) < 24 and int(found[3] or 0) < 60, text
    return datetime.datetime.fromisoformat(found[1])


def mailbox(text):
    name, _, host = text.partition("@")
    labels = host.split(".")
    assert 0 < len(name) <= 64 and all(name.split(".")) and len(text) <= 254 and len(labels) > 1 and labels[-1].isalpha(), text
    assert all(0 < len(label) <= 63 and label[0] != "-" and label[-1] != "-" for label in labels), text


@unittest.skipUnless(PROBE.exists(), f"{PROBE} is not built")
class Automaton(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.probe = Probe()
        self.addCleanup(self.probe.close)

    def test_random_bytes_become_valid_documents_and_valid_documents_of_its_form_are_taken(self):
        for seed in seeds_of_test(SEED):
            with self.subTest(seed=seed):
                self.compare_with_jsonschema(seed)

    def compare_with_jsonschema(self, seed):
        n_made = n_taken = n_refused = n_impossible = n_too_wide = 0
        end = time.monotonic() + SECONDS
        for i, (schema, is_valid) in enumerate(random_cases(20 * N_SCHEMAS, seed)):
            if i > N_SCHEMAS and time.monotonic() > end:
                break
            values = random_schemas.Values(schema, i, is_valid)
            made = [values.make(schema) for _ in range(12)]
            documents = [random_schemas.written(value) for value in made]
            answer = self.probe.ask(schema, documents, walks=6, seed=i)
            if "refused" in answer:
                self.assertIn(answer["refused"] + answer["reason"].split(";")[0], (
                    "allows no document, or only documents nested more than 32 deep",
                    "oneOfhas alternatives that can be true together",
                    "$refpoints to references for ever, or to more than 64"), (answer, schema))
                n_impossible += 1
                continue
            for walk in answer["walks"]:
                if walk is None:
                    continue
                text = bytes.fromhex(walk).decode()
                self.assertFalse(is_valid.why_not(text))
                n_made += 1
            for value, document, takes in zip(made, documents, answer["takes"]):
                if takes:
                    self.assertFalse(is_valid.why_not(document))
                    n_taken += 1
                elif is_valid(schema, value) and values.has_form(schema, value):
                    self.fail(f"not taken: {document}\nof {json.dumps(schema)}")
                else:
                    n_refused += 1
        print(f"{i} schemas, {n_impossible} refused; {n_made} documents made; {n_taken} taken, {n_refused} not")
        self.assertGreater(min(n_made, n_taken, n_refused), 100)


# As tools write them: structured outputs of OpenAI's documentation, pydantic 2 (optional, tuple, tagged union,
# recursion), zod.
WRITTEN_BY_TOOLS = (
    {"type": "object", "properties": {
        "steps": {"type": "array", "items": {"type": "object", "properties": {
            "explanation": {"type": "string"}, "output": {"type": "string"}},
            "required": ["explanation", "output"], "additionalProperties": False}},
        "final_answer": {"type": "string"}}, "required": ["steps", "final_answer"], "additionalProperties": False},
    {"type": "object", "properties": {
        "item": {"anyOf": [
            {"type": "object", "description": "The user object", "properties": {
                "name": {"type": "string"}, "age": {"type": "number"}}, "required": ["name", "age"],
             "additionalProperties": False},
            {"type": "object", "properties": {"number": {"type": "string"}, "city": {"type": ["string", "null"]}},
             "required": ["number", "city"], "additionalProperties": False}]}},
     "required": ["item"], "additionalProperties": False},
    {"type": "object", "properties": {"linked_list": {"$ref": "#/$defs/linked_list_node"}}, "required": ["linked_list"],
     "additionalProperties": False, "$defs": {"linked_list_node": {
         "type": "object", "properties": {"value": {"type": "number"},
                                          "next": {"anyOf": [{"$ref": "#/$defs/linked_list_node"}, {"type": "null"}]}},
         "additionalProperties": False, "required": ["next", "value"]}}},
    {"$defs": {
        "Cat": {"properties": {"pet_type": {"const": "cat", "title": "Pet Type", "type": "string"},
                               "age": {"title": "Age", "type": "integer", "exclusiveMinimum": 0}},
                "required": ["pet_type", "age"], "title": "Cat", "type": "object"},
        "Dog": {"properties": {"pet_type": {"enum": ["dog", "wolf"], "title": "Pet Type", "type": "string"},
                               "nick": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
                "required": ["pet_type"], "title": "Dog", "type": "object"}},
     "properties": {"pet": {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"},
                                              "propertyName": "pet_type"},
                            "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "title": "Pet"},
                    "at": {"maxItems": 2, "minItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}],
                           "title": "At", "type": "array"},
                    "scores": {"additionalProperties": {"type": "number"}, "title": "Scores", "type": "object"}},
     "required": ["pet", "at", "scores"], "title": "Model", "type": "object"},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {
        "n": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
        "mood": {"type": "string", "enum": ["good", "bad"]}, "x": {"type": "number", "exclusiveMinimum": 0}},
     "required": ["n", "mood"], "additionalProperties": False},
)
REFUSED = (
    ("format", {"type": "string", "format": "uri"}), ("format", {"format": "date", "pattern": "1"}),
    ("multipleOf", {"type": "number", "multipleOf": 0.5}), ("format", {"type": "string", "format": 1}),
    ("uniqueItems", {"type": "array", "uniqueItems": True}), ("propertyNames", {"propertyNames": {"maxLength": 1}}),
    ("propertyNames", {"propertyNames": False}), ("propertyNames", {"propertyNames": {"type": ["string"], "pattern": "a"}}),
    ("patternProperties", {"patternProperties": {"a": True}}), ("minProperties", {"minProperties": 1}),
    ("not", {"not": {}}), ("if", {"if": True}), ("dependentRequired", {"dependentRequired": {"a": ["b"]}}),
    ("contains", {"contains": {}}), ("$dynamicRef", {"$dynamicRef": "#a"}), ("$anchor", {"$anchor": "a"}),
    ("unevaluatedProperties", {"unevaluatedProperties": False}), ("nullable", {"nullable": True, "anyOf": [{"type": "null"}]}), ("nullable", {"type": "null", "nullable": 1}),
    ("nullable", {"const": 1, "nullable": True}),
    ("$id", {"items": {"$id": "http://a/b", "items": {"$ref": "#"}}}),
)
HOSTILE = (
    b"", b"\x00", b"{\"a\0\":1}", b"{\"\xff\":1}", b"\xef\xbb\xbf{}", b"{'a':1}", b"{\"type\":\"null\",\"type\":\"string\"}",
    b"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{},\"a\":{}}}", b"[" * 99999, b"{\"items\":" * 70 + b"{}" + b"}" * 70,
    b"{\"const\":" + b"[" * 70 + b"]" * 70 + b"}", b"NaN", b"{}{}", b"{\"minLength\":1e999999999}",
    b"{\"pattern\":\"^(a{1000}){1000}$\"}", b"{\"pattern\":\"(?<=a)b\"}", b"{\"$ref\":\"#/%24defs/a\"}",
    b"{\"$ref\":\"\"}", b"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}",
)


@unittest.skipUnless(PROBE.exists(), f"{PROBE} is not built")
class Written(unittest.TestCase):
    def setUp(self):
        self.probe = Probe()
        self.addCleanup(self.probe.close)

    def test_what_tools_write_is_understood(self):
        for schema in WRITTEN_BY_TOOLS:
            answer = self.probe.ask(schema, walks=40, seed=1)
            self.assertNotIn("refused", answer, schema)
            walks = [walk for walk in answer["walks"] if walk is not None]
            self.assertGreater(len(walks), 5, schema)
            for walk in walks:
                self.assertFalse(Validity(schema).why_not(bytes.fromhex(walk).decode()))

    # By the standard library, which knows nothing of patterns.
    def test_formats_are_written_as_others_read_them(self):
        readers = {"date": datetime.date.fromisoformat, "date-time": moment, "time": lambda text: moment("2026-11-27T" + text), "uuid": uuid.UUID,
                   "ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address, "email": mailbox}
        for name, read in readers.items():
            for lengths in ({}, {"minLength": 9, "maxLength": 28} if name not in ("uuid", "ipv6") else {"minLength": 12}):
                schema = {"type": "string", "format": name, **lengths}
                answer = self.probe.ask(schema, walks=100, seed=2)
                walks = [json.loads(bytes.fromhex(walk)) for walk in answer["walks"] if walk is not None]
                self.assertGreater(len(walks), 20, schema)
                for text in walks:
                    read(text)
                    self.assertFalse(Validity(schema).why_not(json.dumps(text)))

    # As OpenAPI and Rust's schemas have them, beside which a validator of JSON Schema sees any number.
    def test_formats_of_numbers(self):
        least = {"int8": -2**7, "int16": -2**15, "int32": -2**31, "int64": -10**18 + 1, "uint8": 0, "uint16": 0, "uint32": 0, "uint64": 0}
        for name, low in least.items():
            bits = int(name.strip("uint"))
            high = min(2**(bits - (low < 0)) - 1, 10**18 - 1)
            for type_ in ("integer", "number", ["integer", "null"]):
                beyond = [low - 1, high + 1, "0.5", "1e2"]
                answer = self.probe.ask({"type": type_, "format": name}, [str(n) for n in (low, 0, high, *beyond)])
                self.assertEqual(answer["takes"], [True] * 3 + [False] * len(beyond), (name, type_))
            self.assertEqual(self.probe.ask({"type": "integer", "format": name, "minimum": 5, "maximum": 9}, ["4", "5", "9", "10"])["takes"],
                             [False, True, True, False])
            self.assertEqual(self.probe.ask({"type": "string", "format": name}).get("refused"), "format")
        self.assertEqual(self.probe.ask({"type": "number", "format": "double"}, ["1e99", "0.5", "-3"])["takes"], [True] * 3)
        self.assertEqual(self.probe.ask({"type": "number", "format": "float"}, ["1e99", "0.5", "-3"])["takes"], [False, True, True])
        self.assertEqual(self.probe.ask({"type": "number", "minimum": 1, "exclusiveMinimum": False}, ["0.5", "1"])["takes"], [False, True])

    def test_what_is_not_understood_is_refused_by_name_wherever_it_stands(self):
        for keyword, schema in REFUSED:
            for whole in (schema, {"properties": {"p": {"anyOf": [{"type": "null"}, schema]}}}):
                answer = self.probe.ask(whole)
                self.assertEqual(answer.get("refused"), keyword, whole)
                text = json.dumps(whole).encode()[answer["offset"]:]
                self.assertTrue(text.startswith(b'"' + keyword.encode() + b'"') or keyword == "nullable" and text[:1] in b"t1", text)

    def test_hostile_schemas_are_refused_soon(self):
        started = time.monotonic()
        for schema in HOSTILE:
            self.assertIn("refused", self.probe.ask(schema), schema[:80])
        self.assertLess(time.monotonic() - started, cli.PATIENCE_S)

    def test_patterns_that_backtrack_for_ever_elsewhere_do_not(self):
        started = time.monotonic()
        for pattern in ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){12}$", "^((a*)*)*$"):
            answer = self.probe.ask({"type": "string", "pattern": pattern}, ['"' + "a" * 2000 + '"', '"' + "a" * 2000 + '!"'])
            self.assertEqual(answer["takes"], [True, False], pattern)
        self.assertLess(time.monotonic() - started, cli.PATIENCE_S)

    def test_huge_enums(self):
        names = [f"name {i}" for i in range(40000)]
        answer = self.probe.ask({"enum": names}, ['"name 0"', '"name 39999"', '"name 40000"', '"name"'], walks=5)
        self.assertEqual(answer["takes"], [True, True, False, False])
        for walk in answer["walks"]:
            self.assertIn(json.loads(bytes.fromhex(walk)), names)


class Model(unittest.TestCase):
    def test_the_demo_models_answers_validate(self):
        n_done = n_cut = n_refused = 0
        path = cli.folder() / "schema.json"
        for i, (schema, is_valid) in enumerate(random_cases(N_SCHEMAS, SEED)):
            path.write_bytes(json.dumps(schema, ensure_ascii=False).encode())
            result = cli.cria("run", cli.model(), "-p", "Once upon a time", "--json-schema", path, "--seed", i,
                              "--temperature", "1.5", "-n", "400")
            if result.code == cli.BAD_INPUT:
                n_refused += 1
                self.assertRegex(result.err, "allows no document|can be true together|for ever", schema)
            elif result.code == cli.INCOMPLETE:
                n_cut += 1
            else:
                self.assertEqual(result.code, cli.DONE, (schema, result.err))
                self.assertFalse(is_valid.why_not(result.out))
                n_done += 1
        print(f"{n_done} answers validate, {n_cut} were cut, {n_refused} schemas refused")
        self.assertGreater(n_done, N_SCHEMAS // 2)


if __name__ == "__main__":
    cli.main()
