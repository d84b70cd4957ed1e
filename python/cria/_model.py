"""A model, open."""
from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
import threading
import weakref
from _thread import start_new_thread
from typing import Any, Callable, Generator, Literal, NoReturn, Optional, Sequence, Union, overload

from . import _structs as s
from ._errors import BusyError, CancelledError, CriaError, SchemaError
from ._native import lib
from ._requests import (MOST_CHUNK, MOST_POSITIONS, MOST_THREADS, DrawingValue, Messages, Schema, Stops, check_type, count_of,
                        limit_of, read_drawing, read_messages, read_schema, read_stops, token_array)
from ._results import Answer, Ending, FloatArray, MemoryPlan, ModelInfo, StopStrings, Stream

# Of the host: what the cria program would end with.
_EXIT_NAMES = {2: "USAGE", 3: "INVALID_INPUT", 4: "IO", 5: "MEMORY"}
# Fewer tokens are read at once on the calling thread: within the time that Ctrl-C can wait.
_FEW_TOKENS = 8
_END_NAMES = {s.ChatEnd.ANSWERED: "stop", s.ChatEnd.LIMIT: "length", s.ChatEnd.STOPPED: "closed", s.ChatEnd.FULL: "context"}


class _Memory:
    """Zeroed bytes at an address of a page's alignment, resident once they are written."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self._pages = mmap.mmap(-1, max(n_bytes, 1))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))


def _raise(status: int, where: str = "", advice: str = "") -> None:
    if status == s.Status.CRIA_OK:
        return
    if status == s.Status.CRIA_CANCELLED:
        raise CancelledError
    message = lib.cria_status_message(status).decode()
    raise CriaError(f"{where}: {message}{advice}" if where else message + advice, s.Status(status).name, s.Status(status))


def _open_host(path: str, options: s.HostOptions) -> Any:
    problem = s.HostProblem()
    host = lib.cria_host_open(os.fsencode(path), ctypes.byref(options), ctypes.byref(problem))
    if host:
        return host
    message = re.sub(r"--([a-z])", r"\1", problem.message.decode(errors="replace"))  # options are arguments here
    if problem.status != s.Status.CRIA_OK:
        status = s.Status(problem.status)
        raise CriaError(message, status.name, status)
    raise CriaError(message, _EXIT_NAMES.get(problem.exit_code, "FAILED"))


class _Guide:
    """A JSON document that is written for a schema."""

    def __init__(self, model: Model, schema: bytes, vocabulary: ctypes.c_void_p) -> None:
        self._session = model._host.session
        self._vocab_size = model.info.vocab_size
        n_bytes = ctypes.c_size_t()
        problem = s.JsonProblem()
        text = (schema or None, len(schema))
        self._check(lib.cria_json_required(vocabulary, *text, ctypes.byref(n_bytes), ctypes.byref(problem)), problem)
        self._memory = _Memory(n_bytes.value)
        self._json = ctypes.c_void_p()
        self._check(lib.cria_json_make(self._memory.address, n_bytes.value, vocabulary, *text, ctypes.byref(self._json),
                                       ctypes.byref(problem)), problem)
        self._state = s.JsonState()
        _raise(lib.cria_json_begin(self._json, ctypes.byref(self._state)))

    @property
    def n_bytes(self) -> int:
        return self._memory.n_bytes

    @staticmethod
    def _check(status: int, problem: s.JsonProblem) -> None:
        if status == s.Status.CRIA_OK:
            return
        if not problem.reason:
            _raise(status, "the schema")
        keyword = problem.keyword.decode(errors="replace")
        subject = f'"{keyword}"' if keyword else "the schema"
        raise SchemaError(f"the schema: byte {problem.offset}: {subject} {problem.reason.decode()}", s.Status(status),
                          problem.offset, keyword)

    def mask(self) -> None:
        """Leaves the tokens that can come next."""
        _raise(lib.cria_json_mask(self._json, ctypes.byref(self._state), lib.cria_logits(self._session),
                                  self._vocab_size))

    def accept(self, token: int) -> None:
        """Takes one of them."""
        _raise(lib.cria_json_accept(self._json, ctypes.byref(self._state), token))

    def is_closed(self) -> bool:
        """Whether nothing can follow."""
        progress: int = lib.cria_json_progress_of(self._json, ctypes.byref(self._state))
        return progress == s.JsonProgress.CLOSED


class _Step:
    """cria_step of one turn on a thread of its own, so that the main thread can hear Ctrl-C meanwhile.

    Ctrl-C can come between any two operations of the main thread, and again while the first one is dealt with. So what
    matters is done by single operations that can be repeated: the step is begun or given up, whichever of the two threads
    says so first; `is_over` is true for good; the lock only wakes up. The thread is the bare one of _thread, which is
    started by one call: what threading.Thread does around it can be torn apart.
    """

    _BEGUN = "begun"
    _GIVEN_UP = "given up"

    def __init__(self, model: Model, turn: s.Turn) -> None:
        self._model = model  # its memory stays until the step is over
        self._turn = turn
        self._workspace = model._host.workspace
        self._fate: dict[str, str] = {}
        self._wakes = threading.Lock()
        self._wakes.acquire()
        self.status: int = s.Status.CRIA_CANCELLED
        self.is_over = False

    def start(self) -> None:
        start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            if self._fate.setdefault("it is", self._BEGUN) is self._BEGUN:
                self.status = lib.cria_step(self._workspace, ctypes.byref(self._turn), 1)
        finally:
            self.is_over = True
            self._wakes.release()

    def wait(self) -> None:
        while not self.is_over:
            # Whoever was woken may have been interrupted, and another one waits: so not for ever.
            self._wakes.acquire(timeout=0.1)

    def end(self) -> None:
        """Returns when the step cannot use the model any more."""
        if self._fate.setdefault("it is", self._GIVEN_UP) is self._BEGUN and not self.is_over:
            lib.cria_host_cancel(self._model._handle, 1)
            self.wait()


class Model:
    """A model file, open for answering. Its memory is taken here; close it, leave a `with` block, or forget it to give it
    back.

    Any thread may use a model; one call runs at a time, the others wait. While a stream is open other calls raise
    BusyError.

    path: a .cria file of cria-convert. context: positions; None: what the file plans. threads: None: the machine's fast
    cores. kv: "int8", "k8v4" or "f32"; "auto" is int8, and f32 behind f32 weights. backend: "auto", "exact" or "xnnpack".
    prefill_chunk: tokens read at once. max_text_bytes: longest text encoded in one piece. mapped: False reads the file
    rather than mapping it: then it may be changed meanwhile, but its weights take memory. exact_context: when a
    conversation outgrows the context, what stays is read again (slow, the bits of a conversation that began there).
    """

    def __init__(self, path: Union[str, os.PathLike[str]], *, context: Optional[int] = None, threads: Optional[int] = None,
                 kv: str = "auto", backend: str = "auto", prefill_chunk: Optional[int] = None,
                 max_text_bytes: Optional[int] = None, mapped: bool = True, exact_context: bool = False) -> None:
        self._handle: Any = None
        self._lock = threading.RLock()
        self._handle_lock = threading.RLock()  # held while the handle is given back, or used without the other lock
        self._step: Optional[_Step] = None  # may still run, where Ctrl-C came twice
        self._stream: Optional[weakref.ref[Stream]] = None
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
            if choice not in names:
                raise ValueError(f"{choice!r} is not one of {', '.join(names)}")
            setattr(options, name, names[choice])
        options.never_map = not mapped
        self._handle = _open_host(self.path, options)
        self._text_buffer = ctypes.create_string_buffer(
            max(s.TEXT_BYTES, 3 * lib.cria_longest_token_bytes(self._handle.contents.model) + 8))
        self._exact_context = exact_context
        self._chat: Optional[ctypes.c_void_p] = None
        self._chat_memory: Optional[_Memory] = None
        self._vocabulary: Optional[ctypes.c_void_p] = None
        self._vocabulary_memory: Optional[_Memory] = None
        self._guide_in_use: Optional[weakref.ref[_Guide]] = None
        self._is_shifted = False  # the session may hold what was computed with forgotten text in sight

    # Its life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends an open stream and gives the memory back. Safe to repeat."""
        with self._lock:
            stream = self._stream() if self._stream is not None else None
            if stream is not None:
                stream.close()
            self._settle()
            with self._handle_lock:
                handle, self._handle = self._handle, None
            if handle is not None:
                lib.cria_host_close(handle)
                self._chat = self._chat_memory = self._vocabulary = self._vocabulary_memory = None

    def __enter__(self) -> Model:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is None:
            return
        if sys.is_finalizing() and self._step is not None and not self._step.is_over:
            return  # its thread cannot say any more when it is over; the memory goes with the process
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a model cannot be copied or pickled: open its file again")

    def __repr__(self) -> str:
        return f"cria.Model({self.path!r}{'' if self._handle is not None else ', closed'})"

    def cancel(self) -> None:
        """From another thread: ends what runs, within the time of one layer, by CancelledError."""
        with self._handle_lock:
            if self._handle is not None:
                lib.cria_host_cancel(self._handle, 1)

    # What it is -------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._handle is None:
            raise CriaError(f"{self.path}: the model is closed", "CLOSED")

    @property
    def _host(self) -> s.Host:
        self._check_open()
        host: s.Host = self._handle.contents
        return host

    @property
    def info(self) -> ModelInfo:
        """What the file holds."""
        found = self._host.info
        return ModelInfo(
            architecture=lib.cria_architecture_name(found.architecture).decode(),
            weight_format=lib.cria_number_format_name(found.weight_format).decode(),
            embedding_format=lib.cria_number_format_name(found.embedding_format).decode(),
            chat_template=lib.cria_chat_template_name(found.chat_template).decode(),
            bos_token=None if found.bos_token == s.NO_TOKEN else found.bos_token,
            has_tokenizer=bool(found.has_tokenizer),
            compressed=bool(found.compressed),
            **{name: getattr(found, name) for name in (
                "group_size", "n_parameters", "n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "vocab_size",
                "max_context", "planned_context", "sliding_window", "format_version", "file_bytes", "weight_bytes")})

    @property
    def memory(self) -> MemoryPlan:
        """What was planned, and is taken."""
        plan = self._host.plan
        return MemoryPlan(model=plan.model.total, session=plan.session.total, kv_cache=plan.session.kv_cache,
                          workspace=plan.workspace.total, loading=plan.loading, total=plan.total, in_place=plan.in_place)

    @property
    def extra_bytes(self) -> int:
        """Bytes that are taken besides the plan: for the conversation, for JSON, and for the schema of an answer that is
        being made."""
        self._check_open()
        guide = self._guide_in_use() if self._guide_in_use is not None else None
        return sum(taken.n_bytes for taken in (self._chat_memory, self._vocabulary_memory, guide) if taken is not None)

    @property
    def context(self) -> int:
        """Positions of the context."""
        return int(lib.cria_context(self._host.session))

    @property
    def threads(self) -> int:
        """Threads that compute."""
        return int(self._host.n_threads)

    @property
    def backend(self) -> str:
        """Who multiplies matrices, and the instruction set of its kernels: "exact, avx2"."""
        names = (lib.cria_backend_name(self._host.model), lib.cria_isa_name(self._host.model))
        return ", ".join(name.decode() for name in names)

    # Text -------------------------------------------------------------------------------------------------------------

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """The tokens of a text. add_special: with what the tokenizer puts around a prompt (BOS). parse_special: control
        tokens written out in the text become those tokens; not for text of others."""
        check_type("text", text, str)
        with self._lock:
            self._check_free()
            flags = (s.ENCODE_SPECIAL if add_special else 0) | (s.ENCODE_PARSE if parse_special else 0)
            return self._encode(text, flags)

    def detokenize(self, tokens: Sequence[int], *, show_special: bool = False) -> str:
        """The text of tokens; bytes that are no character come out as U+FFFD."""
        with self._lock:
            self._check_free()
            ids = token_array(tokens, self.info.vocab_size)
            state = s.TextState(show_special=show_special)
            return "".join(self._decode(state, token) for token in (*ids, s.NO_TOKEN))

    def _encode(self, text: str, flags: int) -> list[int]:
        data = text.encode()
        n = ctypes.c_size_t()
        # Three tokens at most for what a byte is, and BOS and its like.
        tokens = (ctypes.c_uint32 * (3 * len(data) + 16))()
        _raise(lib.cria_encode(self._host.workspace, data, len(data), flags, tokens, len(tokens), ctypes.byref(n)),
               advice="; give Model a larger context or max_text_bytes")
        return tokens[:n.value]

    def _decode(self, state: s.TextState, token: int) -> str:
        n = ctypes.c_size_t()
        _raise(lib.cria_decode_token(self._host.model, ctypes.byref(state), token, self._text_buffer, len(self._text_buffer),
                                     ctypes.byref(n)))
        return ctypes.string_at(self._text_buffer, n.value).decode()

    # Logits -----------------------------------------------------------------------------------------------------------

    def logits(self, tokens: Sequence[int], *, last: bool = False) -> FloatArray:
        """The logits that follow every token, [tokens][vocabulary], as a numpy array of float32, or where there is no
        numpy as a memoryview of that shape. last: only those that follow the last one, [vocabulary]."""
        with self._lock:
            self._begin()
            n_vocab = self.info.vocab_size
            ids = token_array(tokens, n_vocab)
            if not len(ids):
                raise ValueError("there are no tokens")
            n_rows = 1 if last else len(ids)
            out = bytearray(4 * n_rows * n_vocab)
            floats = (ctypes.c_float * (n_rows * n_vocab)).from_buffer(out)
            _raise(lib.cria_reset(self._host.session, 0))
            turn = s.Turn(self._host.session, ids, len(ids), None if last else floats)
            self._read(turn)
            if last:
                ctypes.memmove(floats, lib.cria_logits(self._host.session), len(out))
            del floats
            return _as_array(out, (n_vocab,) if last else (n_rows, n_vocab))

    # Answers ----------------------------------------------------------------------------------------------------------

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = False, schema: Optional[Schema] = None,
             max_tokens: Optional[int] = None, stop: Optional[Stops] = None, **drawing: DrawingValue) -> Answer: ...

    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], schema: Optional[Schema] = None,
             max_tokens: Optional[int] = None, stop: Optional[Stops] = None, **drawing: DrawingValue) -> Stream: ...

    @overload
    def chat(self, messages: Messages, *, stream: bool, schema: Optional[Schema] = None,
             max_tokens: Optional[int] = None, stop: Optional[Stops] = None, **drawing: DrawingValue) -> Union[Answer, Stream]: ...

    def chat(self, messages: Messages, *, stream: bool = False, schema: Optional[Schema] = None,
             max_tokens: Optional[int] = None, stop: Optional[Stops] = None, **drawing: DrawingValue) -> Union[Answer, Stream]:
        """Answers the last message of a conversation: [{"role": "user", "content": "hello"}], or a question as a string.

        What the model still holds of an earlier call is not read again. stream: gives the answer's pieces as they come.
        schema: the answer is a JSON document that a JSON schema allows; True: any. max_tokens: None: as many as fit.
        stop: texts that end the answer and are not part of it. drawing: temperature, top_k, top_p, min_p, repeat_penalty,
        frequency_penalty, presence_penalty, seed, logit_bias, by default as `cria chat` has them; temperature 0 is greedy.
        """
        said = read_messages(messages)
        check_type("stream", stream, bool)
        sampling, seed = read_drawing("chat", drawing, self.info.vocab_size)
        limit, stops, wanted = limit_of(max_tokens), StopStrings(read_stops(stop)), read_schema(schema)
        ending = Ending()

        def pieces() -> Generator[str, None, None]:
            guide = self._guide(wanted)
            lib.cria_seed(self._host.session, seed)
            return self._chat_pieces(said, sampling, limit, stops, guide, ending)

        return self._answer(pieces, ending, stream)

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
        check_type("stream", stream, bool)
        sampling, seed = read_drawing("complete", drawing, self.info.vocab_size)
        limit, stops, wanted = limit_of(max_tokens), StopStrings(read_stops(stop)), read_schema(schema)
        ending = Ending()

        def pieces() -> Generator[str, None, None]:
            tokens = self._encode(prompt, s.ENCODE_SPECIAL | (s.ENCODE_PARSE if parse_special else 0))
            bos = self.info.bos_token
            if len(tokens) > 1 and bos is not None and tokens[:2] == [bos, bos]:
                del tokens[0]  # a prompt that writes its BOS out does not want a second one
            if not tokens:
                raise ValueError("the prompt is empty")
            guide = self._guide(wanted)
            lib.cria_seed(self._host.session, seed)
            state = s.TextState(started=bool(prompt))  # what follows a BOS alone is a beginning
            return self._completion_pieces(tokens, state, sampling, limit, stops, guide, ending)

        return self._answer(pieces, ending, stream)

    def _answer(self, pieces: Callable[[], Generator[str, None, None]], ending: Ending, stream: bool) -> Union[Answer, Stream]:
        """Begins an answer; makes it where it is not to be a stream."""
        with self._lock:
            self._begin()
            made = Stream(pieces(), ending, self._locked, self._release)
            self._stream = weakref.ref(made)
            if stream:
                return made
            with made:
                for _ in made:
                    pass
            return made.answer

    def _locked(self, step: Callable[[], Any]) -> Any:
        with self._lock:
            return step()

    def _release(self, stream: Stream) -> None:
        if self._stream is not None and self._stream() in (None, stream):
            self._stream = None

    def _check_free(self) -> None:
        """A stream may be between two tokens: nobody else uses the session and the workspace meanwhile."""
        self._check_open()
        if self._stream is not None and self._stream() is not None:
            raise BusyError
        self._settle()

    def _settle(self) -> None:
        """Whoever uses or frees what a step uses calls this first: it may run on after Ctrl-C, in spite of `_read`."""
        if self._step is not None:
            self._step.end()
            self._step = None

    def _begin(self) -> None:
        """What each call that computes begins with."""
        self._check_free()
        lib.cria_host_cancel(self._handle, 0)
        if self._is_shifted:  # the same request gives the same answer, whatever went before
            lib.cria_chat_stop(self._chat)
            _raise(lib.cria_reset(self._host.session, 0))
            self._is_shifted = False

    def _read(self, turn: s.Turn) -> None:
        """cria_step of one turn; Ctrl-C ends it."""
        if turn.n_tokens <= _FEW_TOKENS or threading.current_thread() is not threading.main_thread():
            return _raise(lib.cria_step(self._host.workspace, ctypes.byref(turn), 1), self.path)
        # The main thread, which hears signals, waits for another one.
        step = _Step(self, turn)
        self._step = step  # before it can begin
        try:
            step.start()
            step.wait()
        finally:
            self._settle()
        return _raise(step.status, self.path)

    def _guide(self, schema: Optional[bytes]) -> Optional[_Guide]:
        if schema is None:
            return None
        if self._vocabulary is None:
            n_bytes = ctypes.c_size_t()
            _raise(lib.cria_json_vocabulary_required(self._host.model, ctypes.byref(n_bytes)), self.path)
            memory, vocabulary = _Memory(n_bytes.value), ctypes.c_void_p()
            _raise(lib.cria_json_make_vocabulary(memory.address, n_bytes.value, self._host.model, ctypes.byref(vocabulary)))
            self._vocabulary_memory, self._vocabulary = memory, vocabulary
        guide = _Guide(self, schema, self._vocabulary)
        self._guide_in_use = weakref.ref(guide)
        return guide

    # A conversation ---------------------------------------------------------------------------------------------------

    def _chat_of_session(self) -> ctypes.c_void_p:
        if self._chat is None:
            config = s.ChatConfig(exact_context=self._exact_context)
            n_bytes = ctypes.c_size_t()
            host = self._host
            _raise(lib.cria_chat_required(host.session, ctypes.byref(config), ctypes.byref(n_bytes)), self.path)
            memory, chat = _Memory(n_bytes.value), ctypes.c_void_p()
            _raise(lib.cria_chat_make(memory.address, n_bytes.value, host.workspace, host.session, ctypes.byref(config),
                                      ctypes.byref(chat)), self.path)
            self._chat_memory, self._chat = memory, chat
        return self._chat

    def _check_template(self, status: int, said: list[tuple[s.Role, bytes]]) -> None:
        """Says why the chat template refused a conversation."""
        if status == s.Status.CRIA_REFUSED_BY_TEMPLATE:
            messages = (s.MessageStruct * len(said))(*(s.MessageStruct(role, text, len(text)) for role, text in said))
            refusal = lib.cria_chat_refusal(self._host.workspace, messages, len(said), s.TURN_OPENED)
            if refusal:
                raise CriaError(f"{self.path}: the chat template {refusal.decode()}", s.Status(status).name, s.Status(status))
        _raise(status, self.path, "; shorten it, or give Model a larger context" if status in (
            s.Status.CRIA_TEXT_TOO_LONG, s.Status.CRIA_CONTEXT_FULL) else "")

    def _ask(self, chat: ctypes.c_void_p, said: list[tuple[s.Role, bytes]], limit: int, turn: s.Turn) -> None:
        """Says a conversation anew; what the session holds of it is not read again."""
        has_system = said[0][0] == s.Role.SYSTEM
        system = said[0][1] if has_system else b""
        self._check_template(lib.cria_chat_begin(chat, system, len(system)), said)
        for role, text in said[1 if has_system else 0:-1]:
            self._check_template(lib.cria_chat_add(chat, role, text, len(text)), said)
        question = said[-1][1]
        self._check_template(
            lib.cria_chat_ask(chat, self._host.workspace, question, len(question), limit, ctypes.byref(turn)), said)

    def _chat_pieces(self, said: list[tuple[s.Role, bytes]], sampling: s.Sampling, limit: int, stops: StopStrings,
                     guide: Optional[_Guide], ending: Ending) -> Generator[str, None, None]:
        chat = self._chat_of_session()
        n_dropped = lib.cria_chat_n_dropped(chat)
        turn, piece = s.Turn(), s.ChatPiece()
        self._is_shifted = True  # whatever ends this, the next one begins with a session that is known
        try:
            self._ask(chat, said, limit, turn)
            ending.n_read = turn.n_tokens
            self._read(turn)
            while True:
                if guide is not None:
                    guide.mask()
                _raise(lib.cria_chat_next(chat, self._host.workspace, ctypes.byref(sampling), ctypes.byref(piece),
                                          ctypes.byref(turn)), self.path)
                if piece.token != s.NO_TOKEN:
                    ending.n_tokens += 1
                    if guide is not None:
                        guide.accept(piece.token)
                text = stops.feed(ctypes.string_at(piece.text, piece.n_bytes).decode() if piece.n_bytes else "")
                is_whole = stops.is_met or (guide is not None and guide.is_closed())
                if is_whole or piece.is_last:
                    ending.finish_reason = "stop" if is_whole else _END_NAMES[s.ChatEnd(piece.end)]
                    text += stops.rest()
                if text:
                    yield text
                if is_whole or piece.is_last:
                    return
                self._read(turn)
        finally:
            if self._handle is not None:
                self._settle()
                lib.cria_chat_stop(chat)
                ending.n_dropped = lib.cria_chat_n_dropped(chat) - n_dropped
                self._is_shifted = ending.n_dropped > 0 and not self._exact_context

    # A text -----------------------------------------------------------------------------------------------------------

    def _keep_common(self, tokens: list[int]) -> list[int]:
        """Keeps of the session what tokens begin with, and gives the others, at least one."""
        session = self._host.session
        held = lib.cria_tokens(session)[:min(lib.cria_position(session), len(tokens) - 1)]
        n_kept = next((i for i, token in enumerate(held) if token != tokens[i]), len(held))
        if lib.cria_reset(session, n_kept) != s.Status.CRIA_OK:  # a sliding window's ring has gone on
            n_kept = 0
            _raise(lib.cria_reset(session, 0))
        return tokens[n_kept:]

    def _completion_pieces(self, tokens: list[int], state: s.TextState, sampling: s.Sampling, limit: int, stops: StopStrings,
                           guide: Optional[_Guide], ending: Ending) -> Generator[str, None, None]:
        host = self._host
        if len(tokens) > self.context:
            _raise(s.Status.CRIA_CONTEXT_FULL, f"the prompt has {len(tokens)} tokens, the context {self.context} positions")
        token = ctypes.c_uint32()
        unread = self._keep_common(tokens)
        ending.n_read = len(unread)
        while True:
            self._read(s.Turn(host.session, token_array(unread, self.info.vocab_size), len(unread), None))
            if guide is not None:
                guide.mask()
            _raise(lib.cria_sample(host.workspace, host.session, ctypes.byref(sampling), ctypes.byref(token)))
            why = "stop" if lib.cria_is_end_token(host.model, token) else ""
            text = ""
            if not why:
                if guide is not None:
                    guide.accept(token.value)
                ending.n_tokens += 1
                text = stops.feed(self._decode(state, token.value))
                if stops.is_met or (guide is not None and guide.is_closed()):
                    why = "stop"
                elif ending.n_tokens == limit:
                    why = "length"
                elif lib.cria_position(host.session) == self.context:
                    why = "context"
            if why:
                ending.finish_reason = why
                if not stops.is_met:
                    text += stops.feed(self._decode(state, s.NO_TOKEN)) + stops.rest()
            if text:
                yield text
            if why:
                return
            unread = [token.value]


def _as_array(data: bytearray, shape: tuple[int, ...]) -> FloatArray:
    try:
        import numpy
    except ImportError:
        view: Any = memoryview(data).cast("f", shape) if len(shape) == 1 else memoryview(data).cast("B").cast("f", shape)
        return view  # type: ignore[no-any-return]
    array: Any = numpy.frombuffer(data, dtype=numpy.float32).reshape(shape)
    return array  # type: ignore[no-any-return]
