#!/usr/bin/env python3
"""Runs one check of the firmware on the emulated board and compares it with the host's programs.

What is expected comes from the host's cria on the same model file or from tests/data/golden/logits_hashes.txt; the device
itself fails (by its exit status) where it can tell. ctest's entries are listed in CMakeLists.txt beside this file.
"""
import argparse
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from cria_reader.xxh64 import xxh64  # noqa: E402

ALIGNMENT = 64
PATIENCE_S = 500
GREEDY_TOKENS = 64
GOLDEN_TOKENS = "tests/data/golden/greedy_tokens.txt"
DEMO_PROMPT = [2042, 2044, 277, 2045, 259, 432, 289, 256, 380, 30, 2046, 2044, 278, 2045, 259]
PROMPT_TOKENS = 64
LEAST_COMPARED = 100_000
FUZZ_TARGETS = ["open", "state", "tokenizer_import", "sentencepiece", "chat_template"]
GUARDED_ACCESSES = ["reading beyond", "writing beyond", "writing an input", "staying inside"]  # check_guards' numbers
QUESTIONS = ["Hello!", "What is a cria?", "What do llamas eat?"]

args = None


def fail(reason):
    print(f"FAILED: {reason}")
    sys.exit(1)


def expect(name, got, wanted):
    if got != wanted:
        fail(f"{name}: got {got}, expected {wanted}")
    print(f"{name}: as expected ({str(wanted)[:100]})")


def image(name):
    return args.images / name


def model(name):
    return args.models / f"{name}.cria"


def model_address(program):
    """Where the board's flash begins, by the image's linker script."""
    listed = subprocess.run([args.nm, str(image(program))], capture_output=True, text=True, check=True).stdout
    return int(found(r"([0-9a-f]+) . firmware_flash_begin\n", listed), 16)


def run(program, words=(), model_file=None, stdin="", more=()):
    """Text that the firmware prints, its exit status, and what qemu says."""
    command = [*args.emulator.split(), str(image(program))]
    if model_file:
        address = model_address(program)
        words = ["model", hex(address), model_file.stat().st_size, *words]
        more = ["-device", f"loader,file={model_file},addr={address:#x},force-raw=on", *more]
    if words:
        command += ["-append", " ".join(map(str, words))]
    try:
        ran = subprocess.run([*command, *more], input=stdin.encode(), capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        fail(f"no end after {PATIENCE_S} s")
    return ran.stdout.decode(errors="replace"), ran.returncode, ran.stderr.decode(errors="replace")


def check(model_name, *words):
    """Runs a check of device_checks.cpp; it must succeed."""
    out, status, err = run("device_checks", words, model(model_name))
    print(f"{model_name} {' '.join(map(str, words))}:\n{out}{err}", end="")
    if status != 0 or not out.endswith("done\n"):
        fail(f"the device's exit status is {status}")
    return out


def found(pattern, text):
    match = re.search(pattern, text)
    if not match:
        fail(f"no {pattern!r} in {text!r}")
    return match.group(1)


def cria(*words, stdin=""):
    ran = subprocess.run([str(args.host / "cria"), *map(str, words)], input=stdin, capture_output=True, text=True, check=True)
    return ran.stdout


def golden(key):
    lines = (args.source / "tests/data/golden/logits_hashes.txt").read_text().split()
    return int(dict(zip(lines[::2], lines[1::2]))[key], 16)


def expected_isa():
    """The instruction set of the core that the build is for."""
    return "helium" if args.core.endswith("-helium") else "dsp"


def bits(model_name, key, kv, n_tokens):
    out = check(model_name, "bits", kv, 64, n_tokens)
    got = int(found(r"hash (\d+)", out))
    expect("kernels", found(r"isa (\S+)", out), expected_isa())
    expect(key, f"{got:016x}", f"{golden(key):016x}")


def blocks(folder):
    """Models of blocks that firmware leaves out otherwise: the bits of the host's logits, in several formats of weights and KV caches."""
    checkpoint = Path(os.environ.get("CRIA_SHARED", args.source.parent / "shared")) / "reference/architectures" / folder
    if not checkpoint.is_dir():
        print("no $CRIA_SHARED/reference: skipped")
        sys.exit(77)
    n_tokens = 24
    args.models = Path(tempfile.mkdtemp())
    for weights, (kv, kv_name) in itertools.product(("int4", "int8", "int4nl"), enumerate(("int8", "f32", "k8v4"))):
        model = args.models / "m.cria"
        subprocess.run([args.host / "cria-convert", checkpoint, "-o", model, "--weights", weights, "--no-tokenizer", "--quiet"], check=True)
        vocab_size = json.loads(cria("info", model, "--json"))["model"]["vocab_size"]
        ids = ",".join(str((i * 37 + 11) % vocab_size) for i in range(n_tokens))
        cria("logits", model, "--ids", ids, "-o", args.models / "logits", "--kv", kv_name, "--backend", "exact")
        out = check("m", "bits", kv, 64, n_tokens)
        expect("kernels", found(r"isa (\S+)", out), expected_isa())
        expect(f"{folder}, {weights}, KV {kv_name}", int(found(r"hash (\d+)", out)), xxh64((args.models / "logits").read_bytes()))
    shutil.rmtree(args.models)


def tools(has_tools):
    """A tool in the prompt, a call that the model must make, and a call with its result: the host's; or refused."""
    tool = {"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}
    question, call, result = "what is 7 + 8", {"name": "add", "arguments": {"a": 7, "b": 8}}, "15"
    out = check("demo_tools", "tools", compact(tool), "add", compact(call["arguments"]), result, question)
    if has_tools == "0":
        expect("refused", found(r"refused (.*)\n", out), "would need tools, which this build leaves out")
        return
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said.json"
        said.write_text(json.dumps({"tools": [tool], "messages": [
            {"role": "user", "content": question}, {"role": "assistant", "tool_calls": [{"type": "function", "function": call}]},
            {"role": "tool", "name": "add", "content": result}]}))
        expect("prompt", found(r"prompt (.*)\n", out), cria("tokenize", model("demo_tools"), "--chat", said).strip())
        (Path(folder) / "tools.json").write_text(json.dumps([tool]))
        told = json.loads(cria("run", model("demo_tools"), "-p", question, "--tools", Path(folder) / "tools.json", "--tool-choice", "required",
                               "--greedy", "--backend", "exact"))
    name, arguments = found(r"call (.*)\n", out).split(maxsplit=1)
    expect("call", {"name": name, "arguments": json.loads(arguments)}, told)
    expect("the host's call", told, call)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def golden_tokens(key):
    """Prompt and continuation of a line of greedy_tokens.txt: NAME prompt IDS... tokens IDS..."""
    for line in (args.source / GOLDEN_TOKENS).read_text().splitlines():
        name, prompt, tokens = re.fullmatch(r"(\S+) prompt (.*) tokens (.*)", line).groups()
        if name == key:
            return prompt.split(), tokens.split()
    return fail(f"{GOLDEN_TOKENS} lacks {key}")


def greedy(model_name, key):
    prompt, wanted = golden_tokens(key)
    expect("tokens", len(wanted), GREEDY_TOKENS)
    out = check(model_name, "greedy", GREEDY_TOKENS, *prompt)
    got = found(r"ids (.*)\n", out).split()
    expect("greedy ids in the repository", got, wanted)
    host = cria("run", model(model_name), "--ids", ",".join(prompt), "--greedy", "-n", GREEDY_TOKENS, "--ignore-end",
                "--no-echo", "--backend", "exact").split()
    expect("greedy ids of the host", got, host)


def plan(model_name, checkpoint, *options):
    """The arena of the device is what the converter printed, and what cria info says of a file in place."""
    out = check(model_name, "plan")
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run(
            [str(args.host / "cria-convert"), str(args.source / checkpoint), "-o", f"{folder}/m.cria", *options],
            capture_output=True, text=True, check=True)
    total = found(r"\n +total .* (\d+) bytes", printed.stdout + printed.stderr)
    expect("the converter's plan", found(r"read (\d+)", out), total)
    info = json.loads(cria("info", model(model_name), "--threads", 1, "--backend", "exact", "--json"))
    expect("cria info's plan", int(found(r"mapped (\d+)", out)), info["memory_plan"]["total_bytes"])


def heap():
    """The trap is sprung by an image that asks for memory, and never by one that does its work."""
    out, status, _ = run("device_checks", ["heap"], model("odd_int4"))
    expect("the trap's exit status", status, 1)
    found(r"(the heap was asked for memory)", out)
    check("demo_int4", "generate", 24)
    listed = subprocess.run([args.nm, str(image("cria_firmware"))], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    for name in ("malloc", "calloc", "realloc", "_malloc_r", "_free_r", "_Znwj"):
        if name in names:
            fail(f"{name} is in the image")
    found(r" T (_sbrk)\n", listed)
    print(f"{len(names)} symbols, no allocator among them")


def chat(program, model_name=None, n_questions=len(QUESTIONS)):
    """Questions of the demo, answered as the host's chat answers them."""
    questions = QUESTIONS[:int(n_questions)]
    lines = [*questions, "/memory", "/quit"]
    out, status, err = run(program, (), model(model_name) if model_name else None, stdin="".join(f"{line}\n" for line in lines))
    print(out + err)
    expect("exit status", status, 0)
    answers = [part.strip() for part in out.split("> ")[1:1 + len(questions)]]
    host = cria("chat", model(model_name or "demo_int4_stored"), "--greedy", "--backend", "exact",
                stdin="".join(f"{line}\n" for line in questions))
    expect("answers", answers, [line for line in host.splitlines() if line])
    arena = int(found(r"arena used: (\d+)", out))
    stack = int(found(r"stack high water: (\d+)", out))
    print(f"peak RAM: arena {arena} + stack {stack} = {arena + stack} bytes, and the variables of the size table")


def sampled():
    """Drawn tokens depend on the seed alone: two runs give one answer."""
    lines = "/sample\n/seed 7\nHello!\n/quit\n"
    first, status, _ = run("cria_firmware", stdin=lines)
    expect("exit status", status, 0)
    again, _, _ = run("cria_firmware", stdin=lines)
    print(first)
    expect("the same seed's answer", again, first)


def refusals():
    """What an image was built without is refused with a code."""
    unsupported = "error: this build or this CPU cannot run the model with these options"
    out, status, _ = run("cria_firmware_minimal", (), model("demo_int4"))
    expect("a compressed model", (status, out.strip().splitlines()[-1]), (1, unsupported))
    out, status, _ = run("cria_firmware_minimal", (), model("demo_int4_stored"), stdin="/sample\nHello!\n/quit\n")
    expect("sampling", (status, "(this build or this CPU" in out), (0, True))
    for kv, temperature in ((1, 0), (0, 1)):
        out, status, _ = run("device_checks_minimal", ["refused", kv, temperature], model("odd_int8"))
        expect(f"KV format {kv}, temperature {temperature}", (status, found(r"status (\d+)", out)), (0, "9"))


def damaged():
    """A model with a flipped bit in its header ends the program with a message and a status."""
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder, "broken.cria")
        data = bytearray(model("odd_int4").read_bytes())
        data[20] ^= 1
        broken.write_bytes(data)
        out, status, _ = run("cria_firmware_loaded", (), broken)
    expect("a damaged model", (status, out.startswith("error: ")), (1, True))


def status_numbers():
    """Numbers of the statuses by their names without CRIA_, from the library's header."""
    text = (args.source / "runtime/include/cria.h").read_text()
    return {name: int(number) for name, number in re.findall(r"X\(CRIA_(\w+), (\d+),", text)}


def pack(contents):
    """Files for the device's check of the same name: how many, where each lies and how long it is, then the files."""
    table, body = struct.pack("<I", len(contents)), b""
    begin = -(-(len(table) + 8 * len(contents)) // ALIGNMENT) * ALIGNMENT
    for content in contents:
        table += struct.pack("<II", begin + len(body), len(content))
        body += content + bytes(-len(content) % ALIGNMENT)
    return table + bytes(begin - len(table)) + body


def files(folder):
    """Each file of a folder of models gets the status of its index, verified and opened, read and mapped."""
    folder = Path(folder)
    listed = [line.split(" ", 2) for line in (folder / "index.txt").read_text("utf-8").splitlines()]
    numbers = status_numbers()
    with tempfile.TemporaryDirectory() as temporary:
        packed = Path(temporary, "files")
        packed.write_bytes(pack([(folder / name).read_bytes() for name, _, _ in listed]))
        out, status, err = run("device_checks", ["files"], packed)
    expect("exit status", (status, out.endswith("done\n")), (0, True))
    found = [line.split()[1:] for line in out.splitlines() if line.startswith("file ")]
    expect("files", len(found), len(listed))
    wrong = [f"{name}: verified and opened, read and mapped: {got}, not {wanted} ({rule})"
             for (name, wanted, rule), got in zip(listed, found) if got != [str(numbers[wanted])] * 4]
    if wrong or not listed:
        fail("\n".join(wrong))
    print(f"{args.core}: {len(listed)} files of {folder.name} judged")


def judged(check_name, word, contents):
    """What the device says of each of many files: the words of its lines after the first."""
    with tempfile.TemporaryDirectory() as temporary:
        packed = Path(temporary, "files")
        packed.write_bytes(pack(contents))
        out, status, err = run("device_checks", [check_name], packed)
    print(err, end="")
    expect("exit status", (status, out.endswith("done\n")), (0, True))
    return [line.split()[1:] for line in out.splitlines() if line.startswith(f"{word} ")]


def fuzz(corpora):
    """The models and states that the fuzz targets' corpora (a folder for each) make get the status that the host gives them."""
    programs = args.host.parent / "tests/bin"
    with tempfile.TemporaryDirectory() as notes:
        listed = []
        for target in FUZZ_TARGETS:
            subprocess.run([str(programs / f"{target}_fuzz"), f"{corpora}/{target}"], check=True, capture_output=True,
                           env=os.environ | {"CRIA_FUZZ_NOTES": notes})
            index = Path(notes, "index.txt")
            for line in index.read_text("utf-8").splitlines():
                name, wanted = line.split()
                listed.append((f"{target} {name}", name.endswith(".state"), wanted, Path(notes, name).read_bytes()))
            index.unlink()
    models = [note for note in listed if not note[1]]
    states = [note for note in listed if note[1]]
    first_model = next(content for name, _, _, content in models if name == "state 0.cria")
    answers = judged("files", "file", [content for _, _, _, content in models])
    expect("models", len(answers), len(models))
    wrong = [f"{name}: verified and opened, read and mapped: {got}, not {wanted}"
             for (name, _, wanted, _), got in zip(models, answers) if got != [wanted] * 4]
    answers = judged("states", "state", [first_model, *(content for _, _, _, content in states)])
    expect("states", len(answers), len(states))
    wrong += [f"{name}: {got}, not {wanted}" for (name, _, wanted, _), got in zip(states, answers) if got != [wanted]]
    if wrong or not models or not states:
        fail("\n".join(wrong))
    print(f"{args.core}: {len(models)} models and {len(states)} states of the corpora judged")


def overflow():
    """A stack that overflows ends the program through its fault handler."""
    out, status, _ = run("device_checks", ["overflow"], model("odd_int4"))
    expect("a stack overflow", (status, "processor fault" in out), (1, True))


def minimal():
    prompt = "Once upon a time"
    out, status, err = run("minimal")
    print(out + err, end="")
    expect("exit status", status, 0)
    wanted = cria("run", model("demo_int4_stored"), "-p", prompt, "--greedy", "-n", 24, "--no-echo", "--backend", "exact")
    expect("text", out.strip(), wanted.strip())


def kernels():
    """Every kernel of the build's instruction set gave the scalar one's bits, between guards; many were compared."""
    out = check("odd_int8", "kernels")
    expect("instruction sets", re.findall(r"isa (\S+) compared", out), [expected_isa()])
    compared = int(found(r"compared (\d+)", out))
    if compared < LEAST_COMPARED:
        fail(f"only {compared} results were compared")
    print(f"{args.core}: {compared} results compared")


def guards():
    """The guards that test kernels works with: a byte beyond an array ends the program, its own bytes do not."""
    for side in ("end", "beginning"):
        for access in GUARDED_ACCESSES:
            words = ["guards", int(side == "beginning"), GUARDED_ACCESSES.index(access)]
            out, status, _ = run("device_checks", words, model("odd_int8"))
            must_end = access != "staying inside"
            got = ("inside\n" in out, status, "processor fault" in out, "beyond\n" in out)
            expect(f"{access}, {side}", got, (True, int(must_end), must_end, not must_end))


def instructions(model_name, most_decoded, most_of_prompt):
    """Instructions a token, by a plugin of qemu: the difference of two runs that differ in their length."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        sys.exit(77)
    n_few, n_many = 2, 10
    with tempfile.TemporaryDirectory() as folder:
        plugin = f"{folder}/counter.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", str(args.source / "tests/tools/instruction_counter.c"), "-o", plugin],
                       check=True)

        def count(*words):
            _, status, err = run("device_checks", words, model(model_name), more=["-plugin", plugin, "-d", "plugin"])
            expect("exit status", status, 0)
            return int(found(r"instructions: (\d+)", err))

        decoded = (count("greedy", n_many, *DEMO_PROMPT) - count("greedy", n_few, *DEMO_PROMPT)) // (n_many - n_few)
        of_prompt = (count("prefill", PROMPT_TOKENS, 2, 0) - count("prefill", PROMPT_TOKENS, 1, 0)) // PROMPT_TOKENS
    print(f"{args.core} {model_name}: {decoded} instructions a decoded token, {of_prompt} instructions a prompt token "
          f"(one of {PROMPT_TOKENS}); at most {most_decoded} and {most_of_prompt}")
    if decoded > int(most_decoded) or of_prompt > int(most_of_prompt):
        fail("more instructions a token than the test allows")


def sizes(*only):
    """text, data and bss of each image, or of these alone, stay within the committed budgets of the core; prints the table."""
    budgets = {}
    for line in (args.source / "platforms/cortex_m/size_budgets.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            core, name, *numbers = line.split()
            if core == args.core and (not only or name in only):
                budgets[name] = list(map(int, numbers))
    over = []
    print(f"{'image':32}{'text':>9}{'data':>7}{'bss':>8}   budgets of {args.core}")
    for name, budget in budgets.items():
        listed = subprocess.run([args.size, "-A", str(image(name))], capture_output=True, text=True, check=True).stdout
        parts = {line.split()[0]: int(line.split()[1]) for line in listed.splitlines() if line.startswith(".")}
        got = [parts.get(".text", 0) + parts.get(".ARM.exidx", 0), parts.get(".data", 0), parts.get(".bss", 0)]
        print(f"{name:32}{got[0]:9}{got[1]:7}{got[2]:8}   {budget}" + (f"  model {parts['.model']}" if ".model" in parts else ""))
        over += [f"{name}: {have} of {most}" for have, most in zip(got, budget) if have > most]
    if over or not budgets or len(budgets) < len(only):
        fail(f"over budget: {over}")


TESTS = {
    "kernels": kernels, "guards": guards,
    "bits": bits, "blocks": blocks, "greedy": greedy, "plan": plan, "heap": heap, "chat": chat, "sampled": sampled, "refusals": refusals,
    "damaged": damaged, "files": files, "fuzz": fuzz, "overflow": overflow, "minimal": minimal, "instructions": instructions, "sizes": sizes, "tools": tools, "device": check,
}


def main():
    global args
    parser = argparse.ArgumentParser()
    for name in ("source", "images", "models", "host"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("emulator", "nm", "size", "core"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    TESTS[args.test](*args.arguments)


if __name__ == "__main__":
    main()
