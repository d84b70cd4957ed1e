"""JSON documents that a model writes for a schema."""
from __future__ import annotations

import ctypes
import weakref
from typing import Optional

from . import _structs as s
from ._calls import Memory, check, problem_text, schema_error
from ._engine import Engine
from ._native import lib


class Guide:
    """One document: leaves the model at each token what the schema allows."""

    def __init__(self, engine: Engine, schema: bytes, vocabulary: ctypes.c_void_p) -> None:
        self._session = engine.host.session
        self._vocab_size = engine.vocab_size
        n_bytes = ctypes.c_size_t()
        problem = s.JsonProblem()
        text = (schema or None, len(schema))
        self._check(lib.cria_json_required(vocabulary, *text, ctypes.byref(n_bytes), ctypes.byref(problem)), problem, schema)
        self._memory = Memory(n_bytes.value)
        self._json = ctypes.c_void_p()
        self._check(lib.cria_json_make(self._memory.address, n_bytes.value, vocabulary, *text, ctypes.byref(self._json),
                                       ctypes.byref(problem)), problem, schema)
        self._state = s.JsonState()
        check(lib.cria_json_begin(self._json, ctypes.byref(self._state)))

    @property
    def n_bytes(self) -> int:
        return self._memory.n_bytes

    @staticmethod
    def _check(status: int, problem: s.JsonProblem, schema: bytes) -> None:
        if status == s.Status.CRIA_OK:
            return
        if not problem.reason:
            check(status, "the schema")
        raise schema_error(status, problem, "the schema: " + problem_text(lib.cria_host_json_problem_text, problem, schema))

    def mask(self) -> None:
        """Leaves the tokens that can come next."""
        check(lib.cria_json_mask(self._json, ctypes.byref(self._state), lib.cria_logits(self._session), self._vocab_size))

    def accept(self, token: int) -> None:
        """Takes one of them."""
        check(lib.cria_json_accept(self._json, ctypes.byref(self._state), token))

    def forced(self) -> list[int]:
        """Tokens that must follow: nobody looks for them in documents."""
        return []

    def is_closed(self) -> bool:
        """Whether nothing can follow."""
        progress: int = lib.cria_json_progress_of(self._json, ctypes.byref(self._state))
        return progress == s.JsonProgress.CLOSED


class Documents:
    """Gives guides out; the vocabulary by its bytes is made once, for the first of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._vocabulary: Optional[ctypes.c_void_p] = None
        self._memory: Optional[Memory] = None
        self._in_use: Optional[weakref.ref[Guide]] = None

    def forget(self) -> None:
        self._vocabulary = self._memory = None

    @property
    def n_bytes(self) -> int:
        guide = self._in_use() if self._in_use is not None else None
        return sum(taken.n_bytes for taken in (self._memory, guide) if taken is not None)

    def vocabulary(self) -> ctypes.c_void_p:
        if self._vocabulary is None:
            model = self._engine.host.model
            n_bytes = ctypes.c_size_t()
            check(lib.cria_json_vocabulary_required(model, ctypes.byref(n_bytes)), self._engine.path)
            memory, vocabulary = Memory(n_bytes.value), ctypes.c_void_p()
            check(lib.cria_json_make_vocabulary(memory.address, n_bytes.value, model, ctypes.byref(vocabulary)))
            self._memory, self._vocabulary = memory, vocabulary
        return self._vocabulary

    def guide(self, schema: Optional[bytes]) -> Optional[Guide]:
        """None: the answer is free."""
        if schema is None:
            return None
        guide = Guide(self._engine, schema, self.vocabulary())
        self._in_use = weakref.ref(guide)
        return guide
