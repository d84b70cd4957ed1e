"""cria run --json and --json-schema: the answer is a document, or the exit code says that it is not."""
import json
import os
import threading
import unittest

import cria_cli as cli

PROMPT = "Once upon a time"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["red", "green", 1, None]}, "maxItems": 3},
        "date": {"type": "string", "pattern": r"^\d{4}-\d\d$"},
    },
    "required": ["name", "age", "date"],
    "additionalProperties": False,
}


def schema_file(schema, name="schema.json"):
    path = cli.folder() / name
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return path


def run(*arguments, **keywords):
    return cli.cria("run", cli.model(), "-p", PROMPT, *arguments, **keywords)


class Json(unittest.TestCase):
    def test_the_answer_is_a_document_of_the_schema_alone(self):
        path = schema_file(PERSON)
        for seed in range(12):
            result = run("--json-schema", path, "--seed", str(seed), "--temperature", "1.5")
            self.assertEqual(result.code, cli.DONE)
            self.assertTrue(result.out.endswith("\n"))
            person = json.loads(result.out)
            self.assertEqual([key for key in PERSON["properties"] if key in person], list(person))
            self.assertTrue(1 <= len(person["name"]) <= 12)
            self.assertTrue(0 <= person["age"] <= 120)
            self.assertRegex(person["date"], r"\A\d{4}-\d\d\Z")
            self.assertTrue(all(tag in ["red", "green", 1, None] for tag in person.get("tags", [])))

    def test_greedily_and_with_penalties_too(self):
        path = schema_file(PERSON)
        for options in (["--greedy"], ["--repeat-penalty", "1.8", "--seed", "3"], ["--top-k", "1"]):
            result = run("--json-schema", path, *options)
            self.assertEqual(result.code, cli.DONE)
            json.loads(result.out)

    def test_any_value(self):
        n_whole = 0
        for seed in range(8):
            result = run("--json", "--seed", str(seed), "-n", "300")
            if result.code == cli.DONE:
                json.loads(result.out)
                n_whole += 1
            else:
                self.assertEqual(result.code, cli.INCOMPLETE)
        self.assertGreater(n_whole, 0)

    def test_a_document_that_is_cut_is_told(self):
        path = schema_file(PERSON)
        for options, reason in ((["-n", "5"], "--max-tokens"), (["--context", "16"], "the context is full")):
            result = run("--json-schema", path, "--greedy", *options)
            self.assertEqual(result.code, cli.INCOMPLETE)
            self.assertIn("the JSON document is not finished: " + reason, result.err)

    def test_a_bad_schema_is_one_line_with_place_and_keyword(self):
        for text, wanted in (
            ('{"type":"object","patternProperties":{"a":{}}}', 'byte 17: "patternProperties" is not supported'),
            ('{"type":"string","format":"uri"}', 'byte 17: "format" has a value that is not supported'),
            ('{"items":{"anyOf":[{"x":1}]}}', 'byte 20, in /items/anyOf/0: "x" is not supported'),
            ("", "is empty"),
            ("{", "byte 1: the schema is not JSON"),
            ("[" * 1000, "byte 64: the schema is nested more than 64 deep"),
            (" " * ((1 << 20) + 1), "longer than 1 MiB"),
            ("false", "allows no document"),
        ):
            result = run("--json-schema", schema_file(text))
            self.assertEqual(result.code, cli.BAD_INPUT, text[:60])
            self.assertIn(wanted, result.err)
            self.assertEqual(result.err.count("\n"), 1)
            self.assertEqual(result.out, "")
        missing = run("--json-schema", cli.folder() / "missing.json")
        self.assertEqual(missing.code, cli.BAD_INPUT)

    def test_one_byte_order_mark_is_passed_over(self):
        for text, code in (('\ufeff{"enum":["yes"]}', cli.DONE), ('\ufeff\ufeff{"enum":["yes"]}', cli.BAD_INPUT), ("\ufeff", cli.BAD_INPUT)):
            result = run("--json-schema", schema_file(text))
            self.assertEqual((result.code, result.out), (code, '"yes"\n' if code == cli.DONE else ""), result.err)

    def test_the_schema_can_come_from_a_pipe(self):
        schema = '{"enum":["yes","no"]}'
        self.assertIn(run("--json-schema", "-", stdin=schema).out, ('"yes"\n', '"no"\n'))
        path = cli.folder() / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: path.write_text(schema))
        writer.start()
        self.assertIn(run("--json-schema", path).out, ('"yes"\n', '"no"\n'))
        writer.join()

    def test_what_does_not_go_together_is_usage(self):
        path = schema_file(PERSON)
        for options in (["--json", "--json-schema", path], ["--json", "--ignore-end"]):
            self.assertEqual(run(*options).code, cli.USAGE)
        self.assertEqual(cli.cria("run", cli.model(), "--ids", "1", "--json").code, cli.USAGE)
        self.assertEqual(cli.cria("run", cli.model(), "-p", "-", "--json-schema", "-", stdin="{}").code, cli.USAGE)


if __name__ == "__main__":
    unittest.main()
