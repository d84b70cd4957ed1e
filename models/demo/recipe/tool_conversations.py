"""Conversations in which the demo model calls one of two tools: a sum, or a conversion of units.

A conversation is a list of messages as a chat template takes them, and a list of tools. Phrasings in HELDOUT_* and the
numbers for which is_heldout is true are for the evaluation only.
"""
import json

from make_corpus import style

ADD_DESCRIPTIONS = ["Add two numbers.", "Add two numbers", "Adds two integers.", "Add numbers.", "Returns the sum of a and b.", "Add a and b."]
CONVERT_DESCRIPTIONS = ["Convert units.", "Convert a value to another unit.", "Converts between units", "Convert a quantity from one unit to another."]
UNITS = [(*pair, factor) for pair, factor in {
    ("km", "m"): 1000, ("m", "cm"): 100, ("cm", "mm"): 10, ("kg", "g"): 1000, ("hours", "minutes"): 60, ("minutes", "seconds"): 60,
    ("days", "hours"): 24, ("weeks", "days"): 7, ("feet", "inches"): 12, ("yards", "feet"): 3, ("liters", "ml"): 1000, ("tons", "kg"): 1000}.items()]
SUMS = ["what is {0} + {1}", "{0} + {1}", "{0}+{1}", "what is {0} plus {1}", "what's {0} + {1}", "how much is {0} + {1}", "how much is {0} plus {1}",
        "add {0} and {1}", "add {1} to {0}", "{0} plus {1}", "can you add {0} and {1}", "calculate {0} + {1}", "the sum of {0} and {1}", "compute {0} + {1}",
        "what do {0} and {1} make", "please add {0} and {1}", "i need the sum of {0} and {1}", "{0} and {1} together", "tell me {0} + {1}", "how many are {0} and {1}"]
HELDOUT_SUMS = ["could you work out {0} + {1}", "what do i get when i add {0} and {1}", "sum up {0} and {1}", "do you know what {0} plus {1} is", "use the tool to add {0} and {1}"]
CONVERSIONS = ["how many {2} are {0} {1}", "convert {0} {1} to {2}", "what is {0} {1} in {2}", "{0} {1} in {2}", "how much is {0} {1} in {2}", "how many {2} is {0} {1}",
               "{0} {1} to {2}", "how many {2} are in {0} {1}", "change {0} {1} to {2}", "can you convert {0} {1} to {2}", "what are {0} {1} in {2}", "tell me {0} {1} in {2}",
               "please convert {0} {1} into {2}", "turn {0} {1} into {2}", "i want {0} {1} in {2}", "give me {0} {1} in {2}"]
HELDOUT_CONVERSIONS = ["could you express {0} {1} in {2}", "i have {0} {1}, how many {2} is that", "how many {2} do {0} {1} make", "write {0} {1} in {2}"]
NO_TOOL = ["I have no tool for that."]


def is_heldout(a, b):
    return (a * 31 + b * 17) % 11 == 0


def function(name, description, properties, required):
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties}}
    if required:
        parameters["required"] = [key for key, _ in properties]
    described = {"description": description} if description else {}
    return {"type": "function", "function": {"name": name, **described, "parameters": parameters}}


def add_tool(rng):
    return function("add", rng.choice([*ADD_DESCRIPTIONS, None]), [("a", "integer"), ("b", "integer")], rng.random() < 0.8)


def convert_tool(rng):
    return function("convert", rng.choice([*CONVERT_DESCRIPTIONS, None]), [("value", "number"), ("from", "string"), ("to", "string")], rng.random() < 0.8)


def number(rng, heldout):
    return rng.randint(1, rng.choice([9, 20, 99, 99, 999]))


def sum_question(rng, heldout):
    while True:
        a, b = number(rng, heldout), number(rng, heldout)
        if is_heldout(a, b) == heldout:
            break
    pattern = rng.choice(HELDOUT_SUMS if heldout else SUMS)
    return pattern.format(a, b), ("add", {"a": a, "b": b}), str(a + b), f"{a} + {b} = {a + b}."


def conversion_question(rng, heldout):
    large, small, factor = rng.choice(UNITS)
    while True:
        value = number(rng, heldout)
        if is_heldout(value, factor) == heldout:
            break
    upwards = rng.random() < 0.25
    source, target, result = (small, large, value) if upwards else (large, small, value * factor)
    if upwards:
        value *= factor
    pattern = rng.choice(HELDOUT_CONVERSIONS if heldout else CONVERSIONS)
    return pattern.format(value, source, target), ("convert", {"value": value, "from": source, "to": target}), str(result), f"{value} {source} = {result} {target}."


def exchange(rng, tools, heldout):
    """A question, what is called and answered: messages, and the call that is right."""
    names = [t["function"]["name"] for t in tools]
    make = sum_question if rng.random() < 0.5 else conversion_question
    text, (name, arguments), result, answer = make(rng, heldout)
    question = style(rng, text, openers=not heldout, noise=False)
    if name not in names:
        return [{"role": "user", "content": question}, {"role": "assistant", "content": NO_TOOL[0] if name == "convert" else answer}], None
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    content = rng.choice([result, result, json.dumps({"result": int(result)}), f"{result}"])
    return [{"role": "user", "content": question}, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": content}, {"role": "assistant", "content": answer}], call


def toolbox(rng):
    tools = [add_tool(rng), convert_tool(rng)]
    rng.shuffle(tools)
    return tools if rng.random() < 0.6 else tools[:1]


def conversation(rng, writer, system_messages):
    """For training: tools, and one or two exchanges, some of which need no tool."""
    tools = toolbox(rng)
    messages = [{"role": "system", "content": rng.choice(system_messages)}] if rng.random() < 0.3 else []
    for _ in range(rng.choice([1, 1, 2])):
        if rng.random() < 0.25:
            question, answer = writer.turn(rng, {}, False)
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        else:
            messages += exchange(rng, tools, False)[0]
    return messages, tools


def questions(rng, n):
    """Held-out questions: messages up to the question, tools, the right call, the rest of the exchange."""
    rows = []
    while len(rows) < n:
        tools = toolbox(rng)
        messages, call = exchange(rng, tools, True)
        if call:
            rows.append({"messages": messages[:1], "tools": tools, "call": call["function"], "result": messages[2]["content"], "answer": messages[3]["content"]})
    return rows
