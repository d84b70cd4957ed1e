"""Tools: Python functions as a model is told of them, and the calls that it answers with."""
from __future__ import annotations

import collections.abc
import ctypes
import enum
import inspect
import json
import re
import types
import typing
from typing import Any, Callable, Iterator, Literal, Mapping, Optional, Sequence, Union

from . import _structs as s
from ._calls import Memory, check, error_of, problem_text, schema_error
from ._engine import Engine
from ._errors import CriaError
from ._native import lib
from ._requests import check_type, json_of
from ._results import Call

Tool = Union[Callable[..., Any], Mapping[str, Any]]
Tools = Sequence[Tool]

_HOLD_BYTES = 1 << 16
_MOST_FORCED = 16  # as the other programs ask for: it decides how text is cut into tokens
_WRITES_CALLS, _WRITES_THINKING = 1, 2
_CHOICES = {"auto": 0, "none": 1, "required": 2}
_NAMED = 3
_WRONG_USE = 2  # the exit code of a usage error
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_PARAMETER = re.compile(r"^\s*(?::param(?:\s+\S+)?\s+(\w+):|(\w+)(?:\s*\([^)]*\))?:)\s*(.*)$")


# Functions as tools ---------------------------------------------------------------------------------------------------


def _schema_of_type(hint: Any) -> dict[str, Any]:
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": [_value_of(each, hint) for each in arguments]}
    if origin in (Union, getattr(types, "UnionType", Union)):
        return {"anyOf": [_schema_of_type(each) for each in arguments]}
    if origin in (list, tuple, set, collections.abc.Sequence, collections.abc.Iterable) or hint in (list, tuple, set):
        items = [each for each in arguments if each is not Ellipsis]
        return {"type": "array", "items": _schema_of_type(items[0])} if len(items) == 1 else {"type": "array"}
    if origin in (dict, collections.abc.Mapping) or hint is dict:
        return {"type": "object"}
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return {"enum": [_value_of(each, hint) for each in hint]}
    if hint in (Any, inspect.Parameter.empty):
        return {}
    raise TypeError(f"{hint!r} has no JSON schema; give the tool as a dict")


def _value_of(choice: Any, hint: Any) -> Any:
    """What a model writes for one of the choices of a hint."""
    value = choice.value if isinstance(choice, enum.Enum) else choice
    if not isinstance(value, (str, int, float, type(None))):
        raise TypeError(f"{hint!r}: {value!r} is not a JSON value for a choice; give the tool as a dict")
    return value


def _is_choice(value: Any, choice: Any, hint: Any) -> bool:
    known = _value_of(choice, hint)
    return isinstance(value, bool) == isinstance(known, bool) and bool(value == known)


def _argument_of(value: Any, hint: Any) -> Any:
    """A JSON value as a hint has it: members of enumerations in place of their values, also in lists and dicts."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    is_enum = inspect.isclass(hint) and issubclass(hint, enum.Enum)
    if is_enum or origin is Literal:
        return next((each for each in (hint if is_enum else arguments) if _is_choice(value, each, hint)), value)
    if origin in (Union, getattr(types, "UnionType", Union)):
        told = (_argument_of(value, each) for each in arguments)
        return next((each for each in told if each is not value), value)
    items = [each for each in arguments if each is not Ellipsis]
    if isinstance(value, list) and len(items) == 1:
        return [_argument_of(each, items[0]) for each in value]
    if isinstance(value, dict) and len(arguments) == 2:
        return {key: _argument_of(each, arguments[1]) for key, each in value.items()}
    return value


def run_call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Calls a function with a call's arguments, as its hints have them."""
    hints = typing.get_type_hints(function)
    return function(**{name: _argument_of(value, hints.get(name, Any)) for name, value in arguments.items()})


def _described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """A docstring's first paragraph, and what it says of each parameter (Google's style, or :param name:)."""
    lines = (inspect.getdoc(function) or "").splitlines()
    end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    found: dict[str, str] = {}
    last: Optional[str] = None
    for line in lines[end:]:
        match = _PARAMETER.match(line)
        if match:
            last = match[1] or match[2]
            found[last] = match[3].strip()
        elif last is not None and line.strip():
            found[last] += " " + line.strip()
        else:
            last = None
    return " ".join(line.strip() for line in lines[:end]), found


def tool_of(tool: Tool) -> dict[str, Any]:
    """{"type": "function", "function": {...}}: of a function by its type hints and docstring; a dict as it is."""
    if isinstance(tool, Mapping):
        return dict(tool)
    if not (inspect.isroutine(tool) or inspect.isclass(tool)):
        raise TypeError(f"a tool is a function or a dict, not {type(tool).__name__}")
    if inspect.iscoroutinefunction(tool) or inspect.isasyncgenfunction(tool):
        raise TypeError(f"{tool.__name__} is async: nobody would await its result; give a function that returns it")
    hints = typing.get_type_hints(tool)
    description, parameters = _described(tool)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in inspect.signature(tool).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{tool.__name__}: the parameter {name} cannot be given by name")
        properties[name] = _schema_of_type(hints.get(name, parameter.annotation))
        if name in parameters:
            properties[name]["description"] = parameters[name]
        if parameter.default is parameter.empty:
            required.append(name)
    function: dict[str, Any] = {"name": tool.__name__}
    if description:
        function["description"] = description
    function["parameters"] = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": function}


def _known_names(told: Sequence[Mapping[str, Any]]) -> list[str]:
    functions = [tool.get("function") for tool in told]
    names = [function.get("name") for function in functions if isinstance(function, Mapping)]
    return [name for name in names if isinstance(name, str)]


def read_tools(tools: Optional[Tools], choice: str) -> list[dict[str, Any]]:
    """Tools as JSON has them, and a choice that they allow."""
    if tools is not None and (isinstance(tools, (str, Mapping)) or not isinstance(tools, collections.abc.Iterable)):
        raise TypeError(f"tools is a list of functions or dicts, not {type(tools).__name__}")
    check_type("tool_choice", choice, str)
    told = [tool_of(tool) for tool in tools or []]
    names = _known_names(told)
    if choice not in _CHOICES and choice not in names:
        known = ", ".join(names) or "there are none"
        raise ValueError(f"tool_choice is {choice!r}, not auto, none, required or the name of a tool: {known}")
    if choice == "required" and not told:
        raise ValueError("tool_choice is 'required', and there are no tools; give tools")
    return told


# Conversations --------------------------------------------------------------------------------------------------------


class Conversation:
    """A conversation with tools, calls and results, as JSON: the host reads it."""

    def __init__(self, messages: list[Any], tools: list[dict[str, Any]], thinking: Optional[bool]) -> None:
        self.tools = json_of("the tools", tools) if tools else b""
        said = b'{"messages": ' + json_of("the messages", messages)
        if tools:
            said += b', "tools": ' + self.tools
        if thinking is not None:
            said += b', "chat_template_kwargs": ' + json_of("thinking", {"enable_thinking": thinking})
        self._text = said + b"}"
        self.n_calls = 0  # known when it was read

    def encode(self, engine: Engine) -> tuple[list[int], bytes]:
        """Its tokens, and the template's text after the last message."""
        problem = s.HostProblem()
        read = lib.cria_host_conversation_read(ctypes.byref(engine.host), self._text, len(self._text), ctypes.byref(problem))
        if not read:
            if problem.exit_code == _WRONG_USE and problem.status == s.Status.CRIA_OK:
                raise ValueError(problem.message.decode(errors="replace"))
            raise error_of(problem, f"{engine.path}: ")
        try:
            parts = ctypes.cast(read.contents.parts, ctypes.POINTER(s.MessagePartsStruct))
            self.n_calls = sum(parts[i].n_calls for i in range(read.contents.n_messages))
            return self._encode(engine, read)
        finally:
            lib.cria_host_conversation_close(read)

    @staticmethod
    def _encode(engine: Engine, conversation: Any) -> tuple[list[int], bytes]:
        workspace = engine.host.workspace
        n = ctypes.c_size_t()
        tokens = (ctypes.c_uint32 * lib.cria_context(engine.host.session))()
        check(lib.cria_encode_chat(workspace, conversation, 0, tokens, len(tokens), ctypes.byref(n)), engine.path)
        ids = tokens[:n.value]
        lib.cria_chat_opening(workspace, conversation, None, 0, ctypes.byref(n))
        opened = ctypes.create_string_buffer(n.value + 1)
        check(lib.cria_chat_opening(workspace, conversation, opened, n.value, ctypes.byref(n)), engine.path)
        return ids, opened.raw[:n.value]


# Answers --------------------------------------------------------------------------------------------------------------


class CallWriting:
    """How a model writes calls and thinking; of a model's file."""

    def __init__(self, engine: Engine) -> None:
        n = ctypes.c_size_t()
        model = engine.host.model
        address = lib.cria_call_format(model, ctypes.byref(n))
        self.format = ctypes.string_at(address, n.value) if address else b""
        self.writes = int(lib.cria_calls_written(self.format, len(self.format))) if self.format else 0
        self.markers = frozenset(self._special(engine)) if self.format else frozenset()

    def _special(self, engine: Engine) -> Iterator[int]:
        n = ctypes.c_size_t()
        for token in range(engine.vocab_size):
            if lib.cria_token_is_special(engine.host.model, token):
                text = lib.cria_token_text(engine.host.model, token, ctypes.byref(n))
                if n.value > 1 and ctypes.string_at(text, n.value) in self.format:
                    yield token

    def need_calls(self, engine: Engine) -> s.HostCalls:
        """How many calls an answer may make, as the programs have it."""
        if not self.writes & _WRITES_CALLS:
            raise CriaError(f"{engine.path}: does not say how the model writes calls of tools; convert a checkpoint whose chat template "
                            "has tools, or give one with --chat-template", "UNSUPPORTED")
        taken = s.HostCalls(lib.cria_host_calls_taken(ctypes.byref(engine.host)))
        if taken is s.HostCalls.NO_CALLS:
            raise CriaError(f"{engine.path}: the model calls no tools: its chat template has no place for tools, or none for what calls "
                            "came to", "UNSUPPORTED")
        return taken


class CallReader:
    """Takes an answer's text apart."""

    def __init__(self, writing: CallWriting, tools: bytes, opened: bytes, takes_calls: bool, n_known: int = 0) -> None:
        self.thinking = ""
        self._n_known = n_known  # calls of the conversation so far, whose ids are not given again
        self.calls: list[Call] = []
        self._text = ""
        self._open: Optional[list[str]] = None  # id, name, arguments of a call
        self._arguments = (writing.format, len(writing.format), tools or None, len(tools), _HOLD_BYTES)
        n = ctypes.c_size_t()
        check(lib.cria_calls_required(*self._arguments, ctypes.byref(n)), "the tools")
        self._memory, self._reader = Memory(n.value), ctypes.c_void_p()
        check(lib.cria_calls_make(self._memory.address, n.value, *self._arguments, ctypes.byref(self._reader)), "the tools")
        lib.cria_calls_take(self._reader, int(takes_calls))
        check(lib.cria_calls_begin(self._reader, opened, len(opened)))
        self._tell = s.CALLS_TELL(self._take)  # kept alive

    def _take(self, _: Any, event: Any) -> None:
        told = event.contents
        text = ctypes.string_at(told.text, told.n_bytes).decode() if told.n_bytes else ""
        kind = s.CallsKind(told.kind)
        if kind is s.CallsKind.TEXT:
            self._text += text
        elif kind is s.CallsKind.THINKING:
            self.thinking += text
        elif kind is s.CallsKind.BEGIN:
            written = ctypes.string_at(told.id, told.n_id).decode() if told.n_id else ""
            self._open = [written or f"call{(self._n_known + len(self.calls)) % 100000:05}", text, ""]
        elif kind is s.CallsKind.ARGUMENTS and self._open is not None:
            self._open[2] += text
        elif kind is s.CallsKind.END and self._open is not None:
            self.calls.append(Call(self._open[0], self._open[1], json.loads(self._open[2])))
            self._open = None
        else:
            self._open = None

    def feed(self, text: str) -> str:
        """What of it is text for people."""
        data = text.encode()
        check(lib.cria_calls_read(self._reader, data, len(data), self._tell, None))
        told, self._text = self._text, ""
        return told

    def finish(self, is_cut: bool) -> str:
        ending = ctypes.c_int()
        check(lib.cria_calls_finish(self._reader, int(is_cut), self._tell, None, ctypes.byref(ending)))
        told, self._text = self._text, ""
        return told


class CallGuide:
    """Holds an answer to calls of the tools; as Guide."""

    def __init__(self, engine: Engine, vocabulary: ctypes.c_void_p, writing: CallWriting, tools: bytes, opened: bytes, choice: str,
                 taken: s.HostCalls) -> None:
        self._engine = engine
        order = s.CallOrder()
        order.format, order.n_format = writing.format, len(writing.format)
        order.tools, order.n_tools = tools, len(tools)
        name = b""
        if choice in _CHOICES:
            order.choice = _CHOICES[choice]
        else:
            order.choice, name = _NAMED, choice.encode()
        order.name, order.n_name = name, len(name)
        order.one_call = int(taken is s.HostCalls.ONE_CALL)
        order.thinks = int(bool(writing.writes & _WRITES_THINKING))
        n, problem = ctypes.c_size_t(), s.CallProblem()
        self._check(lib.cria_call_grammar_required(vocabulary, ctypes.byref(order), ctypes.byref(n), ctypes.byref(problem)), problem, tools)
        self._memory, self._grammar = Memory(n.value), ctypes.c_void_p()
        self._check(lib.cria_call_grammar_make(self._memory.address, n.value, vocabulary, ctypes.byref(order), ctypes.byref(self._grammar),
                                               ctypes.byref(problem)), problem, tools)
        self._state = s.CallState()
        check(lib.cria_call_grammar_begin(self._grammar, opened, len(opened), ctypes.byref(self._state)))

    @property
    def n_bytes(self) -> int:
        return self._memory.n_bytes

    @staticmethod
    def _check(status: int, problem: s.CallProblem, tools: bytes) -> None:
        if status == s.Status.CRIA_OK:
            return
        if not problem.schema.reason:
            check(status, f"the tool {problem.tool.decode(errors='replace')!r}" if problem.tool else "the tools")
        raise schema_error(status, problem.schema, problem_text(lib.cria_host_call_problem_text, problem, tools))

    def mask(self) -> None:
        host = self._engine.host
        check(lib.cria_call_grammar_mask(self._grammar, ctypes.byref(self._state), lib.cria_logits(host.session), self._engine.vocab_size))

    def accept(self, token: int) -> None:
        check(lib.cria_call_grammar_accept(self._grammar, ctypes.byref(self._state), token))

    def is_closed(self) -> bool:
        progress: int = lib.cria_call_grammar_progress_of(self._grammar, ctypes.byref(self._state))
        return progress == s.CallProgress.CLOSED

    def forced(self) -> list[int]:
        """Tokens that must follow."""
        n, tokens = ctypes.c_size_t(), (ctypes.c_uint32 * _MOST_FORCED)()
        check(lib.cria_call_grammar_forced_tokens(self._grammar, ctypes.byref(self._state), self._engine.host.workspace, tokens,
                                                  len(tokens), ctypes.byref(n)))
        return tokens[:n.value]
