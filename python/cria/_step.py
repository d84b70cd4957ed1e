"""A step that Ctrl-C can end."""
from __future__ import annotations

import ctypes
import threading
from _thread import start_new_thread
from typing import Any

from . import _structs as s
from ._native import lib


class Step:
    """cria_step of one entry on a thread of its own, so that the main thread can hear Ctrl-C meanwhile.

    Ctrl-C can come between any two operations of the main thread, and again while the first one is dealt with. So what
    matters is done by single operations that can be repeated: the step is begun or given up, whichever of the two threads
    says so first; `is_over` is true for good; the lock only wakes up. The thread is the bare one of _thread, which is
    started by one call: what threading.Thread does around it can be torn apart.
    """

    _BEGUN = "begun"
    _GIVEN_UP = "given up"

    def __init__(self, owner: object, handle: Any, entry: s.BatchEntry) -> None:
        self._owner = owner  # of the handle: its memory stays until the step is over
        self._handle = handle
        self._entry = entry
        self._workspace = handle.contents.workspace
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
                self.status = lib.cria_step(self._workspace, ctypes.byref(self._entry), 1)
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
            lib.cria_host_cancel(self._handle, 1)
            self.wait()
