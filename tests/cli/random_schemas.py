"""Random schemas of everything that docs/json.md says is understood, random values of them, and how such values are
written there. Which value satisfies which schema it asks jsonschema."""
import json
import random
import re

ODD_TEXTS = ["", " ", "a", "ab", "abc", "\"", "\\", "/", "\n", "\t\r\b\f", "\x00\x1f", "\x7f", "é", "e\u0301", "日本", "\U0001f600",
             "\u2028", "\ufeff", "\uffff", "null", "{\"a\":1}", "</script>", "a\"b\\c", "\\u0041", "$ref", "#/a", "x" * 70]
NAMES = ["a", "ab", "abc", "b", "", " ", "name", "na\"me", "é", "e\u0301", "\\", "/", "a/b", "a\nb", "\U0001f600", "type", "$ref",
         "properties", "\u2028", "toString", "__proto__"]
NUMBERS = [0, 1, -1, 2, 12, 123, -100, 255, 1.5, -2.25, 0.1, 1e3, 99.99, 1000000, 987654321012, 0.001]
# Those that the dialects of ECMA-262 and of Python read alike, of the texts that go with them below.
PATTERNS = {r"^[A-Z]{2,3}-\d{4}$": ["AB-1234", "ABC-0000", "A-1234", "AB-12345"],
            r"^(?:red|green|blue)$": ["red", "blue", "redd", ""],
            r"^[a-z][a-z0-9_]*$": ["a", "a_9", "9a", "A", ""],
            r"^#[0-9a-fA-F]{6}$": ["#00ff00", "#FFF", "00ff00"],
            r"^\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])$": ["2026-11-23", "2026-13-01"],
            r"^[^@ \n]+@[^@ \n]+\.[a-z]{2,}$": ["a@b.cd", "a@b", "\"@\\.xy"],
            r"^.{1,5}$": ["a", "é日\"", "", "123456", "\\\\"],
            r"b+": ["b", "xbx", "a", "\"b\""],
            r"^a|z$": ["a", "abc", "xyz", "b"],
            r"^\+?\d{1,3}( \d{2,4}){2,3}$": ["+49 30 1234", "1 22 33 44", "1 2 3"],
            r"^(a|bb){2,4}c?$": ["aa", "abba", "bbbbc", "a"],
            r"^\"[^\"\\]*\"$": ["\"\"", "\"x\"", "x"],
            r"^[\u00e0-\u00ff\u4e00-\u9fff]*$": ["é日", "", "a"],
            r"^(\w+\s)*\w+\.$": ["one two.", "one", "x."],
            r"^\$\d+(\.\d\d)?$": ["$5", "$5.00", "5"],
            r"^[\[\](){}^$.|*+?\\-]+$": ["[](){}^$.|*+?\\-", "a"],
            r"^(|x|yy)$": ["", "x", "yy", "y"],
            r"": ["", "anything"]}


MOST_VALUES = 60


class Schemas:
    """Schemas made up with one random number generator."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = []

    def make(self):
        chance = self.random
        self.names = [name for name in ["a", "b", "Node", "x-y_z"] if chance.random() < 0.6]
        root = self.schema(0)
        if root is False:
            root = True
        if self.names:
            if not isinstance(root, dict):
                root = {"anyOf": [root]} if root is not True else {}
            definitions = {name: self.schema(2) for name in self.names}
            root[chance.choice(["$defs", "$defs", "definitions"])] = definitions
            self.point(root, "$defs" if "$defs" in root else "definitions")
        if isinstance(root, dict) and chance.random() < 0.3:
            root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        return root

    def point(self, schema, place):
        """Writes references, which are their names alone so far, as paths."""
        if isinstance(schema, list):
            for item in schema:
                self.point(item, place)
        if isinstance(schema, dict):
            for key, value in schema.items():
                if key == "$ref" and isinstance(value, str) and value in self.names:
                    schema[key] = f"#/{place}/{value}"
                elif key not in ("const", "enum"):
                    self.point(value, place)

    def schema(self, depth):
        chance = self.random
        kinds = [self.literals, self.literal, self.integer, self.number, self.string, self.string, self.plain, self.several]
        if depth < 4:
            kinds += [self.array, self.array, self.object, self.object, self.object, self.any_of, self.one_of, self.all_of]
            if depth == 0:
                kinds = [self.object] * 6 + kinds
        if self.names and depth > 0:
            kinds += [self.reference, self.reference]
        made = chance.choice(kinds)(depth)
        if isinstance(made, dict) and chance.random() < 0.2:
            made[chance.choice(["title", "description", "$comment"])] = chance.choice(ODD_TEXTS)
        if isinstance(made, dict) and chance.random() < 0.1:
            made["default"] = self.value(1)
        return made

    def value(self, depth):
        chance = self.random
        kind = chance.randrange(8 if depth < 3 else 6)
        if kind < 2:
            return chance.choice(ODD_TEXTS)
        if kind < 4:
            return chance.choice(NUMBERS)
        if kind < 6:
            return chance.choice([None, True, False])
        if kind == 6:
            return [self.value(depth + 1) for _ in range(chance.randrange(4))]
        return {name: self.value(depth + 1) for name in chance.sample(NAMES, chance.randrange(4))}

    def reference(self, _):
        return {"$ref": self.random.choice(self.names)}

    def plain(self, _):
        return self.random.choice([True, True, {}, {"type": "null"}, {"type": "boolean"}, {"type": "string"}, {"type": "integer"}])

    def several(self, _):
        kinds = ["null", "boolean", "integer", "number", "string"]
        made = {"type": self.random.sample(kinds, self.random.randrange(1, 4))}
        if self.random.random() < 0.5:
            made["maximum"] = self.random.choice(NUMBERS)
        if self.random.random() < 0.5:
            made["maxLength"] = self.random.randrange(6)
        return made

    def literal(self, _):
        return {"const": self.value(0)}

    def literals(self, _):
        values = [self.value(0) for _ in range(self.random.randrange(1, 7))]
        texts = []
        for value in values:
            if all(not same(value, other) for other in texts):
                texts.append(value)
        return {"enum": texts}

    def bounds(self, made):
        chance = self.random
        low, high = sorted(chance.sample(NUMBERS, 2))
        if chance.random() < 0.7:
            made[chance.choice(["minimum", "exclusiveMinimum"])] = low
        if chance.random() < 0.7:
            made[chance.choice(["maximum", "exclusiveMaximum"])] = high
        return made

    def integer(self, _):
        return self.bounds({"type": "integer"})

    def number(self, _):
        return self.bounds({"type": "number"})

    def string(self, _):
        chance = self.random
        made = {"type": "string"}
        if chance.random() < 0.5:
            made["pattern"] = chance.choice(list(PATTERNS))
            return made
        if chance.random() < 0.5:
            made["minLength"] = chance.randrange(5)
        if chance.random() < 0.7:
            made["maxLength"] = chance.randrange(4, 12)
        return made

    def array(self, depth):
        chance = self.random
        made = {"type": "array"}
        if chance.random() < 0.8:
            made["items"] = self.schema(depth + 1)
        if chance.random() < 0.3:
            made["prefixItems"] = [self.schema(depth + 1) for _ in range(chance.randrange(1, 4))]
        if chance.random() < 0.4:
            made["minItems"] = chance.randrange(4)
        if chance.random() < 0.8:
            made["maxItems"] = chance.randrange(3, 6)
        return made

    def object(self, depth):
        chance = self.random
        made = {"type": "object"} if chance.random() < 0.9 else {}
        names = chance.sample(NAMES, chance.randrange(1, 6))
        if chance.random() < 0.85:
            made["properties"] = {name: self.schema(depth + 1) for name in names}
        if chance.random() < 0.6:
            made["required"] = [name for name in names if chance.random() < 0.5]
            if chance.random() < 0.15:
                made["required"].append(chance.choice([name for name in NAMES if name not in names]))
        if chance.random() < 0.7:
            made["additionalProperties"] = chance.choice([False, False, False, True, None])
            if made["additionalProperties"] is None:
                made["additionalProperties"] = self.schema(depth + 1)
        return made

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth + 1) for _ in range(self.random.randrange(1, 4))]}

    def all_of(self, depth):
        return {"allOf": [self.schema(depth + 1)]}

    def one_of(self, depth):
        chance = self.random
        if chance.random() < 0.5:
            kinds = [self.integer(depth), self.string(depth), self.array(depth), {"type": ["boolean", "null"]}]
            return {"oneOf": chance.sample(kinds, chance.randrange(2, 5))}
        tags = chance.sample(["cat", "dog", "f\"ish", "é"], chance.randrange(2, 4))
        options = []
        for tag in tags:
            names = chance.sample(["a", "b", "kin", "z"], chance.randrange(3))
            option = {"type": "object", "properties": {"kind": {"const": tag}, **{n: self.schema(depth + 1) for n in names}}}
            option["required"] = ["kind", *names[:1]]
            option["additionalProperties"] = False
            options.append(option)
        return {"oneOf": options}


def same(a, b):
    """Equal as JSON has it: 1 is 1.0, but true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def written(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Values:
    """Values that are likely to satisfy a schema, and whether they have the form in which documents are written."""

    def __init__(self, root, seed, is_valid):
        self.root, self.random, self.is_valid = root, random.Random(seed), is_valid
        self.n_made = 0

    def target(self, schema):
        for _ in range(100):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            at = self.root
            for part in schema["$ref"].split("/")[1:]:
                at = at[part]
            schema = at
        return False  # references to each other

    def make(self, schema, depth=0):
        chance = self.random
        if depth == 0:
            self.n_made = 0
        self.n_made += 1
        schema = self.target(schema)
        if self.n_made > MOST_VALUES:  # schemas that refer to themselves would have them grow for ever
            depth = 99
        if isinstance(schema, bool) or not schema:
            return chance.choice([None, True, 0, "a", [], {}, [1, "é"], {"q": None}])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return chance.choice(schema["enum"])
        if depth > 90:
            return None
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in schema:
                return self.make(chance.choice(schema[keyword]), depth + 1)
        kinds = schema.get("type", ["object", "null", "string", "integer", "array"] if depth < 8 else "null")
        kind = kinds if isinstance(kinds, str) else chance.choice(kinds)
        return getattr(self, "make_" + kind)(schema, depth)

    def make_null(self, *_):
        return None

    def make_boolean(self, *_):
        return self.random.random() < 0.5

    def make_integer(self, schema, _):
        near = [int(schema[k]) for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in schema]
        return self.random.choice(near or [0, 7, -40, 123456789]) + self.random.choice([-1, 0, 0, 1, 2])

    def make_number(self, schema, depth):
        if self.random.random() < 0.4:
            return self.make_integer(schema, depth)
        near = [float(schema[k]) for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in schema]
        return round(self.random.choice(near or [0.5]) + self.random.choice([-0.5, -0.001, 0, 0.001, 0.25]), 6)

    def make_string(self, schema, _):
        if "pattern" in schema and self.random.random() < 0.9:
            return self.random.choice(PATTERNS[schema["pattern"]])
        text = self.random.choice(ODD_TEXTS)
        if self.random.random() < 0.8:
            text = (text * 9 + "abcdef")[:self.random.randrange(schema.get("minLength", 0), schema.get("maxLength", 12) + 2)]
        return text

    def make_array(self, schema, depth):
        prefix = schema.get("prefixItems", [])
        n = self.random.randrange(schema.get("minItems", 0), max(schema.get("maxItems", 4), schema.get("minItems", 0)) + 1)
        if depth > 8:
            n = schema.get("minItems", 0)
        if depth > 20:
            return []
        return [self.make(prefix[i] if i < len(prefix) else schema.get("items", True), depth + 1) for i in range(n)]

    def make_object(self, schema, depth):
        properties, required = schema.get("properties", {}), schema.get("required", [])
        made = {}
        if depth > 20:
            return made
        for name in properties:
            if name in required or (depth < 8 and self.random.random() < 0.5):
                made[name] = self.make(properties[name], depth + 1)
        more = schema.get("additionalProperties", True)
        for name in required:
            if name not in made:
                made[name] = self.make(more, depth + 1)
        if self.random.random() < 0.4 and more is not False:
            for name in self.random.sample(NAMES, 2):
                if name not in properties and name not in made:
                    made[name] = self.make(more, depth + 1)
        if self.random.random() < 0.1 and made:
            made.pop(self.random.choice(list(made)))
        return made

    def has_form(self, schema, value):
        """Whether documents are written so, of a value that satisfies the schema."""
        schema = self.target(schema)
        if isinstance(schema, bool):
            schema = {}
        if "const" in schema or "enum" in schema:
            return any(written(value) == written(known) for known in schema.get("enum", [schema.get("const")]))
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in schema:
                return any(self.is_valid(option, value) and self.has_form(option, value) for option in schema[keyword])
        if isinstance(value, float):
            kinds = schema.get("type", "number")
            has_bound = any(k in schema for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
            return "number" in kinds and not (has_bound and "e" in repr(value))
        if isinstance(value, str) and "pattern" in schema:
            # Of ends of lines jsonschema thinks otherwise than the specification of its patterns.
            return not re.search("[\x00-\x1f\u2028]", value)
        if isinstance(value, list):
            prefix = schema.get("prefixItems", [])
            return all(self.has_form(prefix[i] if i < len(prefix) else schema.get("items", True), item)
                       for i, item in enumerate(value))
        return not isinstance(value, dict) or self.object_has_form(schema, value)

    def object_has_form(self, schema, value):
        properties = schema.get("properties", {})
        unnamed = [name for name in schema.get("required", []) if name not in properties]
        order = [*properties, *dict.fromkeys(unnamed)]
        free = [name for name in value if name not in order]
        if list(value) != [name for name in order if name in value] + free:
            return False
        if free and "properties" in schema and "additionalProperties" not in schema:
            return False
        if any(re.search("[\x00-\x07\x0b\x0e-\x1f]", name) for name in free):
            return False
        more = schema.get("additionalProperties", True)
        return all(self.has_form(properties.get(name, more), item) for name, item in value.items())
