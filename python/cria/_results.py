"""What a model says of itself, and what its answers are."""
from __future__ import annotations

import dataclasses
import json
from typing import Any, Callable, Generator, Iterator, NoReturn, Optional, Protocol


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a tool in an answer; id is how its result refers to it."""

    id: str
    name: str
    arguments: dict[str, Any]


class FloatArray(Protocol):
    """A numpy array of float32 where numpy is installed, else a memoryview of floats with the same shape."""

    @property
    def shape(self) -> Any:
        """(tokens, vocabulary), or (vocabulary,); of embeddings (texts, dimensions)."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any: ...

    def tolist(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class LayerKind:
    """Layers that are alike. What their mixer or feed-forward does not have is 0."""

    n_layers: int
    mixer: str  # "attention", ...
    feed_forward: str  # "dense", "experts"
    n_heads: int
    n_kv_heads: int
    n_states: int
    key_dim: int
    value_dim: int
    window: int  # a position attends to so many; 0: to all
    has_rope: bool
    original_context: int
    d_ff: int
    n_experts: int
    n_chosen: int
    expert_ff: int


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """What the file holds; numbers of bytes and of positions are those of `cria info`."""

    architecture: str
    weight_format: str
    embedding_format: str
    chat_template: str
    group_size: int
    n_parameters: int
    n_active_parameters: int
    n_layers: int
    d_model: int
    layer_kinds: tuple[LayerKind, ...]
    vocab_size: int
    max_context: int
    planned_context: int
    bos_token: Optional[int]
    format_version: int
    file_bytes: int
    weight_bytes: int
    active_bytes: int
    has_tokenizer: bool
    compressed: bool
    pooling: Optional[str]  # of a model of embeddings: "last", "mean" or "first", the tokens that they come from
    unit_embeddings: bool


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a model takes, known before its weights are read. None is taken afterwards but for what Python's
    results and the chat and schemas of the model need, which Model.extra_bytes counts."""

    model: int
    session: int
    kv_cache: int
    workspace: int
    loading: int
    total: int
    in_place: int


class Answer(str):
    """The text of an answer, and how it came to its end.

    calls: of tools, where the question had some. thinking: what the model thought first, where tools or thinking were asked
    for. finish_reason: "tool_calls", "stop" (the model ended it, a stop string was met, or the document of a schema is whole), "length"
    (max_tokens), "context" (no room is left), "closed" (the stream was closed).
    """

    finish_reason: str
    n_tokens: int
    n_read: int
    n_dropped: int
    thinking: str
    calls: tuple[Call, ...]

    def __new__(cls, text: str, ending: Ending) -> Answer:
        answer = super().__new__(cls, text)
        answer.finish_reason = ending.finish_reason
        answer.n_tokens = ending.n_tokens
        answer.n_read = ending.n_read
        answer.n_dropped = ending.n_dropped
        answer.thinking = ending.thinking
        answer.calls = ending.calls
        return answer

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message of the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": str(self)}
        if self.thinking:
            message["reasoning_content"] = self.thinking
        if self.calls:
            message["tool_calls"] = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                                     for call in self.calls]
        return message

    def __getnewargs__(self) -> tuple[str, Ending]:  # type: ignore[override]
        return str(self), Ending(self.finish_reason, self.n_tokens, self.n_read, self.n_dropped, self.thinking, self.calls)

    def json(self) -> Any:
        """The document of an answer with a schema."""
        if self.finish_reason != "stop":
            raise ValueError(f"the document is not finished: finish_reason is {self.finish_reason!r}")
        return json.loads(self)


@dataclasses.dataclass
class Ending:
    """Of an answer; filled while it is made."""

    finish_reason: str = "closed"
    n_tokens: int = 0  # of the answer
    n_read: int = 0  # of the prompt, without what the model's session held already
    n_dropped: int = 0  # exchanges that left a full context
    thinking: str = ""
    calls: tuple[Call, ...] = ()


class Stream(Iterator[str]):
    """An answer piece by piece. To stop it leave a `with` block, or close it; the model answers nothing else meanwhile."""

    def __init__(self, pieces: Generator[str, None, None], ending: Ending, step: Callable[[Callable[[], Any]], Any],
                 release: Callable[[Stream], None]) -> None:
        self._pieces = pieces
        self._ending = ending
        self._step = step
        self._release = release
        self._texts: list[str] = []
        self._is_open = True

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        if not self._is_open:
            raise StopIteration
        try:
            piece: str = self._step(lambda: next(self._pieces))
        except BaseException:
            self._end()
            raise
        self._texts.append(piece)
        return piece

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a stream cannot be copied or pickled; its answer can")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self.close()

    def close(self) -> None:
        """Ends the answer where it is. Safe to repeat."""
        if not self._is_open:
            return
        try:
            self._step(self._pieces.close)
        finally:
            self._end()

    def _end(self) -> None:
        self._is_open = False
        self._release(self)

    @property
    def answer(self) -> Answer:
        """What was said so far."""
        return Answer("".join(self._texts), self._ending)

    @property
    def finish_reason(self) -> Optional[str]:
        """As of Answer; None while the stream is open."""
        return None if self._is_open else self._ending.finish_reason


class StopStrings:
    """Finds the first of several texts in text that comes in pieces; what may become one is held back.

    The first is that which is complete first; of those that are complete with the same character it is the longest. So it
    does not depend on how the text was cut.
    """

    def __init__(self, stops: list[str]) -> None:
        self._stops = stops
        self._held = ""
        self.is_met = False

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        if not self._stops:
            return piece
        text = self._held + piece
        found = [(at + len(stop), at) for at, stop in ((text.find(stop), stop) for stop in self._stops) if at >= 0]
        if found:
            self.is_met = True
            self._held = ""
            return text[:min(found)[1]]
        n_held = max(self._overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - n_held:]
        return text[:len(text) - n_held]

    def rest(self) -> str:
        """What was held back, at the end."""
        held, self._held = self._held, ""
        return held

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """Characters at text's end that stop begins with."""
        most = min(len(text), len(stop) - 1)
        return next((n for n in range(most, 0, -1) if text.endswith(stop[:n])), 0)
