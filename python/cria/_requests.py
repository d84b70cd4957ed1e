"""What callers ask for, checked, in the library's words."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import math
import numbers
import operator
import secrets
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from . import _structs as s

Message = Mapping[str, Any]
Messages = Union[str, Sequence[Message]]
Schema = Union[bool, str, Mapping[str, Any]]
Stops = Union[str, Sequence[str]]
DrawingValue = Union[None, float, Mapping[int, float]]  # of one of Drawing's members

_ROLES = {"system": s.Role.SYSTEM, "developer": s.Role.SYSTEM, "user": s.Role.USER, "assistant": s.Role.ASSISTANT}

# What can be asked for of how tokens are drawn, as the cria program has it (platforms/hosted/session/sampling_bounds.h).
BOUNDS = {"temperature": (0, 100), "top_p": (0, 1), "min_p": (0, 1), "repeat_penalty": (0, 10), "frequency_penalty": (-10, 10),
          "presence_penalty": (-10, 10), "top_k": (0, (1 << 31) - 1), "max_tokens": (1, (1 << 31) - 1)}

# What Model takes, as the cria program does.
MOST_POSITIONS = 1 << 24
MOST_THREADS = 256
MOST_CHUNK = 4096


def _wrong_type(name: str, value: Any, wanted: str) -> TypeError:
    return TypeError(f"{name} is {wanted}, not {type(value).__name__}")


def check_type(name: str, value: Any, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise _wrong_type(name, value, wanted.__name__)


def count_of(name: str, value: Any, low: int, high: int) -> int:
    """A whole number of a range."""
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise _wrong_type(name, value, "int") from None
    if not low <= count <= high:
        raise ValueError(f"{name} is {count}, not from {low} to {high}")
    return count


def _real_of(name: str, value: Any) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise _wrong_type(name, value, "float")
    try:
        return float(value)
    except OverflowError:  # an int
        return math.copysign(math.inf, 1 if operator.gt(value, 0) else -1)


def _between(name: str, value: Any, low: float, high: float) -> float:
    number = _real_of(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name} is {value}, not from {low} to {high}")
    return number


def _text_of(content: Any) -> str:
    """A message's content: a string, or a list of {"type": "text", "text": ...}."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = [part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    raise ValueError("a message's content is a string or a list of text parts")


def _whole(text: str) -> bytes:
    """UTF-8; a surrogate without its other half, which only text of a model or a tool has, is U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def read_messages(messages: Messages) -> list[tuple[s.Role, bytes]]:
    """Roles and texts; a string is one question. The last one is the user's, a system text can only come first."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if isinstance(messages, (bytes, bytearray, Mapping)) or not isinstance(messages, Iterable):
        raise _wrong_type("messages", messages, "str or a list of dict")
    read = []
    for message in messages:
        if not isinstance(message, Mapping):
            raise _wrong_type("a message", message, "dict")
        role = message.get("role")
        if role not in _ROLES:
            raise ValueError(f"role is {role!r}, not one of {', '.join(_ROLES)}")
        read.append((_ROLES[role], _text_of(message.get("content")).encode()))
    if not read:
        raise ValueError("there are no messages; the last one is the user's")
    if read[-1][0] != s.Role.USER:
        raise ValueError("the last message is the user's")
    if any(role == s.Role.SYSTEM for role, _ in read[1:]):
        raise ValueError("a system text can only be the first message")
    return read


def _needs_parts(message: Message) -> bool:
    """Whether a message has more than a role and a text."""
    return message.get("role") in ("tool", "function") or any(
        message.get(name) for name in ("tool_calls", "function_call", "images", "reasoning_content", "reasoning", "thinking"))


def have_parts(messages: Messages) -> bool:
    """Whether a conversation has calls, results or thinking."""
    return not isinstance(messages, (str, bytes, bytearray, Mapping)) and isinstance(messages, Iterable) and any(
        isinstance(message, Mapping) and _needs_parts(message) for message in messages)


def json_of(what: str, value: Any) -> bytes:
    """JSON; mappings and sequences of any kind are objects and lists."""
    def plain(other: Any) -> Any:
        if isinstance(other, Mapping):
            return dict(other)
        if isinstance(other, Sequence):
            return list(other)
        raise ValueError(f"{type(other).__name__} is no type of JSON")
    try:
        return _whole(json.dumps(value, ensure_ascii=False, allow_nan=False, default=plain))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: {error}") from None


def read_parts(messages: Messages) -> list[Message]:
    """Messages with calls, results and thinking: the host reads them."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for message in messages:
        check_type("a message", message, Mapping)
    if not messages:
        raise ValueError("there are no messages")
    return [dict(message) for message in messages]


def read_thinking(thinking: Optional[bool]) -> Optional[bool]:
    if thinking is not None:
        check_type("thinking", thinking, bool)
    return thinking


def read_schema(schema: Optional[Schema]) -> Optional[bytes]:
    """The schema's text; empty for any JSON value. None: the answer is free."""
    if schema is None or schema is False:
        return None
    if schema is True:
        return b""
    if not isinstance(schema, (str, Mapping)):
        raise _wrong_type("schema", schema, "bool, str or dict")
    text = schema if isinstance(schema, str) else json.dumps(dict(schema))
    if not text:
        raise ValueError("the schema is empty; True stands for any JSON value")
    return text.encode()


def read_stops(stop: Optional[Stops]) -> list[str]:
    """Texts that end an answer; empty ones are ignored."""
    if isinstance(stop, (bytes, bytearray, Mapping)) or not isinstance(stop, (type(None), Iterable)):
        raise _wrong_type("stop", stop, "str or a list of str")
    stops = [stop] if isinstance(stop, str) else [] if stop is None else list(stop)
    for text in stops:
        check_type("a stop text", text, str)
    return [text for text in stops if text]


@dataclasses.dataclass(frozen=True)
class Drawing:
    """How tokens are drawn. The defaults are those of `cria chat` and `cria run`."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: Optional[int] = None
    logit_bias: Optional[Mapping[int, float]] = None

    def sampling(self, vocab_size: int) -> s.Sampling:
        """cria_sampling; it keeps its biases alive."""
        drawn = s.Sampling()
        drawn.top_k = count_of("top_k", self.top_k, *BOUNDS["top_k"])
        for name in ("temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty"):
            setattr(drawn, name, _between(name, getattr(self, name), *BOUNDS[name]))
        if drawn.top_p == 0:  # the library's zero is "off"; here it is a sum that the likeliest token alone reaches
            drawn.top_k = 1
        if self.logit_bias is not None:
            check_type("logit_bias", self.logit_bias, Mapping)
        biases = [s.LogitBias(_token_of(token, vocab_size), _bias_of(bias)) for token, bias in (self.logit_bias or {}).items()]
        if len({each.token for each in biases if each.bias == -math.inf}) == vocab_size:  # what a schema leaves comes later
            raise ValueError("logit_bias forbids every token")
        if biases:
            drawn.biases = (s.LogitBias * len(biases))(*biases)
            drawn.n_biases = len(biases)
        return drawn

    def seed_number(self) -> int:
        """A random one where none was given."""
        if self.seed is None:
            return secrets.randbits(64)
        return count_of("seed", self.seed, 0, (1 << 64) - 1)


def read_drawing(caller: str, words: dict[str, Any], vocab_size: int) -> tuple[s.Sampling, int]:
    """What a call's other keywords ask for, and the seed."""
    for name in words:
        if name not in Drawing.__dataclass_fields__:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")
    drawing = Drawing(**words)
    return drawing.sampling(vocab_size), drawing.seed_number()


def limit_of(max_tokens: Optional[int]) -> int:
    """0: none."""
    return 0 if max_tokens is None else count_of("max_tokens", max_tokens, *BOUNDS["max_tokens"])


def _token_of(token: Any, vocab_size: int) -> int:
    return count_of("a token id", token, 0, vocab_size - 1)


def _bias_of(value: Any) -> float:
    bias = _real_of("a bias", value)
    if math.isnan(bias):
        raise ValueError("a bias is not a number")
    return bias


def token_array(tokens: Sequence[int], vocab_size: int) -> Any:
    """Tokens as the library reads them."""
    if isinstance(tokens, (str, bytes, bytearray)):
        raise _wrong_type("tokens", tokens, "a list of int")
    ids = [_token_of(token, vocab_size) for token in tokens]
    return (ctypes.c_uint32 * len(ids))(*ids)
