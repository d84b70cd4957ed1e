#!/usr/bin/env python3
"""An answer that a program can read: python_schema.py MODEL.cria."""
import json
import sys

import cria

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 30},
        "likes": {"type": "array", "items": {"enum": ["grass", "hay", "naps"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("python_schema.py: give it a model: python_schema.py MODEL.cria")
    with cria.Model(sys.argv[1]) as model:
        answer = model.chat("Describe a llama.", schema=SCHEMA, max_tokens=200)
        print(json.dumps(answer.json(), indent=2))


if __name__ == "__main__":
    main()
