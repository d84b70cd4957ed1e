"""The module cria on the demo model, beside what the cria program says of it."""
from __future__ import annotations

import copy
import ctypes
import enum
import functools
import gc
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import Literal, Optional

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("CRIA_BIN_DIR", SOURCE / "build/release/bin"))
sys.path.insert(0, str(SOURCE / "python"))
sys.path.insert(0, str(SOURCE / "tests/cli"))

import cria  # noqa: E402
import cria._tools  # noqa: E402
from cria import _structs as structs  # noqa: E402
import cria_cli as cli  # noqa: E402

QUESTIONS = ("hello", "What is a cria?", "Tell me a story.", "   spaces and \u00e4\u00f6\u00fc \U0001f999 around   ")
OBJECT = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0,
          "maximum": 30}}, "required": ["name", "age"], "additionalProperties": False}


def program(*words, **options):
    done = subprocess.run([str(BINARIES / "cria"), *map(str, words)], capture_output=True, timeout=cli.PATIENCE_S, check=True, **options)
    return done.stdout


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "demo.cria"
    subprocess.run([str(BINARIES / "cria-convert"), str(SOURCE / "models/demo"), "-o", str(path), "--quiet"], check=True,
                   timeout=cli.PATIENCE_S)
    return path


@pytest.fixture
def model(demo):
    with cria.Model(demo) as opened:
        yield opened


def asked(*texts):
    """A conversation of questions and answers in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


# The library ----------------------------------------------------------------------------------------------------------

def headers():
    folder = SOURCE / "runtime/include"
    return [(folder / name).read_text() for name in ("cria.h", "cria_chat.h", "cria_json.h", "cria_calls.h", "cria_call_grammar.h")] + [
        (SOURCE / "platforms/hosted/library/cria_host.h").read_text()]


def test_statuses_are_those_of_the_header():
    rows = re.findall(r"X\((CRIA_\w+), (\d+),", headers()[0])
    assert {name: int(value) for name, value in rows} == {status.name: status.value for status in cria.Status}


def test_functions_are_declared():
    from cria import _native
    text = re.sub(r"/\*.*?\*/", "", "\n".join(headers()), flags=re.DOTALL)
    for name, (_, arguments) in _native._FUNCTIONS.items():
        found = re.search(rf"\b{name}\(([^)]*)\);", text)
        assert found, name
        listed = found.group(1).strip()
        assert (0 if listed == "void" else listed.count(",") + 1) == len(arguments), name
    used = "".join(path.read_text() for path in (SOURCE / "python/cria").glob("*.py"))
    assert {name for name in _native._FUNCTIONS if not re.search(rf"\b(?:lib|library)\.{name}\b", used)} == set()


def test_structs_have_the_layout_of_the_compiler(tmp_path):
    compiler = os.environ.get("CRIA_C_COMPILER") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    names = {
        "cria_model_info": structs.ModelInfoStruct, "cria_memory_plan": structs.MemoryPlanStruct,
        "cria_text_state": structs.TextState, "cria_message": structs.MessageStruct, "cria_batch_entry": structs.BatchEntry,
        "cria_hidden": structs.Hidden,
        "cria_logit_bias": structs.LogitBias, "cria_sampling": structs.Sampling, "cria_chat_config": structs.ChatConfig,
        "cria_chat_piece": structs.ChatPiece, "cria_json_problem": structs.JsonProblem, "cria_json_state": structs.JsonState,
        "cria_host_options": structs.HostOptions, "cria_host": structs.Host, "cria_host_problem": structs.HostProblem,
        "cria_text": structs.TextStruct, "cria_call": structs.CallStruct, "cria_message_parts": structs.MessagePartsStruct,
        "cria_conversation": structs.ConversationStruct, "cria_calls_event": structs.CallsEvent, "cria_call_order": structs.CallOrder,
        "cria_call_problem": structs.CallProblem, "cria_call_state": structs.CallState,
    }
    lines, wanted = [], []
    for name, struct_type in names.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        wanted.append(ctypes.sizeof(struct_type))
        for field in struct_type._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field[0]}));')
            wanted.append(getattr(struct_type, field[0]).offset)
    source = tmp_path / "layout.c"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <cria.h>\n#include <cria_chat.h>\n#include <cria_json.h>\n#include <cria_calls.h>\n#include <cria_call_grammar.h>\n"
                      '#include "platforms/hosted/library/cria_host.h"\nint main(void) {' + "\n".join(lines) + "return 0; }\n")
    subprocess.run([compiler, "-std=c99", f"-I{SOURCE}", f"-I{SOURCE}/runtime/include", str(source), "-o",
                    str(tmp_path / "layout")], check=True)
    printed = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in printed.split()] == wanted


def run_python(code, *words):
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=cli.PATIENCE_S,
                          check=False, env={**os.environ, "PYTHONPATH": str(SOURCE / "python")})


def imported(library, code="import cria; print(cria.__version__)"):
    environment = {name: value for name, value in os.environ.items() if name != "CRIA_LIBRARY"}
    if library is not None:
        environment["CRIA_LIBRARY"] = str(library)
    return subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": str(SOURCE / "python")},
                          capture_output=True, text=True, timeout=cli.PATIENCE_S, check=False)


def test_the_library_is_found_where_it_is_said_to_be(tmp_path):
    folder = BINARIES.parent / "lib"
    for named in (folder, folder / "libcria.so.0", folder / "libcria_host.so.0"):
        assert imported(named).stdout == "0.1.0\n"
    missing = imported(tmp_path)
    assert missing.returncode != 0
    assert f"ImportError: CRIA_LIBRARY={tmp_path}: no libcria.so.0" in missing.stderr


def test_the_module_may_lie_anywhere(monkeypatch):
    from cria import _native
    for place in ("/cria", "/x/cria", "/x/y/cria"):
        monkeypatch.setattr(_native, "__file__", f"{place}/_native.py")
        assert [str(folder) for folder in _native._folders()][0] == place


# Opening --------------------------------------------------------------------------------------------------------------

def test_info_and_memory_are_the_programs(demo, model):
    told = json.loads(program("info", "--json", demo))
    flat = json.dumps(told)
    assert model.info.n_layers > 0 and model.info.has_tokenizer and model.info.architecture == "llama"
    assert model.info.file_bytes == demo.stat().st_size
    assert str(model.info.n_parameters) in flat
    assert model.memory.total >= model.memory.model + model.memory.session
    assert model.context == model.info.planned_context
    assert model.threads >= 1
    assert model.backend.startswith("exact")


def test_what_cannot_be_opened(tmp_path, demo):
    with pytest.raises(FileNotFoundError):
        cria.Model(tmp_path / "none.cria")
    text = tmp_path / "text.cria"
    text.write_text("no model at all" * 1000)
    with pytest.raises(cria.CriaError, match="not a cria model file") as caught:
        cria.Model(text)
    assert caught.value.status is cria.Status.CRIA_NOT_A_MODEL and caught.value.name == "CRIA_NOT_A_MODEL"
    damaged = bytearray(demo.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    broken = tmp_path / "broken.cria"
    broken.write_bytes(damaged)
    with pytest.raises(cria.CriaError) as caught:
        cria.Model(broken)
    assert caught.value.status is cria.Status.CRIA_CORRUPT
    with pytest.raises(cria.CriaError, match=r": context 99999 is more than") as caught:
        cria.Model(demo, context=99999)
    assert caught.value.status is None and caught.value.name == "USAGE"
    with pytest.raises(cria.CriaError, match="is a folder") as caught:
        cria.Model(tmp_path)
    for wrong in ({"kv": "int7"}, {"backend": "gpu"}, {"threads": 0}, {"context": -1}, {"threads": 10**6}, {"prefill_chunk": 2**31},
                  {"context": 2**32 - 1}, {"max_text_bytes": 2**32}):
        with pytest.raises(ValueError):
            cria.Model(demo, **wrong)


def test_a_closed_model_says_so(demo):
    model = cria.Model(demo)
    model.close()
    model.close()
    for use in (lambda: model.chat("hello"), lambda: model.tokenize("x"), lambda: model.info, lambda: model.logits([1]),
                lambda: model.extra_bytes, model.__enter__):
        with pytest.raises(cria.CriaError, match="closed") as caught:
            use()
        assert caught.value.name == "CLOSED"
    assert repr(model).endswith(", closed)")


def test_a_model_and_a_stream_are_not_copied(model):
    with model.chat("hello", stream=True) as stream:
        for thing in (model, stream):
            for use in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="copied or pickled"):
                    use(thing)


def test_an_answer_is_copied_whole(model):
    answer = model.chat("hello", max_tokens=3)
    copies = [copy.copy(answer), copy.deepcopy(answer)]
    copies += [pickle.loads(pickle.dumps(answer, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for each in copies:
        assert type(each) is cria.Answer and each == answer and vars(each) == vars(answer)


def test_extra_bytes_count_what_is_taken(model):
    assert model.extra_bytes == 0
    model.chat("hello", max_tokens=1)
    chat = model.extra_bytes
    assert chat > 0
    model.chat("hello", max_tokens=1, schema=True)
    json_too = model.extra_bytes
    assert json_too > chat
    with model.chat("hello", stream=True, schema=OBJECT) as stream:
        next(stream)
        assert model.extra_bytes > json_too
    del stream
    assert model.extra_bytes == json_too


def resident_kb():
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path("/proc/self/status").read_text()).group(1))


def test_memory_threads_and_descriptors_are_given_back(demo):
    def used():
        gc.collect()
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    def use():
        model = cria.Model(demo, threads=2)
        model.chat("hello", max_tokens=4, schema=OBJECT)
        next(model.chat("hello", stream=True))

    for _ in range(5):
        use()
    before = used()
    # What the heap keeps for later has an end, a leak has none: 70 KB a model are seen.
    sizes = [resident_kb()]
    for _ in range(10):
        for _ in range(30):
            use()
        assert used() == before
        sizes.append(resident_kb())
        if sizes[-1] - sizes[-2] < 2048:
            break
    else:
        pytest.fail(f"memory grows: {sizes}")


# Answers --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("threads", (1, 2))
def test_greedy_answers_are_the_programs_bytes(demo, threads):
    with cria.Model(demo, threads=threads) as model:
        for question in QUESTIONS:
            told = program("chat", demo, "--greedy", input=f"{question}\n".encode())
            assert f"{model.chat(asked(question.strip(' ')), temperature=0)}\n".encode() == told
        a, b = QUESTIONS[:2]
        told = program("chat", demo, "--greedy", "--system", "Be brief.", input=f"{a}\n{b}\n".encode()).decode()
        system = {"role": "system", "content": "Be brief."}
        first = model.chat([system, *asked(a)], temperature=0)
        second = model.chat([system, *asked(a, first, b)], temperature=0)
        assert f"{first}\n{second}\n" == told


def test_drawn_answers_are_the_programs(demo, model):
    for seed in (0, 7, 2**64 - 1):
        told = program("chat", demo, "--seed", seed, input=b"Tell me a story.\n").decode()
        assert model.chat("Tell me a story.", seed=seed) + "\n" == told
    told = program("chat", demo, "--seed", 3, "--temperature", 1.5, "--top-k", 9, "--top-p", 0.5, "--min-p", 0,
                   "--repeat-penalty", 1.3, "-n", 20, input=b"hello\n").decode()
    assert model.chat("hello", seed=3, temperature=1.5, top_k=9, top_p=0.5, min_p=0, repeat_penalty=1.3, max_tokens=20) + "\n" == told


def test_the_defaults_are_the_programs(demo):
    shown = program("chat", "--help").decode()
    from cria._requests import Drawing
    for name, text in re.findall(r"--([a-z-]+) [XN] \[([0-9.]+)\]", shown):
        assert getattr(Drawing(), name.replace("-", "_")) == float(text), name


def test_the_bounds_are_the_programs(demo):
    from cria._requests import BOUNDS
    for name, (low, high) in BOUNDS.items():
        done = subprocess.run([str(BINARIES / "cria"), "chat", str(demo), f"--{name.replace('_', '-')}=-99"], capture_output=True,
                              timeout=cli.PATIENCE_S, check=False)
        shown = re.search(r"is not a number from (-?[0-9.]+) to ([0-9.]*[0-9])", done.stderr.decode())
        assert shown, (name, done.stderr)
        # The library's limit of 0 is none, and none is None here.
        assert (0 if name == "max_tokens" else low, high) == (float(shown[1]), float(shown[2])), name


def test_completions_are_the_programs(demo, model):
    for prompt in ("Once upon a time", "The llama"):
        told = program("run", demo, "-p", prompt, "--greedy", "-n", 24, "--no-echo").decode()
        assert model.complete(prompt, temperature=0, max_tokens=24) + "\n" == told
    told = program("run", demo, "-p", "Once", "--seed", 5, "-n", 30, "--no-echo").decode()
    assert model.complete("Once", seed=5, max_tokens=30) + "\n" == told


def test_an_answer_says_how_it_ended(model):
    whole = model.chat("hello", temperature=0)
    assert (whole.finish_reason, whole.n_dropped) == ("stop", 0)
    assert whole.n_read > 1 and whole.n_tokens > 3
    cut = model.chat("hello", temperature=0, max_tokens=3)
    assert (cut.finish_reason, cut.n_tokens) == ("length", 3) and whole.startswith(cut)
    long = model.complete("Once upon a time", temperature=0, logit_bias={t: float("-inf") for t in ends_of(model)})
    assert long.finish_reason == "context"


def ends_of(model):
    return [t for t in range(model.info.vocab_size) if cria._native.lib.cria_is_end_token(model._engine.host.model, t)]


def test_a_conversation_is_read_once(model):
    first = model.chat("What is a cria?", temperature=0)
    again = model.chat(asked("What is a cria?", first, "hello"), temperature=0)
    assert 0 < again.n_read < first.n_read + first.n_tokens
    assert model.chat(asked("What is a cria?", first, "hello"), temperature=0) == again


def test_what_is_asked_again_is_read_but_for_its_last_token(demo, tmp_path):
    import checkpoints
    hybrid = tmp_path / "lfm2.cria"  # layers keep blocks of state
    subprocess.run([str(BINARIES / "cria-convert"), str(checkpoints.lfm2("lfm2_of_python", 512)), "-o", str(hybrid), "--quiet"],
                   check=True, timeout=cli.PATIENCE_S)
    for path in (demo, hybrid):
        with cria.Model(path) as opened:
            for ask in (lambda text: opened.chat(text, temperature=0, max_tokens=8),
                        lambda text: opened.complete(text, temperature=0, max_tokens=8)):
                first, again = ask("What is a cria?"), ask("What is a cria?")
                assert first.n_read > 1
                assert (again, again.n_read) == (first, 1)


def test_results_do_not_depend_on_what_went_before(demo, model):
    def results(opened):
        return (opened.chat("hello", temperature=0), opened.complete("The llama", temperature=0, max_tokens=9),
                opened.chat("Tell me a story.", seed=2), bytes(memoryview(opened.logits([1, 2, 3])).cast("B")))

    first = results(model)
    for _ in range(30):
        model.chat("Tell me a story.", max_tokens=50)
    assert results(model) == first
    with cria.Model(demo, context=64) as small:
        wanted = results(small)
        said = []
        n_dropped = 0
        for i in range(8):
            said.append({"role": "user", "content": f"Tell me story {i}."})
            answer = small.chat(said, temperature=0)
            said.append({"role": "assistant", "content": str(answer)})
            n_dropped += answer.n_dropped
            assert small.chat(said[:-1], temperature=0) == answer
        assert n_dropped > 0
        assert results(small) == wanted


def test_stop_strings_end_an_answer(model):
    whole = model.chat("hello", temperature=0)
    for stop in ("you", whole[-3:], [whole[5:12], "never"], ["", "meet y"]):
        texts = [stop] if isinstance(stop, str) else [text for text in stop if text]
        at = min(whole.find(text) for text in texts if text in whole)
        answer = model.chat("hello", temperature=0, stop=stop)
        assert answer == whole[:at] and answer.finish_reason == "stop"
        assert model.complete("Once upon a time", temperature=0, stop=" ", max_tokens=9).count(" ") == 0
    assert model.chat("hello", temperature=0, stop=whole + "!") == whole


def shown_before_stop(text, stops):
    """The oracle: looks at the whole text, character by character."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[:end - max(map(len, complete))], True
    return text, False


def test_stop_strings_do_not_depend_on_how_text_is_cut():
    from cria._results import StopStrings
    draw = random.Random(1)
    n_met = 0
    for _ in range(20000):
        letters = "ab\u00e4" if draw.random() < 0.7 else "abc\u00e4\U0001f999 "
        word = lambda most: "".join(draw.choice(letters) for _ in range(draw.randint(1, most)))
        stops, text = [word(5) for _ in range(draw.randint(1, 4))], word(24)
        finder, shown, at = StopStrings(stops), "", 0
        while at < len(text) and not finder.is_met:
            n = draw.randint(0, 6)
            shown, at = shown + finder.feed(text[at:at + n]), at + n
        wanted, is_met = shown_before_stop(text, stops)
        assert (shown + finder.rest(), finder.is_met) == (wanted, is_met), (stops, text)
        n_met += is_met
    assert n_met > 5000


def test_messages_that_cannot_be_said(demo, model):
    user = {"role": "user", "content": "hello"}
    for messages in ([], [{"role": "robot", "content": "x"}], [user, {"role": "assistant", "content": "x"}],
                     [user, {"role": "system", "content": "x"}, user], [{"role": "user", "content": 3}],
                     [{"role": "user", "content": [{"type": "image_url"}]}]):
        with pytest.raises(ValueError):
            model.chat(messages)
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    assert model.chat(parts, temperature=0) == model.chat("hello", temperature=0)
    with pytest.raises(cria.CriaError, match="larger context") as caught:
        model.chat("long " * 5000)
    assert caught.value.status in (cria.Status.CRIA_TEXT_TOO_LONG, cria.Status.CRIA_CONTEXT_FULL)
    for wrong in ({"temperature": -1}, {"temperature": 10 ** 400}, {"temperature": float("nan")}, {"top_p": 2},
                  {"max_tokens": 0}, {"seed": -1}):
        with pytest.raises(ValueError):
            model.chat("hello", **wrong)
    with pytest.raises(TypeError):
        model.chat("hello", heat=1)
    assert model.chat("hello", temperature=0)


TYPES = (
    *({"messages": wrong} for wrong in (b"hello", {"role": "user", "content": "hello"}, ["hello"], 5, None)),
    *({"stop": wrong} for wrong in (b"x", ["a", b"b"], 5, {"a": "b"})),
    *({"temperature": wrong} for wrong in (None, "1", True, [1])), {"top_p": None}, {"top_k": 1.5}, {"min_p": "x"},
    *({"max_tokens": wrong} for wrong in (2.5, "3", True)), {"seed": 1.5}, {"seed": "x"},
    *({"stream": wrong} for wrong in ("yes", 0, None)),
    *({"schema": wrong} for wrong in (1, b"{}", [])),
    *({"logit_bias": wrong} for wrong in ({"a": 1}, {5: None}, [(1, 2)], {1.5: 1})),
)


@pytest.mark.parametrize("words", TYPES, ids=str)
def test_wrong_types_are_said_before_anything_is_read(model, words):
    name, = words
    with pytest.raises(TypeError, match=r"^[\w ]+ is .*, not \w+$") as caught:
        model.chat(**{"messages": "hello", **words})
    if name != "messages":
        with pytest.raises(TypeError):
            model.complete("hello", **words)
    assert name == "messages" or re.search(name.replace("_", ".").replace("logit.bias", "bias|token"), str(caught.value))
    assert model.chat("hello", max_tokens=2).n_read > 1  # the session had nothing of it


def test_more_wrong_types(demo, model):
    for use in (lambda: model.tokenize(b"x"), lambda: model.complete(5), lambda: model.detokenize("123"), lambda: model.detokenize(b"12"),
                lambda: model.detokenize([1.9]), lambda: model.logits(["3"]), lambda: cria.Model(demo, threads=1.5),
                lambda: cria.Model(demo, context="a"), lambda: cria.Model(demo, context=True), lambda: cria.Model(demo, mapped="no"),
                lambda: cria.Model(demo, exact_context=2), lambda: cria.Model(None)):
        with pytest.raises(TypeError):
            use()
    with pytest.raises(TypeError, match=r"^chat\(\) got an unexpected keyword argument 'heat'$"):
        model.chat("hello", heat=1)
    with pytest.raises(TypeError, match=r"^complete\(\) got"):
        model.complete("hello", heat=1)


def test_biases_are_of_tokens_of_the_vocabulary(model):
    size = model.info.vocab_size
    for token in (-1, size, 2**32, 2**32 + 5, 10**30):
        with pytest.raises(ValueError, match=f"from 0 to {size - 1}$"):
            model.chat("hello", logit_bias={token: 1})
    with pytest.raises(ValueError, match="bias"):
        model.chat("hello", logit_bias={5: float("nan")})
    banned = model.tokenize(model.chat("hello", temperature=0))[0]
    assert model.tokenize(model.chat("hello", temperature=0, logit_bias={banned: float("-inf")}))[0] != banned


def test_biases_that_leave_no_token_are_told(model):
    size = model.info.vocab_size
    never = float("-inf")
    for use in (model.chat, model.complete):
        for bias in (never, -1e300):  # which a float takes for the same
            with pytest.raises(ValueError, match="^logit_bias forbids every token$"):
                use("hello", logit_bias={token: bias for token in range(size)})
        # One is left, which the schema does not want; or nothing that it wants.
        space, = model.tokenize(" a")[:1]
        for kept in ({space}, set(ends_of(model))):
            rest = {token: never for token in range(size) if token not in kept}
            with pytest.raises(cria.CriaError, match="^logit_bias, with a schema or tools if there are any, forbids every token$") as caught:
                use("hello", schema={"type": "integer"}, logit_bias=rest)
            assert caught.value.name == "CRIA_NOTHING_TO_SAMPLE"
        only = use("hello", max_tokens=3, logit_bias={token: never for token in range(size) if token != space})
        assert only.finish_reason == "length" and only.split() == ["a"] * 3
    assert model.chat("hello", max_tokens=2).n_tokens == 2


def test_a_developer_is_the_system(model):
    def ask(role):
        return model.chat([{"role": role, "content": "Be brief."}, {"role": "user", "content": "hello"}], temperature=0)
    assert ask("developer") == ask("system")
    assert model.chat("hello", temperature=0, max_tokens=3)


def test_a_model_without_a_tokenizer(tmp_path):
    path = tmp_path / "bare.cria"
    subprocess.run([str(BINARIES / "cria-convert"), str(SOURCE / "models/demo"), "-o", str(path), "--quiet", "--no-tokenizer"],
                   check=True, timeout=cli.PATIENCE_S)
    with cria.Model(path) as model:
        assert len(model.logits([1, 2])) == 2
        for use in (lambda: model.tokenize("x"), lambda: model.chat("x"), lambda: model.complete("x")):
            with pytest.raises(cria.CriaError) as caught:
                use()
            assert caught.value.status is cria.Status.CRIA_NO_TOKENIZER


# Streams --------------------------------------------------------------------------------------------------------------

def test_a_stream_gives_the_answer(model):
    whole = model.chat("hello", temperature=0)
    stream = model.chat("hello", temperature=0, stream=True)
    assert stream.finish_reason is None
    pieces = list(stream)
    assert len(pieces) > 3 and "".join(pieces) == whole and all(pieces)
    assert stream.finish_reason == "stop" and stream.answer == whole and stream.answer.n_tokens == whole.n_tokens
    assert list(stream) == []
    assert "".join(model.complete("Once", temperature=0, max_tokens=9, stream=True)) == model.complete(
        "Once", temperature=0, max_tokens=9)


def test_a_stream_can_be_closed(model):
    whole = model.chat("hello", temperature=0)
    for n in range(4):
        with model.chat("hello", temperature=0, stream=True) as stream:
            for _ in range(n):
                next(stream)
        assert stream.finish_reason == "closed" and whole.startswith(stream.answer)
        stream.close()
        assert model.chat("hello", temperature=0) == whole
    next(model.chat("hello", stream=True))  # forgotten
    assert model.chat("hello", temperature=0) == whole


def test_an_open_stream_has_the_model_to_itself(model):
    stream = model.chat("hello", stream=True)
    next(stream)
    for use in (lambda: model.chat("hello"), lambda: model.complete("x", stream=True), lambda: model.logits([1]),
                lambda: model.tokenize("x")):
        with pytest.raises(cria.BusyError):
            use()
    stream.close()
    assert model.tokenize("hello")
    stream = model.chat("hello", stream=True)
    next(stream)
    model.close()
    assert stream.finish_reason == "closed" and list(stream) == []


# JSON -----------------------------------------------------------------------------------------------------------------

def test_a_schema_makes_json(model):
    for seed in range(8):
        answer = model.chat("Who are you?", schema=OBJECT, seed=seed, temperature=1.5)
        found = answer.json()
        assert answer.finish_reason == "stop"
        assert set(found) == {"name", "age"} and 0 <= found["age"] <= 30 and len(found["name"]) <= 8
    text = json.dumps({"enum": ["yes", "no"]})
    assert model.complete("Is it?", schema=text, temperature=0).json() in ("yes", "no")
    assert "".join(model.chat("x", schema={"const": [1, 2]}, stream=True)).replace(" ", "") == "[1,2]"
    assert model.extra_bytes > 0


def test_a_schema_of_the_program(demo, model, tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(OBJECT))
    told = program("run", demo, "-p", "A llama: ", "--greedy", "--json-schema", path).decode()
    assert model.complete("A llama: ", schema=OBJECT, temperature=0) + "\n" == told


def test_json_that_is_cut_says_so(model):
    answer = model.chat("x", schema={"type": "array", "items": {"type": "integer"}, "minItems": 50}, max_tokens=5)
    assert answer.finish_reason == "length"
    with pytest.raises(ValueError, match="length"):
        answer.json()


def test_a_schema_that_is_not_understood(model):
    with pytest.raises(cria.SchemaError, match="patternProperties") as caught:
        model.chat("x", schema={"patternProperties": {"a": True}})
    assert caught.value.keyword == "patternProperties" and caught.value.offset == 1
    with pytest.raises(cria.SchemaError, match=r"the schema: byte \d+, in /properties/a: \"patternProperties\" is not supported"):
        model.chat("x", schema={"properties": {"a": {"patternProperties": {"x": {}}}}})
    assert caught.value.status is cria.Status.CRIA_UNSUPPORTED
    with pytest.raises(cria.SchemaError):
        model.chat("x", schema="{", stream=True)
    with pytest.raises(ValueError):
        model.chat("x", schema="")
    assert model.chat("hello", temperature=0)


# Tokens and logits ----------------------------------------------------------------------------------------------------

def test_tokens_are_the_programs(demo, model):
    for text in QUESTIONS:
        tokens = model.tokenize(text)
        assert model.detokenize(tokens) == text
        assert tokens == [int(word) for word in program("tokenize", demo, input=text.encode()).split()]
    assert model.tokenize("x", add_special=True)[1:] == model.tokenize("x")
    assert model.tokenize("") == [] and model.detokenize([]) == ""
    assert "\ufffd" in model.detokenize(model.tokenize("\u00e4")[:1]) or len(model.tokenize("\u00e4")) == 1
    for wrong in ([-1], [model.info.vocab_size]):
        with pytest.raises(ValueError):
            model.detokenize(wrong)


def test_embeddings_are_the_programs(demo, tmp_path, monkeypatch):
    sys.path.insert(0, str(SOURCE / "tests/cli"))
    import checkpoints
    texts = ["Once upon a time there was a fox.", "The bear", "a " * 200]
    mean = cli.converted(checkpoints.embedding("python_mean", modules=[checkpoints.TRANSFORMER, checkpoints.POOLING],
                                               pooling={"pooling_mode_mean_tokens": True}), "--weights", "f32")
    for path, pooling in ((demo, None), (mean, "mean")):
        for dimensions in (None, 7):
            options = ("--dimensions", dimensions) if dimensions else ()
            wanted = [json.loads(line) for line in program("embed", path, *options, input="\n".join(texts).encode()).splitlines()]
            with cria.Model(path, prefill_chunk=5) as opened:
                assert (opened.info.pooling, opened.info.unit_embeddings) == (pooling, False)
                for has_numpy in (True, False):
                    if not has_numpy:
                        monkeypatch.setitem(sys.modules, "numpy", None)
                    found = opened.embed(texts, dimensions=dimensions)
                    assert found.shape == (3, dimensions or opened.info.d_model)
                    assert [[floats(x) for x in row] for row in found.tolist()] == [[floats(x) for x in row] for row in wanted]
                    one = opened.embed(texts[1], dimensions=dimensions)
                    assert one.shape == (dimensions or opened.info.d_model,)
                    assert one.tolist() == found.tolist()[1]
                    monkeypatch.undo()
    with cria.Model(mean) as opened:
        with pytest.raises(ValueError):
            opened.embed([])
        assert len(opened.embed("")) == 256  # with a BOS a text without letters has a token
        for wrong in (0, 257, True, 1.5):
            with pytest.raises((ValueError, TypeError)):
                opened.embed("a", dimensions=wrong)
        for wrong in (3, [3], None, [b"a"]):
            with pytest.raises(TypeError):
                opened.embed(wrong)
        with pytest.raises(cria.CriaError) as refused:
            opened.embed(["a", "a fox " * 600])
        assert refused.value.status == cria.Status.CRIA_CONTEXT_FULL


def floats(number):
    """As float32: the program writes the shortest text that is the number again."""
    return ctypes.c_float(number).value


def test_logits_are_the_programs(demo, model, tmp_path, monkeypatch):
    tokens = model.tokenize("Once upon a time", add_special=True)
    program("logits", demo, "--ids", ",".join(map(str, tokens)), "-o", tmp_path / "logits")
    wanted = (tmp_path / "logits").read_bytes()
    for numpy_is_there in (True, False):
        if not numpy_is_there:
            monkeypatch.setitem(sys.modules, "numpy", None)
        found = model.logits(tokens)
        assert bytes(memoryview(found).cast("B")) == wanted
        assert tuple(found.shape) == (len(tokens), model.info.vocab_size) and len(found) == len(tokens)
        last = model.logits(tokens, last=True)
        assert tuple(last.shape) == (model.info.vocab_size,)
        assert bytes(memoryview(last).cast("B")) == wanted[-4 * model.info.vocab_size:]
        assert last[3] == found[-1, 3] == struct.unpack_from("f", wanted, len(wanted) - 4 * (model.info.vocab_size - 3))[0]
        assert found.tolist()[-1] == last.tolist()
    with pytest.raises(ValueError):
        model.logits([])
    with pytest.raises(cria.CriaError) as caught:
        model.logits([1] * (model.context + 1))
    assert caught.value.status is cria.Status.CRIA_CONTEXT_FULL


# Threads and signals --------------------------------------------------------------------------------------------------

def test_threads_share_a_model(model):
    wanted = {question: model.chat(question, temperature=0) for question in QUESTIONS}
    wrong = []

    def ask(question):
        for _ in range(5):
            if model.chat(question, temperature=0) != wanted[question]:
                wrong.append(question)

    threads = [threading.Thread(target=ask, args=(question,)) for question in QUESTIONS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_ctrl_c_ends_a_long_read(model, monkeypatch):
    waited = []
    end_step = cria._step.Step.end
    monkeypatch.setattr(cria._step.Step, "end", lambda step: (waited.append(not step.is_over), end_step(step)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored
    tokens = [1] * model.context
    wanted = model.chat("hello", temperature=0)
    for seconds in (0.05, 0.11, 0.17):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            end = time.monotonic() + cli.PATIENCE_S
            while time.monotonic() < end:
                model.logits(tokens, last=True)
        timer.join()
        assert model.chat("hello", temperature=0) == wanted
    signal.signal(signal.SIGINT, before)
    assert any(waited)  # it came while a prompt was read, which it ended


INTERRUPTS = """
import faulthandler, random, signal, sys, time
faulthandler.dump_traceback_later(int(sys.argv[4]) - 30, exit=True)
import cria
demo, n_times, n_rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
n_left = n_seen = n_again = 0

def interrupt(*_):
    global n_left, n_seen, n_again
    if n_left > 0:
        n_seen += n_left == n_times
        n_again += n_left == n_times - 1
        n_left -= 1
        # The next one from here, not by an interval: on a slow machine those would come faster than this function goes on.
        if n_left > 0:
            signal.setitimer(signal.ITIMER_REAL, gap)
        raise KeyboardInterrupt

def interrupted(use, seconds):  # n_times, at random within the time that it takes and a little after it
    global n_left, gap
    try:
        try:
            n_left, gap = n_times, random.choice((1e-5, 5e-5, 3e-4))
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 1.2 * seconds))
            use()
        finally:
            n_left = 0
    except KeyboardInterrupt:
        n_left = 0
    except SystemError as error:
        # What CPython 3.11 makes of it where one comes while another is raised: the interpreter's own error, in interrupt().
        n_left, last = 0, error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        if last.tb_frame.f_code is not interrupt.__code__ or not isinstance(error.__cause__, KeyboardInterrupt):
            raise
    signal.setitimer(signal.ITIMER_REAL, 0)

def seconds_of(use):
    begin = time.monotonic()
    use()
    return time.monotonic() - begin

signal.signal(signal.SIGALRM, interrupt)
random.seed(n_times)
model = cria.Model(demo)
tokens = [1] * model.context
ask = {"temperature": 0, "max_tokens": 6}
question = "hello, and tell me a long story of a llama"
chat = lambda: model.chat(question, **ask)
stream = lambda: list(model.chat(question, stream=True, **ask))
read = lambda: model.logits(tokens, last=True)
complete = lambda: model.complete("Once upon a time there was a llama", **ask)
uses = [(use, min(seconds_of(use) for _ in range(3))) for use in (chat, stream, read, complete)]
wanted = chat(), complete()
logits = bytes(memoryview(model.logits(tokens[:40], last=True)).cast("B"))
end = time.monotonic() + 20
n_done = 0
while n_done < n_rounds and (n_done < n_rounds / 4 or time.monotonic() < end):
    interrupted(*uses[n_done % 4])
    assert (chat(), complete()) == wanted, n_done
    if n_done % 8 == 0:
        assert bytes(memoryview(model.logits(tokens[:40], last=True)).cast("B")) == logits, n_done
    if n_done % 16 == 2:
        interrupted(*uses[2])
        model.close()
        model = cria.Model(demo)
    n_done += 1
print(n_done, n_seen, n_again)
"""


@pytest.mark.parametrize("n_times", (1, 2, 5))
def test_ctrl_c_at_any_time_leaves_the_model_whole(demo, n_times):
    done = run_python(INTERRUPTS, demo, n_times, 480, cli.PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    n_done, n_seen, n_again = map(int, done.stdout.split())
    assert n_seen > n_done / 2, done.stdout
    assert n_times == 1 or n_again > n_done / 8, done.stdout  # before the first one was dealt with


@pytest.mark.parametrize("seconds", (0.05, 0.3))
def test_ctrl_c_before_the_reading_thread_has_begun(demo, monkeypatch, seconds):
    """It never begins then, or is waited for: the model may be closed and opened meanwhile."""
    start, delay = cria._step.start_new_thread, threading.Event()
    monkeypatch.setattr(cria._step, "start_new_thread",
                        lambda run, words: start(lambda: (delay.wait(0.2), run(*words)), ()))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    steps = []
    step = cria._native.lib.cria_step
    monkeypatch.setattr(cria._native.lib, "cria_step", lambda *words: (steps.append(1), step(*words))[1])
    try:
        with cria.Model(demo) as model:
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, seconds)
                while True:
                    model.logits([1] * model.context, last=True)
            n_steps = len(steps)
        time.sleep(0.4)
        assert len(steps) == n_steps
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_runs_on_is_waited_for(demo, monkeypatch):
    """Interrupts that end the waiting itself: whatever comes next waits, also the end of the model."""
    def torn(step):
        while not step._fate:
            time.sleep(0.001)
        raise KeyboardInterrupt

    cria_step = cria._native.lib.cria_step
    may_go_on = threading.Event()
    monkeypatch.setattr(cria._native.lib, "cria_step", lambda *words: (may_go_on.wait(cli.PATIENCE_S), cria_step(*words))[1])
    for use in (lambda model: model.chat("hello", temperature=0), lambda model: model.tokenize("x"), lambda model: model.close()):
        with cria.Model(demo) as model:
            may_go_on.clear()
            with monkeypatch.context() as patched:
                patched.setattr(cria._step.Step, "wait", torn)
                with pytest.raises(KeyboardInterrupt):
                    model.logits([1] * model.context, last=True)
                step = model._engine._step
            assert not step.is_over
            timer = threading.Timer(0.2, may_go_on.set)
            timer.start()
            use(model)
            timer.join()
            assert step.is_over and model._engine._step is None


def test_another_thread_cancels(model):
    tokens = [1] * model.context
    done = threading.Event()

    def cancel():
        while not done.wait(0.003):
            model.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(cria.CancelledError):
            end = time.monotonic() + cli.PATIENCE_S
            while time.monotonic() < end:
                model.logits(tokens, last=True)
    finally:
        done.set()
        thread.join()
    assert model.chat("hello", temperature=0)


# Examples -------------------------------------------------------------------------------------------------------------

def example(name, demo, *words, **options):
    done = subprocess.run([sys.executable, str(SOURCE / "examples/python" / name), str(demo), *words], capture_output=True,
                          text=True, timeout=cli.PATIENCE_S, check=False, env={**os.environ, "PYTHONPATH": str(SOURCE / "python")}, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_run(demo):
    shown = example("python_chat.py", demo, input="hello\nTell me a story.\n")
    assert shown.count("\n") >= 2
    found = json.loads(example("python_schema.py", demo))
    assert set(found) == {"name", "age", "likes"}


def test_the_examples_say_what_they_need():
    for name in ("python_chat.py", "python_schema.py"):
        done = subprocess.run([sys.executable, str(SOURCE / "examples/python" / name)], capture_output=True, text=True,
                              timeout=cli.PATIENCE_S, check=False, env={**os.environ, "PYTHONPATH": str(SOURCE / "python")})
        assert (done.returncode, done.stderr) == (1, f"{name}: give it a model: {name} MODEL.cria\n")


def test_the_documents_code_runs(tooled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(tooled, "demo.cria")
    blocks = re.findall(r"```python\n(.*?)```", (SOURCE / "docs/python.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), {})  # pylint: disable=exec-used


def test_the_types_are_complete():
    """Every function of the package says what it takes and gives."""
    import ast
    for path in (SOURCE / "python/cria").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.returns is not None, (path.name, node.name)
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                arguments += [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
                for each in arguments:
                    assert each.annotation is not None or each.arg in ("self", "cls"), (path.name, node.name, each.arg)
    assert (SOURCE / "python/cria/py.typed").is_file()
    if shutil.which("mypy") is not None:
        subprocess.run(["mypy", "--strict", "--python-version", "3.9", f"--cache-dir={os.devnull}", str(SOURCE / "python/cria")],
                       check=True)


# Tools ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tooled(tmp_path_factory):
    """The demo with a chat template of tools."""
    path = tmp_path_factory.mktemp("models") / "tooled.cria"
    subprocess.run([str(BINARIES / "cria-convert"), str(SOURCE / "models/demo"), "-o", str(path), "--quiet", "--chat-template",
                    str(SOURCE / "models/demo/tools/chat_template.jinja")], check=True, timeout=cli.PATIENCE_S)
    return path


def light(room: Literal["kitchen", "hall"], level: int = 3) -> str:
    """Sets a light.

    room: which one
    level: how bright,
        from 0 to 9
    """
    return f"{room} {level}"


def test_a_function_is_a_tool_by_its_hints_and_docstring():
    assert cria._tools.tool_of(light) == {"type": "function", "function": {
        "name": "light", "description": "Sets a light.", "parameters": {"type": "object", "properties": {
            "room": {"enum": ["kitchen", "hall"], "description": "which one"},
            "level": {"type": "integer", "description": "how bright, from 0 to 9"}}, "required": ["room"]}}}

    def many(a: Optional[float], b: list[str], c: dict[str, int], d: bool, e=None) -> None: ...

    properties = cria._tools.tool_of(many)["function"]["parameters"]["properties"]
    assert properties == {"a": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "b": {"type": "array", "items": {"type": "string"}},
                          "c": {"type": "object"}, "d": {"type": "boolean"}, "e": {}}

    async def later(a: int) -> int:
        return a

    for wrong in (lambda *a: 0, lambda **a: 0, 3, "light", later):
        with pytest.raises(TypeError):
            cria._tools.tool_of(wrong)


class Color(enum.Enum):
    RED = "red"
    NONE = None
    TWO = 2


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 10


def paint(color: Color, size: Optional[Size] = None, more: list[Color] = (), kind: Literal["a", Color.TWO] = "a") -> str:
    return repr((color, size, list(more), kind))


def test_enumerations_are_told_by_their_values_and_given_as_members():
    properties = cria._tools.tool_of(paint)["function"]["parameters"]["properties"]
    assert properties == {"color": {"enum": ["red", None, 2]}, "size": {"anyOf": [{"enum": [1, 10]}, {"type": "null"}]},
                          "more": {"type": "array", "items": {"enum": ["red", None, 2]}}, "kind": {"enum": ["a", 2]}}
    arguments = {"color": "red", "size": 10, "more": [2, "red"], "kind": 2}
    assert cria._tools.run_call(paint, arguments) == repr((Color.RED, Size.LARGE, [Color.TWO, Color.RED], Color.TWO))
    assert cria._tools.run_call(paint, {"color": None, "size": None, "kind": "a"}) == repr((Color.NONE, None, [], "a"))
    assert cria._tools.run_call(paint, {"color": "blue", "size": True}) == repr(("blue", True, [], "a"))  # not held to the schema

    def wrong(a: Literal[b"x"]) -> None: ...

    with pytest.raises(TypeError, match="JSON value"):
        cria._tools.tool_of(wrong)


def test_lone_surrogates_of_calls_and_results_are_replaced(tooled):
    calls = [{"id": "a\udc00", "function": {"name": "light", "arguments": {"room": "x\ud800y"}}}]
    said = [{"role": "user", "content": "light"}, {"role": "assistant", "content": "\ud83d", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a\udc00", "content": "\ud83d\ude00\ud800"}]
    read = json.loads(cria._requests.json_of("the messages", cria._requests.read_parts(said)))
    assert read[1]["tool_calls"][0] == {"id": "a\ufffd", "function": {"name": "light", "arguments": {"room": "x\ufffdy"}}}
    assert (read[1]["content"], read[2]["content"], read[2]["tool_call_id"]) == ("\ufffd", "\U0001f600\ufffd", "a\ufffd")
    with cria.Model(tooled) as opened:
        assert isinstance(opened.chat(said, tools=[light], tool_choice="none", seed=1, max_tokens=8), cria.Answer)

        def broken(n: int) -> str:
            """Breaks."""
            return "\ud800"

        cria.run_tools(opened, "break", [broken], most_rounds=2, tool_choice="required", seed=1, max_tokens=60)


def test_calls_of_a_conversation_have_ids_of_their_own(tooled):
    with cria.Model(tooled) as opened:
        first = opened.chat("light", tools=[light], tool_choice="required", seed=5, max_tokens=300)
        said = [{"role": "user", "content": "light"}, first.message,
                *({"role": "tool", "tool_call_id": call.id, "content": "done"} for call in first.calls)]
        second = opened.chat(said, tools=[light], tool_choice="required", seed=5, max_tokens=300)
        ids = [call.id for call in first.calls + second.calls]
        assert first.calls and second.calls and len(set(ids)) == len(ids)


NO_RESULTS = """{%- if tools %}<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>{% endif %}
{%- for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no results') }}{% endif %}
{%- if m.tool_calls %}[assistant]<tool_call>
{"name": "{{ m.tool_calls[0].function.name }}", "arguments": {{ m.tool_calls[0].function.arguments | tojson }}}
</tool_call>{% else %}[{{ m.role }}]{{ m.content }}{% endif %}</s>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"""


def test_a_model_without_tools_or_template_says_what_to_do(demo, tmp_path):
    with cria.Model(demo) as opened, pytest.raises(cria.CriaError, match="writes calls of tools; .* --chat-template$"):
        opened.chat("light", tools=[light])
    path = tmp_path / "bare.cria"
    subprocess.run([str(BINARIES / "cria-convert"), str(SOURCE / "models/demo"), "-o", str(path), "--quiet", "--chat-template", "none"],
                   check=True, timeout=cli.PATIENCE_S)
    with cria.Model(path) as opened, pytest.raises(cria.CriaError, match="no chat template; .* --chat-template NAME") as raised:
        opened.chat("hello")
    assert raised.value.status is cria.Status.CRIA_NO_CHAT_TEMPLATE


def test_a_template_without_results_is_refused_by_all(tmp_path):
    """cria serve, cria run and Python ask one rule."""
    path = with_template(tmp_path, NO_RESULTS)
    why = "its chat template has no place for tools, or none for what calls came to"
    with cria.Model(path) as opened, pytest.raises(cria.CriaError, match=why):
        opened.chat("light", tools=[light])
    (tmp_path / "tools.json").write_text(json.dumps([cria._tools.tool_of(light)]))
    for command in (("run", path, "-p", "light"), ("chat", path)):
        made = subprocess.run([str(BINARIES / "cria"), *map(str, command), "--tools", str(tmp_path / "tools.json")], input=b"light\n",
                              capture_output=True, timeout=cli.PATIENCE_S, check=False)
        assert made.returncode == 3 and why in made.stderr.decode(), made.stderr


def test_calls_are_held_to_their_tools(tooled):
    with cria.Model(tooled) as opened:
        for seed in range(6):
            answer = opened.chat("light", tools=[light], tool_choice="required", seed=seed, temperature=1.5, max_tokens=300)
            assert answer.calls and answer == ""
            assert answer.finish_reason in ("tool_calls", "length")
            for call in answer.calls:
                assert call.name == "light" and call.arguments["room"] in ("kitchen", "hall")
                assert isinstance(call.arguments.get("level", 0), int)
        named = opened.chat("light", tools=[light, many_tool()], tool_choice="many", seed=1, max_tokens=300)
        assert {call.name for call in named.calls} == {"many"}
        assert opened.chat("light", tools=[light], tool_choice="none", seed=1).calls == ()
        for choice in ("lamp", ""):
            with pytest.raises(ValueError, match=f"tool_choice is '{choice}', not auto, none, required or the name of a tool: light"):
                opened.chat("light", tools=[light], tool_choice=choice)
        with pytest.raises(ValueError, match="not both"):
            opened.chat("light", tools=[light], schema=OBJECT)


def with_template(tmp_path, template):
    """The demo with another chat template."""
    (tmp_path / "template.jinja").write_text(template)
    path = tmp_path / "model.cria"
    subprocess.run([str(BINARIES / "cria-convert"), str(SOURCE / "models/demo"), "-o", str(path), "--quiet", "--chat-template",
                    str(tmp_path / "template.jinja")], check=True, timeout=cli.PATIENCE_S)
    return path


def test_nothing_of_a_marker_is_told_wherever_it_is_cut(tmp_path):
    with cria.Model(with_template(tmp_path, cli.WIDE_MARKERS), threads=1) as opened:
        for n_tokens in range(1, 40):
            answer = opened.chat("light", tools=[light], tool_choice="required", seed=1, max_tokens=n_tokens)
            assert (n_tokens, answer, answer.finish_reason) == (n_tokens, "", "length")


def test_ids_of_another_kind_than_the_templates_are_replaced(tmp_path):
    """As the server does it (server_tools_test); those that fit stay."""
    path = with_template(tmp_path, cli.IDS_OF_NINE)

    def history(identity):
        call = {"type": "function", "function": {"name": "light", "arguments": {"room": "hall"}}, **identity}
        return [{"role": "user", "content": "light"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "15", **({"tool_call_id": identity["id"]} if identity else {})}]

    def answer_to(identity):
        answer = opened.chat(history(identity), tools=[light], tool_choice="none", seed=3, max_tokens=20)
        return answer, opened.chat(history(identity), tools=[light], tool_choice="none", seed=3, max_tokens=1).n_read
    with cria.Model(path) as opened:
        wanted = answer_to({"id": "call00000"})
        assert answer_to({"id": "call_of_another_kind"}) == answer_to({}) == wanted
        assert answer_to({"id": "abcdefghi"})[0] != wanted[0]
        said = history({})
        said[1]["tool_calls"] = []
        with pytest.raises(cria.CriaError, match="the chat template ") as raised:
            opened.chat(said, tools=[light])
        assert raised.value.status is cria.Status.CRIA_REFUSED_BY_TEMPLATE


def test_a_strict_tool_that_is_not_understood_is_named_as_by_the_server(tooled):
    odd = {"type": "object", "properties": {"a/b": {"type": "object", "patternProperties": {"x": {}}}}}
    tools = [light, {"type": "function", "function": {"name": "odd", "strict": True, "parameters": odd}}]
    with cria.Model(tooled) as opened, pytest.raises(cria.SchemaError) as raised:
        opened.chat("light", tools=tools)
    assert str(raised.value).startswith("tool 2 ('odd'): in /parameters/properties/a~1b: \"patternProperties\" is not supported")
    assert raised.value.keyword == "patternProperties" and raised.value.offset > 0


def test_what_is_wrong_with_tools_is_named(tooled):
    def refuses(why, messages="light", error=ValueError, **asked_for):
        with pytest.raises(error) as raised:
            opened.chat(messages, **{"tools": [light], **asked_for})
        assert why in str(raised.value)
    deep = {}
    for _ in range(40):
        deep = {"a": deep}
    said = {"role": "user", "content": "light"}
    with cria.Model(tooled) as opened:
        refuses("tool 2 is called 'light', as one before it; give each its own name", tools=[light, light])
        refuses("tool 2 is no function with a name; give", tools=[light, {"name": "many"}])
        refuses("tool 1 has no name of 1 to 128 bytes", tools=[{"type": "function", "function": {"name": ""}}])
        refuses("tool 1 ('many') has a strict that is neither true nor false",
                tools=[{"type": "function", "function": {"name": "many", "strict": "yes"}}])
        refuses("tool 1 is of the type 'retrieval'; only functions are known", tools=[{"type": "retrieval", "function": {"name": "many"}}])
        refuses("the tools: set is no type of JSON", tools=[{"type": "function", "function": {"name": "many", "parameters": {1}}}])
        refuses("tools is a list of functions or dicts, not function", error=TypeError, tools=light)
        refuses("a tool is a function or a dict, not partial", error=TypeError, tools=[functools.partial(light)])
        refuses("tool_choice is str, not dict", error=TypeError, tool_choice={"type": "function"})
        refuses("tool_choice is 'required', and there are no tools", tools=[], tool_choice="required")
        refuses("tool 2 ('deep'): the chat template needs tools that are JSON objects", error=cria.CriaError,
                tools=[light, {"type": "function", "function": {"name": "deep", "parameters": deep}}])

        def history(arguments, role="assistant", **more):
            call = {"id": "a", "function": {"name": "light", "arguments": arguments}}
            return [said, {"role": role, "content": "", "tool_calls": [call], **more}, {"role": "tool", "tool_call_id": "a", "content": "1"}]
        refuses("the messages: Out of range float values are not JSON compliant", history({"level": float("inf")}))
        for wrong in ([1], "[1]", "{a", 7):
            refuses("message 2 has a call of 'light' whose arguments are not a JSON object", history(wrong))
        refuses("message 2 has calls, which only an assistant makes", history("{}", role="user"))
        refuses("message 2 has images; this model reads only text", history("{}", images=["a"]))
        refuses("message 1 has no content", [{"role": "user", "content": None}])
        told = opened.chat(history({}), tools=[light], tool_choice="none", seed=1, max_tokens=8)
        assert opened.chat(history(" "), tools=[light], tool_choice="none", seed=1, max_tokens=8) == told
        older = history({})
        older[1] = {"role": "assistant", "content": None, "function_call": {"name": "light", "arguments": "{}"}}
        older[2] = {"role": "function", "name": "light", "content": "1"}
        assert opened.chat(older, tools=[light], tool_choice="none", seed=1, max_tokens=8) == told


def many_tool():
    return {"type": "function", "function": {"name": "many", "parameters": {"type": "object", "properties": {"n": {"enum": [1, 2]}},
                                                                             "required": ["n"]}}}


def test_a_stream_joins_to_the_answer_and_gives_its_calls(tooled):
    with cria.Model(tooled) as opened:
        asked_for = {"tools": [light], "seed": 3, "temperature": 0.7, "tool_choice": "required", "max_tokens": 300}
        whole = opened.chat("hello", **asked_for)
        with opened.chat("hello", stream=True, **asked_for) as stream:
            text = "".join(stream)
        assert (text, stream.answer.calls, stream.finish_reason) == (str(whole), whole.calls, whole.finish_reason)
        assert pickle.loads(pickle.dumps(whole)).calls == whole.calls


def test_results_are_told_and_rounds_are_bounded(tooled):
    seen = []

    def lamp(room: Literal["hall"]) -> str:
        """Sets a lamp."""
        seen.append(room)
        if len(seen) == 2:
            raise KeyError("no such room")
        return "done"

    with cria.Model(tooled) as opened:
        answer = cria.run_tools(opened, "lamp", [lamp], most_rounds=3, tool_choice="required", seed=1, max_tokens=120)
        assert len(seen) >= 2 and set(seen) == {"hall"} and answer.calls
        history = [{"role": "user", "content": "lamp"}]
        first = opened.chat(history, tools=[lamp], tool_choice="required", seed=1, max_tokens=120)
        history += [first.message, *({"role": "tool", "tool_call_id": call.id, "content": "done"} for call in first.calls)]
        assert isinstance(opened.chat(history, tools=[lamp], tool_choice="none", seed=1), cria.Answer)
        with pytest.raises(ValueError):
            cria.run_tools(opened, "lamp", [lamp], most_rounds=0)


def test_a_model_without_tools_says_so(model):
    with pytest.raises(cria.CriaError):
        model.chat("light", tools=[light])
    assert model.chat("hello", temperature=0, thinking=False) == model.chat("hello", temperature=0)


LONG_TOOL = {"type": "function", "function": {"name": "qzx_" + "wvk_jq" * 9, "parameters": {
    "type": "object", "properties": {"zq" * 20: {"enum": ["kitchen", "hall"]}, "n": {"type": "integer"}}, "required": ["zq" * 20, "n"]}}}


@pytest.mark.parametrize("tool", [cria._tools.tool_of(light), LONG_TOOL], ids=["light", "long"])
def test_the_program_calls_the_same(tooled, tmp_path, tool):
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    said = program("run", tooled, "-p", "light", "--tools", tmp_path / "tools.json", "--tool-choice", "required", "--seed", 5, "--threads", 1,
                   "-n", 300)
    with cria.Model(tooled, threads=1) as opened:
        answer = opened.chat("light", tools=[tool], tool_choice="required", seed=5, max_tokens=300)
    assert answer.calls
    assert [json.loads(line) for line in said.decode().splitlines()] == [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
