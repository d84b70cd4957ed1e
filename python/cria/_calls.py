"""What calls of the library have in common: memory for its objects, and its statuses as errors."""
from __future__ import annotations

import ctypes
import mmap
import os
import re
from typing import Any, Union

from . import _structs as s
from ._errors import CancelledError, CriaError, SchemaError
from ._native import lib

# Of the host: what the cria program would end with.
_EXIT_NAMES = {2: "USAGE", 3: "INVALID_INPUT", 4: "IO", 5: "MEMORY"}
_MOST_TOLD = 1024


class Memory:
    """Zeroed bytes at an address of a page's alignment, resident once they are written."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self._pages = mmap.mmap(-1, max(n_bytes, 1))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))


_SHORTER = "shorten it, or give Model a larger context"
# What to do about a status, unless the caller knows better.
_ADVICE = {s.Status.CRIA_TEXT_TOO_LONG: _SHORTER, s.Status.CRIA_CONTEXT_FULL: _SHORTER,
           s.Status.CRIA_NO_CHAT_TEMPLATE: "use Model.complete, or convert again with --chat-template NAME or FILE.jinja"}


def check(status: int, where: str = "", advice: str = "") -> None:
    """Raises what a status means, unless it is that all is well."""
    if status == s.Status.CRIA_OK:
        return
    if status == s.Status.CRIA_CANCELLED:
        raise CancelledError
    message = lib.cria_status_message(status).decode()
    told = advice or _ADVICE.get(s.Status(status), "")
    raise CriaError((f"{where}: " if where else "") + message + (f"; {told}" if told else ""), s.Status(status).name, s.Status(status))


def open_host(path: str, options: s.HostOptions) -> Any:
    """A model file, opened; whoever gets it closes it."""
    problem = s.HostProblem()
    host = lib.cria_host_open(os.fsencode(path), ctypes.byref(options), ctypes.byref(problem))
    if host:
        return host
    raise error_of(problem)


def error_of(problem: s.HostProblem, where: str = "") -> CriaError:
    """What the host says is wrong."""
    message = where + re.sub(r"--([a-z])", r"\1", problem.message.decode(errors="replace"))  # options are arguments here
    if problem.status != s.Status.CRIA_OK:
        status = s.Status(problem.status)
        return CriaError(message, status.name, status)
    return CriaError(message, _EXIT_NAMES.get(problem.exit_code, "FAILED"))


def problem_text(tell: Any, problem: Union[s.CallProblem, s.JsonProblem], text: bytes) -> str:
    """What the program says of a problem of tools or of a schema."""
    told = ctypes.create_string_buffer(_MOST_TOLD)
    tell(ctypes.byref(problem), text, len(text), told, len(told))
    return told.value.decode(errors="replace")


def schema_error(status: int, problem: s.JsonProblem, message: str) -> SchemaError:
    return SchemaError(message, s.Status(status), problem.offset, problem.keyword.decode(errors="replace"))
