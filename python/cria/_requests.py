"""What callers ask for, checked, in the library's words."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import math
import secrets
from typing import Any, Mapping, Optional, Sequence, Union

from . import _structs as s

Message = Mapping[str, Any]
Messages = Union[str, Sequence[Message]]
Schema = Union[bool, str, Mapping[str, Any]]
Stops = Union[str, Sequence[str]]
DrawingValue = Union[None, float, Mapping[int, float]]  # of one of Drawing's members

_ROLES = {"system": s.Role.SYSTEM, "user": s.Role.USER, "assistant": s.Role.ASSISTANT}


def _between(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high or math.isnan(value):
        raise ValueError(f"{name} is {value}, not from {low} to {high}")
    return value


def _text_of(content: Any) -> str:
    """A message's content: a string, or a list of {"type": "text", "text": ...}."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = [part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in content]
        if all(isinstance(part, str) for part in parts):
            return "".join(map(str, parts))
    raise ValueError("a message's content is a string or a list of text parts")


def read_messages(messages: Messages) -> list[tuple[s.Role, bytes]]:
    """Roles and texts; a string is one question. The last one is the user's, a system text can only come first."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    read = []
    for message in messages:
        role = message.get("role")
        if role not in _ROLES:
            raise ValueError(f"role is {role!r}, not one of {', '.join(_ROLES)}")
        read.append((_ROLES[role], _text_of(message.get("content")).encode()))
    if not read or read[-1][0] != s.Role.USER:
        raise ValueError("the last message is the user's")
    if any(role == s.Role.SYSTEM for role, _ in read[1:]):
        raise ValueError("a system text can only be the first message")
    return read


def read_schema(schema: Optional[Schema]) -> Optional[bytes]:
    """The schema's text; empty for any JSON value. None: the answer is free."""
    if schema is None or schema is False:
        return None
    if schema is True:
        return b""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    if not text:
        raise ValueError("the schema is empty; True stands for any JSON value")
    return text.encode()


def read_stops(stop: Optional[Stops]) -> list[str]:
    """Texts that end an answer; empty ones are ignored."""
    stops = [stop] if isinstance(stop, str) else list(stop or ())
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

    def sampling(self) -> s.Sampling:
        """cria_sampling; it keeps its biases alive."""
        drawn = s.Sampling()
        drawn.temperature = _between("temperature", self.temperature, 0, 100)
        drawn.top_k = int(_between("top_k", self.top_k, 0, 1 << 21))
        drawn.top_p = _between("top_p", self.top_p, 0, 1)
        drawn.min_p = _between("min_p", self.min_p, 0, 1)
        drawn.repeat_penalty = _between("repeat_penalty", self.repeat_penalty, 1, 10)
        drawn.frequency_penalty = _between("frequency_penalty", self.frequency_penalty, -10, 10)
        drawn.presence_penalty = _between("presence_penalty", self.presence_penalty, -10, 10)
        if self.top_p == 0:  # the library's zero is "off"; here it is a sum that the likeliest token alone reaches
            drawn.top_k = 1
        biases = [s.LogitBias(int(token), float(bias)) for token, bias in (self.logit_bias or {}).items()]
        if biases:
            drawn.biases = (s.LogitBias * len(biases))(*biases)
            drawn.n_biases = len(biases)
        return drawn

    def seed_number(self) -> int:
        """A random one where none was given."""
        if self.seed is None:
            return secrets.randbits(64)
        return int(_between("seed", self.seed, 0, (1 << 64) - 1))


def limit_of(max_tokens: Optional[int]) -> int:
    """0: none."""
    return 0 if max_tokens is None else int(_between("max_tokens", max_tokens, 1, 1 << 24))


def token_array(tokens: Sequence[int], vocab_size: int) -> Any:
    """Tokens as the library reads them."""
    ids = [int(token) for token in tokens]
    for token in ids:
        if not 0 <= token < vocab_size:
            raise ValueError(f"token id {token} is not below {vocab_size}, the size of the vocabulary")
    return (ctypes.c_uint32 * len(ids))(*ids)
