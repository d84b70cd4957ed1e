"""A model that is open on this machine, and who uses it: one call at a time."""
from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from typing import Any, Callable, Optional

from . import _structs as s
from ._calls import check, open_host
from ._errors import BusyError, CriaError
from ._native import lib
from ._results import Stream
from ._step import Step

# Fewer tokens are read at once on the calling thread: within the time that Ctrl-C can wait.
_FEW_TOKENS = 8


class Engine:
    """Whoever computes holds `lock` and has called `begin`. The memory is given back by `close`, or when the model and its
    streams are forgotten."""

    def __init__(self, path: str, options: s.HostOptions) -> None:
        self._handle: Any = None
        self.lock = threading.RLock()
        self._handle_lock = threading.RLock()  # held while the handle is given back, or used without the other lock
        self._step: Optional[Step] = None  # may still run, where Ctrl-C came twice
        self._stream: Optional[weakref.ref[Stream]] = None
        self.path = path
        self._handle = open_host(path, options)
        self.vocab_size = int(self.host.info.vocab_size)
        self._text_buffer = ctypes.create_string_buffer(max(s.TEXT_BYTES, 3 * lib.cria_longest_token_bytes(self.host.model) + 8))

    # Its life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends an open stream and gives the memory back. Safe to repeat."""
        with self.lock:
            stream = self._stream() if self._stream is not None else None
            if stream is not None:
                stream.close()
            self.settle()
            with self._handle_lock:
                handle, self._handle = self._handle, None
            if handle is not None:
                lib.cria_host_close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is None:
            return
        if sys.is_finalizing() and self._step is not None and not self._step.is_over:
            return  # its thread cannot say any more when it is over; the memory goes with the process
        self.close()

    def cancel(self) -> None:
        """From any thread: ends what runs."""
        with self._handle_lock:
            if self._handle is not None:
                lib.cria_host_cancel(self._handle, 1)

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    def check_open(self) -> None:
        if self._handle is None:
            raise CriaError(f"{self.path}: the model is closed", "CLOSED")

    @property
    def host(self) -> s.Host:
        self.check_open()
        host: s.Host = self._handle.contents
        return host

    # Who uses it ------------------------------------------------------------------------------------------------------

    def check_free(self) -> None:
        """A stream may be between two tokens: nobody else uses the session and the workspace meanwhile."""
        self.check_open()
        if self._stream is not None and self._stream() is not None:
            raise BusyError
        self.settle()

    def settle(self) -> None:
        """Whoever uses or frees what a step uses calls this first: it may run on after Ctrl-C, in spite of `read`."""
        if self._step is not None:
            self._step.end()
            self._step = None

    def begin(self) -> None:
        """What each call that computes begins with."""
        self.check_free()
        lib.cria_host_cancel(self._handle, 0)

    def lend_to(self, stream: Stream) -> None:
        """Until the stream is released nobody else computes."""
        self._stream = weakref.ref(stream)

    def release(self, stream: Stream) -> None:
        if self._stream is not None and self._stream() in (None, stream):
            self._stream = None

    def locked(self, call: Callable[[], Any]) -> Any:
        with self.lock:
            return call()

    # What it does -----------------------------------------------------------------------------------------------------

    def encode(self, text: str, flags: int) -> list[int]:
        data = text.encode()
        n = ctypes.c_size_t()
        # Three tokens at most for what a byte is, and BOS and its like.
        tokens = (ctypes.c_uint32 * (3 * len(data) + 16))()
        check(lib.cria_encode(self.host.workspace, data, len(data), flags, tokens, len(tokens), ctypes.byref(n)),
              advice="give Model a larger context or max_text_bytes")
        return tokens[:n.value]

    def decode(self, state: s.TextState, token: int) -> str:
        n = ctypes.c_size_t()
        check(lib.cria_decode_token(self.host.model, ctypes.byref(state), token, self._text_buffer, len(self._text_buffer),
                                    ctypes.byref(n)))
        return ctypes.string_at(self._text_buffer, n.value).decode()

    def read(self, entry: s.BatchEntry) -> None:
        """cria_step of one entry; Ctrl-C ends it."""
        if entry.n_tokens <= _FEW_TOKENS or threading.current_thread() is not threading.main_thread():
            return check(lib.cria_step(self.host.workspace, ctypes.byref(entry), 1), self.path)
        self.check_open()
        # The main thread, which hears signals, waits for another one.
        step = Step(self, self._handle, entry)
        self._step = step  # before it can begin
        try:
            step.start()
            step.wait()
        finally:
            self.settle()
        return check(step.status, self.path)
