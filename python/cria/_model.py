"""A model, open."""
from __future__ import annotations

import ctypes
import functools
import json
import os
from typing import Any, Callable, Generator, Literal, NoReturn, Optional, Sequence, Union, overload

from . import _structs as s
from ._answers import Conversation, Order, completion_pieces, prompt_tokens
from ._calls import check
from ._documents import Documents
from ._engine import Engine
from ._native import lib
from ._requests import (MOST_CHUNK, MOST_POSITIONS, MOST_THREADS, DrawingValue, Messages, Schema, Stops, check_type, count_of,
                        have_parts, limit_of, read_drawing, read_messages, read_parts, read_schema, read_stops, read_thinking,
                        token_array)
from ._tools import CallGuide, CallReader, CallWriting, Conversation as TooledConversation, Tools, read_tools, run_call
from ._results import Answer, Ending, FloatArray, LayerKind, MemoryPlan, ModelInfo, StopStrings, Stream


_MIXERS = ("none", "attention", "latent_attention", "short_convolution", "delta_rule", "state_space")
_FEED_FORWARDS = ("none", "dense", "experts")
_MOST_ROWS = 256  # hidden ones that are held at once


def _layer_kind(info: s.ModelInfoStruct, index: int) -> LayerKind:
    found = s.LayerKindStruct()
    check(lib.cria_find_layer_kind(ctypes.byref(info), index, ctypes.byref(found)))
    return LayerKind(
        mixer=_MIXERS[found.mixer],
        feed_forward=_FEED_FORWARDS[found.feed_forward],
        has_rope=bool(found.has_rope),
        **{name: getattr(found, name) for name in (
            "n_layers", "n_heads", "n_kv_heads", "n_states", "key_dim", "value_dim", "window", "original_context", "d_ff", "n_experts",
            "n_chosen", "expert_ff")})


class Model:
    """A model file, open for answering. Its memory is taken here; close it, leave a `with` block, or forget it to give it
    back.

    Any thread may use a model; one call runs at a time, the others wait. While a stream is open other calls raise
    BusyError.

    path: a .cria file of cria-convert. context: positions; None: what the file plans. threads: None: the machine's fast
    cores. kv: "int8", "k8v4" or "f32"; "auto" is int8, and f32 with f32 weights. backend: "auto", "exact" or "xnnpack".
    prefill_chunk: tokens read at once. max_text_bytes: longest text encoded in one piece. mapped: False reads the file
    rather than mapping it: then it may be changed meanwhile, but its weights take memory. exact_context: when a
    conversation outgrows the context, what stays is read again (slow, the bits of a conversation that began there).
    """

    def __init__(self, path: Union[str, os.PathLike[str]], *, context: Optional[int] = None, threads: Optional[int] = None,
                 kv: str = "auto", backend: str = "auto", prefill_chunk: Optional[int] = None,
                 max_text_bytes: Optional[int] = None, mapped: bool = True, exact_context: bool = False) -> None:
        self.path = os.fspath(path)
        os.stat(self.path)  # FileNotFoundError and its like, as open() raises them
        check_type("mapped", mapped, bool)
        check_type("exact_context", exact_context, bool)
        options = s.HostOptions()
        for name, member, value, most in (("context", "context", context, MOST_POSITIONS),
                                          ("threads", "n_threads", threads, MOST_THREADS),
                                          ("prefill_chunk", "prefill_chunk", prefill_chunk, MOST_CHUNK),
                                          ("max_text_bytes", "max_text_bytes", max_text_bytes, (1 << 32) - 1)):
            setattr(options, member, 0 if value is None else count_of(name, value, 1, most))
        for name, names, choice in (("kv_format", s.KV_FORMATS, kv), ("backend", s.BACKENDS, backend)):
            check_type(name.removesuffix("_format"), choice, str)
            if choice not in names:
                raise ValueError(f"{choice!r} is not one of {', '.join(names)}")
            setattr(options, name, names[choice])
        options.never_map = not mapped
        self._engine = Engine(self.path, options)
        self._conversation = Conversation(self._engine, exact_context)
        self._documents = Documents(self._engine)

    # Its life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends an open stream and gives the memory back. Safe to repeat."""
        with self._engine.lock:
            self._engine.close()
            self._conversation.forget()
            self._documents.forget()

    def __enter__(self) -> Model:
        self._engine.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a model cannot be copied or pickled: open its file again")

    def __repr__(self) -> str:
        return f"cria.Model({self.path!r}{'' if self._engine.is_open else ', closed'})"

    def cancel(self) -> None:
        """From another thread: ends what runs, within the time of one layer, by CancelledError."""
        self._engine.cancel()

    # What it is -------------------------------------------------------------------------------------------------------

    @property
    def info(self) -> ModelInfo:
        """What the file holds."""
        found = self._engine.host.info
        return ModelInfo(
            architecture=lib.cria_architecture_name(found.architecture).decode(),
            weight_format=lib.cria_number_format_name(found.weight_format).decode(),
            embedding_format=lib.cria_number_format_name(found.embedding_format).decode(),
            chat_template=lib.cria_chat_template_name(found.chat_template).decode(),
            bos_token=None if found.bos_token == s.NO_TOKEN else found.bos_token,
            has_tokenizer=bool(found.has_tokenizer),
            compressed=bool(found.compressed),
            pooling=s.Pooling(found.pooling).name.lower() if found.pooling else None,
            unit_embeddings=bool(found.unit_embeddings),
            layer_kinds=tuple(_layer_kind(found, i) for i in range(found.n_layer_kinds)),
            **{name: getattr(found, name) for name in (
                "group_size", "n_parameters", "n_active_parameters", "n_layers", "d_model", "vocab_size",
                "max_context", "planned_context", "format_version", "file_bytes", "weight_bytes",
                "active_bytes")})

    @property
    def memory(self) -> MemoryPlan:
        """What was planned, and is taken."""
        plan = self._engine.host.plan
        return MemoryPlan(model=plan.model.total, session=plan.session.total, kv_cache=plan.session.kv_cache,
                          workspace=plan.workspace.total, loading=plan.loading, total=plan.total, in_place=plan.in_place)

    @property
    def extra_bytes(self) -> int:
        """Bytes that are taken besides the plan: for the conversation, for JSON, and for the schema of an answer that is
        being made."""
        self._engine.check_open()
        return self._conversation.n_bytes + self._documents.n_bytes

    @property
    def context(self) -> int:
        """Positions of the context."""
        return int(lib.cria_context(self._engine.host.session))

    @property
    def threads(self) -> int:
        """Threads that compute."""
        return int(self._engine.host.n_threads)

    @property
    def backend(self) -> str:
        """Who multiplies matrices, and the instruction set of its kernels: "exact, avx2"."""
        names = (lib.cria_backend_name(self._engine.host.model), lib.cria_isa_name(self._engine.host.model))
        return ", ".join(name.decode() for name in names)

    # Text -------------------------------------------------------------------------------------------------------------

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """The tokens of a text. add_special: with what the tokenizer puts around a prompt (BOS). parse_special: control
        tokens written out in the text become those tokens; not for text of others."""
        check_type("text", text, str)
        with self._engine.lock:
            self._engine.check_free()
            flags = (s.ENCODE_SPECIAL if add_special else 0) | (s.ENCODE_PARSE if parse_special else 0)
            return self._engine.encode(text, flags)

    def detokenize(self, tokens: Sequence[int], *, show_special: bool = False) -> str:
        """The text of tokens; bytes that are no character come out as U+FFFD."""
        with self._engine.lock:
            self._engine.check_free()
            ids = token_array(tokens, self._engine.vocab_size)
            state = s.TextState(show_special=show_special)
            return "".join(self._engine.decode(state, token) for token in (*ids, s.NO_TOKEN))

    # Logits -----------------------------------------------------------------------------------------------------------

    def logits(self, tokens: Sequence[int], *, last: bool = False) -> FloatArray:
        """The logits that follow every token, [tokens][vocabulary], as a numpy array of float32, or where there is no
        numpy as a memoryview of that shape. last: only those that follow the last one, [vocabulary]."""
        with self._engine.lock:
            self._begin()
            n_vocab = self._engine.vocab_size
            ids = token_array(tokens, n_vocab)
            if not len(ids):
                raise ValueError("there are no tokens")
            n_rows = 1 if last else len(ids)
            out = bytearray(4 * n_rows * n_vocab)
            floats = (ctypes.c_float * (n_rows * n_vocab)).from_buffer(out)
            check(lib.cria_reset(self._engine.host.session, 0))
            entry = s.BatchEntry(self._engine.host.session, ids, len(ids), None if last else floats)
            self._engine.read(entry)
            if last:
                ctypes.memmove(floats, lib.cria_logits(self._engine.host.session), len(out))
            del floats
            return _as_array(out, (n_vocab,) if last else (n_rows, n_vocab))

    # Embeddings -------------------------------------------------------------------------------------------------------

    @overload
    def embed(self, texts: str, *, dimensions: Optional[int] = None) -> FloatArray: ...

    @overload
    def embed(self, texts: Sequence[str], *, dimensions: Optional[int] = None) -> FloatArray: ...

    def embed(self, texts: Union[str, Sequence[str]], *, dimensions: Optional[int] = None) -> FloatArray:
        """What texts mean, as rows of numbers: the closer two rows point, the closer their texts are. An array as that of
        logits, [texts][d_model], or of one text as a string [d_model].

        Rows are pooled and have the length 1 as the model's file says; where it says nothing they are those of the last
        token, of length 1. dimensions: only so many of the first values, of length 1 again if they were.
        """
        said = [texts] if isinstance(texts, str) else list(texts)
        for text in said:
            check_type("texts", text, str)
        if not said:
            raise ValueError("there are no texts")
        with self._engine.lock:
            self._begin()
            n_values = self._engine.host.info.d_model
            width = n_values if dimensions is None else count_of("dimensions", dimensions, 1, n_values)
            out = bytearray(4 * len(said) * width)
            for i, text in enumerate(said):
                out[4 * i * width:4 * (i + 1) * width] = bytes(self._embedding(text, width))[:4 * width]
            return _as_array(out, (width,) if isinstance(texts, str) else (len(said), width))

    def _embedding(self, text: str, width: int) -> Any:
        """Of one text: floats of which the first `width` count."""
        engine, host = self._engine, self._engine.host
        ids = token_array(engine.encode(text, s.ENCODE_SPECIAL), engine.vocab_size)
        if not len(ids):
            raise ValueError("a text has no tokens")
        pooling, n_values = lib.cria_embedding_pooling(host.model), host.info.d_model
        part = len(ids) if pooling == s.Pooling.LAST else min(len(ids), _MOST_ROWS)
        rows = (ctypes.c_float * (n_values * (1 if pooling == s.Pooling.LAST else part)))()
        embedding = (ctypes.c_float * n_values)()
        check(lib.cria_reset(host.session, 0))
        for first in range(0, len(ids), part):
            n = min(part, len(ids) - first)
            n_rows = 1 if pooling == s.Pooling.LAST else n
            tokens = ctypes.cast(ctypes.byref(ids, 4 * first), ctypes.POINTER(ctypes.c_uint32))
            engine.read(s.BatchEntry(host.session, tokens, n, None, s.Hidden(rows, n_rows, 1)))
            check(lib.cria_embedding_add(host.model, rows, n_rows, first + n - n_rows, embedding))
        check(lib.cria_embedding_finish(host.model, len(ids), width, embedding))
        return embedding

    # Answers ----------------------------------------------------------------------------------------------------------

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False, schema: Optional[Schema] = None, tools: Optional[Tools] = None,
             tool_choice: str = "auto", thinking: Optional[bool] = None, max_tokens: Optional[int] = None, stop: Optional[Stops] = None,
             **drawing: DrawingValue) -> Answer: ...

    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], schema: Optional[Schema] = None, tools: Optional[Tools] = None,
             tool_choice: str = "auto", thinking: Optional[bool] = None, max_tokens: Optional[int] = None, stop: Optional[Stops] = None,
             **drawing: DrawingValue) -> Stream: ...

    @overload
    def chat(self, messages: Messages, *, stream: bool, schema: Optional[Schema] = None, tools: Optional[Tools] = None,
             tool_choice: str = "auto", thinking: Optional[bool] = None, max_tokens: Optional[int] = None, stop: Optional[Stops] = None,
             **drawing: DrawingValue) -> Union[Answer, Stream]: ...

    def chat(self, messages: Messages, *, stream: bool = False, schema: Optional[Schema] = None, tools: Optional[Tools] = None,
             tool_choice: str = "auto", thinking: Optional[bool] = None, max_tokens: Optional[int] = None, stop: Optional[Stops] = None,
             **drawing: DrawingValue) -> Union[Answer, Stream]:
        """Answers the last message of a conversation: [{"role": "user", "content": "hello"}], or a question as a string.

        What the model still holds of an earlier call is not read again. stream: gives the answer's pieces as they come.
        schema: the answer is a JSON document that a JSON schema allows; True: any. tools: functions with type hints, or dicts as
        OpenAI's API has them; the answer's `calls` are held to them. tool_choice: "auto", "none", "required", or a tool's
        name. thinking: whether the model thinks, where its template has a switch for it; None: as the template does.
        max_tokens: None: as many as fit. stop: texts that end the answer and are not part of it. drawing: temperature, top_k,
        top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty, seed, logit_bias, by default as `cria chat` has them;
        temperature 0 is greedy. With tools, thinking, or messages that have some, a conversation that outgrows the context
        is an error.
        """
        shown = read_tools(tools, tool_choice)
        if not shown and thinking is None and not have_parts(messages):
            said = read_messages(messages)
            return self._answer("chat", lambda order: self._conversation.pieces(said, order), stream, schema, max_tokens, stop, drawing)
        if shown and schema not in (None, False):
            raise ValueError("an answer is a document of a schema or calls tools, not both")
        conversation = TooledConversation(read_parts(messages), shown, read_thinking(thinking))
        return self._answer("chat", lambda order: self._tooled(conversation, shown, tool_choice, order), stream, schema, max_tokens, stop,
                            drawing)

    def _tooled(self, conversation: TooledConversation, shown: list[dict[str, Any]], choice: str, order: Order) -> Generator[str, None, None]:
        """The answer to a conversation with tools, calls or thinking."""
        engine = self._engine
        writing = CallWriting(engine)
        tools = conversation.tools
        if shown:
            taken = writing.need_calls(engine)
        tokens, opened = conversation.encode(engine)
        if shown:
            order.guide = CallGuide(engine, self._documents.vocabulary(), writing, tools, opened, choice, taken)
        if writing.writes and (shown or order.guide is None):
            order.reader = CallReader(writing, tools, opened, bool(shown) and choice != "none", conversation.n_calls)
            order.markers = writing.markers
        return completion_pieces(engine, tokens, s.TextState(started=True), order)

    @overload
    def complete(self, prompt: str, *, stream: Literal[False] = False, schema: Optional[Schema] = None,
                 max_tokens: Optional[int] = None, stop: Optional[Stops] = None, parse_special: bool = False,
                 **drawing: DrawingValue) -> Answer: ...

    @overload
    def complete(self, prompt: str, *, stream: Literal[True], schema: Optional[Schema] = None,
                 max_tokens: Optional[int] = None, stop: Optional[Stops] = None, parse_special: bool = False,
                 **drawing: DrawingValue) -> Stream: ...

    @overload
    def complete(self, prompt: str, *, stream: bool, schema: Optional[Schema] = None, max_tokens: Optional[int] = None,
                 stop: Optional[Stops] = None, parse_special: bool = False, **drawing: DrawingValue) -> Union[Answer, Stream]: ...

    def complete(self, prompt: str, *, stream: bool = False, schema: Optional[Schema] = None,
                 max_tokens: Optional[int] = None, stop: Optional[Stops] = None, parse_special: bool = False,
                 **drawing: DrawingValue) -> Union[Answer, Stream]:
        """The text that goes on from a prompt, without it. Arguments are those of chat, and parse_special of tokenize."""
        check_type("prompt", prompt, str)

        def pieces(order: Order) -> Generator[str, None, None]:
            tokens = prompt_tokens(self._engine, prompt, parse_special)
            state = s.TextState(started=bool(prompt))  # what follows a BOS alone is a beginning
            return completion_pieces(self._engine, tokens, state, order)

        return self._answer("complete", pieces, stream, schema, max_tokens, stop, drawing)

    def _begin(self) -> None:
        """What each call that computes begins with."""
        self._engine.begin()
        self._conversation.unshift()

    def _answer(self, caller: str, pieces: Callable[[Order], Generator[str, None, None]], stream: bool, schema: Optional[Schema],
                max_tokens: Optional[int], stop: Optional[Stops], drawing: dict[str, DrawingValue]) -> Union[Answer, Stream]:
        """Begins an answer; makes it where it is not to be a stream."""
        check_type("stream", stream, bool)
        sampling, seed = read_drawing(caller, drawing, self._engine.vocab_size)
        limit, stops, wanted = limit_of(max_tokens), StopStrings(read_stops(stop)), read_schema(schema)
        with self._engine.lock:
            self._begin()
            order = Order(sampling, seed, limit, stops, self._documents.guide(wanted), Ending())
            made = Stream(pieces(order), order.ending, self._engine.locked, self._engine.release)
            self._engine.lend_to(made)
            if stream:
                return made
            with made:
                for _ in made:
                    pass
            return made.answer


def run_tools(model: Model, messages: Messages, functions: Sequence[Callable[..., Any]], *, most_rounds: int = 10,
              **options: Any) -> Answer:
    """Answers with functions that the model may call: runs those that it calls, tells it the results, and asks again, until an
    answer has no call or most_rounds answers were made. Functions get the members of enumerations that their hints name. What a
    function raises is told as its result. Results that are no texts are told as JSON. messages is not changed; options are those
    of Model.chat."""
    by_name = {function.__name__: function for function in functions}
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    for left in range(most_rounds, 0, -1):
        answer = model.chat(said, tools=functions, **options)
        if not answer.calls or left == 1:
            return answer
        said.append(answer.message)
        for call in answer.calls:
            try:
                result: Any = run_call(by_name[call.name], call.arguments)
            except Exception as error:  # the model is to hear of it, whatever it is
                result = f"{type(error).__name__}: {error}"
            content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
            said.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content})
    raise ValueError("most_rounds is less than 1")


@functools.cache  # a failed import is not kept by Python: it would search every folder at each call
def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _as_array(data: bytearray, shape: tuple[int, ...]) -> FloatArray:
    numpy = _numpy()
    if numpy is None:
        view: Any = memoryview(data).cast("f", shape) if len(shape) == 1 else memoryview(data).cast("B").cast("f", shape)
        return view  # type: ignore[no-any-return]
    array: Any = numpy.frombuffer(data, dtype=numpy.float32).reshape(shape)
    return array  # type: ignore[no-any-return]
