"""Finds the shared library and declares its functions.

libcria.so.0 is the library, libcria_host.so.0 opens a model with threads and a mapped file. Both lie in one folder.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Iterator, Optional

from . import _structs as s

VERSION = "0.1.0"
ENVIRONMENT = "CRIA_LIBRARY"
LIBRARY = "libcria.so.0"
HOST = "libcria_host.so.0"
BUILDS = ("release", "")  # folders of the repository's build/, before any others

_TEXT = (c_char_p, c_size_t)

# name: (result, arguments)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cria_host_open": (POINTER(s.Host), (c_char_p, POINTER(s.HostOptions), POINTER(s.HostProblem))),
    "cria_host_close": (None, (POINTER(s.Host),)),
    "cria_host_cancel": (None, (POINTER(s.Host), c_int)),
    "cria_host_calls_taken": (c_int, (POINTER(s.Host),)),
    "cria_host_conversation_read": (POINTER(s.ConversationStruct), (POINTER(s.Host), *_TEXT, POINTER(s.HostProblem))),
    "cria_host_conversation_close": (None, (POINTER(s.ConversationStruct),)),
    "cria_host_call_problem_text": (None, (POINTER(s.CallProblem), *_TEXT, c_char_p, c_size_t)),
    "cria_host_json_problem_text": (None, (POINTER(s.JsonProblem), *_TEXT, c_char_p, c_size_t)),
    "cria_version": (c_char_p, ()),
    "cria_status_message": (c_char_p, (c_int,)),
    "cria_architecture_name": (c_char_p, (c_uint32,)),
    "cria_find_layer_kind": (c_int, (POINTER(s.ModelInfoStruct), c_uint32, POINTER(s.LayerKindStruct))),
    "cria_number_format_name": (c_char_p, (c_int,)),
    "cria_chat_template_name": (c_char_p, (c_uint32,)),
    "cria_backend_name": (c_char_p, (c_void_p,)),
    "cria_isa_name": (c_char_p, (c_void_p,)),
    "cria_is_end_token": (c_int, (c_void_p, c_uint32)),
    "cria_longest_token_bytes": (c_size_t, (c_void_p,)),
    "cria_encode": (c_int, (c_void_p, *_TEXT, c_uint32, POINTER(c_uint32), c_size_t, POINTER(c_size_t))),
    "cria_decode_token": (c_int, (c_void_p, POINTER(s.TextState), c_uint32, c_char_p, c_size_t, POINTER(c_size_t))),
    "cria_token_text": (c_void_p, (c_void_p, c_uint32, POINTER(c_size_t))),
    "cria_token_is_special": (c_int, (c_void_p, c_uint32)),
    "cria_encode_chat": (c_int, (c_void_p, POINTER(s.ConversationStruct), c_size_t, POINTER(c_uint32), c_size_t, POINTER(c_size_t))),
    "cria_chat_opening": (c_int, (c_void_p, POINTER(s.ConversationStruct), c_char_p, c_size_t, POINTER(c_size_t))),
    "cria_call_format": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "cria_calls_written": (c_uint32, _TEXT),
    "cria_calls_required": (c_int, (*_TEXT, *_TEXT, c_size_t, POINTER(c_size_t))),
    "cria_calls_make": (c_int, (c_void_p, c_size_t, *_TEXT, *_TEXT, c_size_t, POINTER(c_void_p))),
    "cria_calls_take": (None, (c_void_p, c_int)),
    "cria_calls_begin": (c_int, (c_void_p, *_TEXT)),
    "cria_calls_read": (c_int, (c_void_p, *_TEXT, s.CALLS_TELL, c_void_p)),
    "cria_calls_finish": (c_int, (c_void_p, c_int, s.CALLS_TELL, c_void_p, POINTER(c_int))),
    "cria_call_grammar_required": (c_int, (c_void_p, POINTER(s.CallOrder), POINTER(c_size_t), POINTER(s.CallProblem))),
    "cria_call_grammar_make": (c_int, (c_void_p, c_size_t, c_void_p, POINTER(s.CallOrder), POINTER(c_void_p), POINTER(s.CallProblem))),
    "cria_call_grammar_begin": (c_int, (c_void_p, *_TEXT, POINTER(s.CallState))),
    "cria_call_grammar_mask": (c_int, (c_void_p, POINTER(s.CallState), POINTER(c_float), c_size_t)),
    "cria_call_grammar_accept": (c_int, (c_void_p, POINTER(s.CallState), c_uint32)),
    "cria_call_grammar_forced_tokens": (c_int, (c_void_p, POINTER(s.CallState), c_void_p, POINTER(c_uint32), c_size_t, POINTER(c_size_t))),
    "cria_call_grammar_progress_of": (c_int, (c_void_p, POINTER(s.CallState))),
    "cria_chat_refusal": (c_char_p, (c_void_p, POINTER(s.ConversationStruct))),
    "cria_step": (c_int, (c_void_p, POINTER(s.BatchEntry), c_size_t)),
    "cria_embedding_pooling": (c_int, (c_void_p,)),
    "cria_embedding_add": (c_int, (c_void_p, POINTER(c_float), c_size_t, c_size_t, POINTER(c_float))),
    "cria_embedding_finish": (c_int, (c_void_p, c_size_t, c_uint32, POINTER(c_float))),
    "cria_logits": (POINTER(c_float), (c_void_p,)),
    "cria_sample": (c_int, (c_void_p, c_void_p, POINTER(s.Sampling), POINTER(c_uint32))),
    "cria_seed": (None, (c_void_p, c_uint64)),
    "cria_position": (c_uint32, (c_void_p,)),
    "cria_context": (c_uint32, (c_void_p,)),
    "cria_keep_snapshot": (c_int, (c_void_p, c_uint32)),
    "cria_reset": (c_int, (c_void_p, c_uint32)),
    "cria_tokens": (POINTER(c_uint32), (c_void_p,)),
    "cria_chat_required": (c_int, (c_void_p, POINTER(s.ChatConfig), POINTER(c_size_t))),
    "cria_chat_make": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, POINTER(s.ChatConfig), POINTER(c_void_p))),
    "cria_chat_begin": (c_int, (c_void_p, *_TEXT)),
    "cria_chat_add": (c_int, (c_void_p, c_int, *_TEXT)),
    "cria_chat_ask": (c_int, (c_void_p, c_void_p, *_TEXT, c_uint32, POINTER(s.BatchEntry))),
    "cria_chat_next": (c_int, (c_void_p, c_void_p, POINTER(s.Sampling), POINTER(s.ChatPiece), POINTER(s.BatchEntry))),
    "cria_chat_stop": (None, (c_void_p,)),
    "cria_chat_n_dropped": (c_uint64, (c_void_p,)),
    "cria_json_vocabulary_required": (c_int, (c_void_p, POINTER(c_size_t))),
    "cria_json_make_vocabulary": (c_int, (c_void_p, c_size_t, c_void_p, POINTER(c_void_p))),
    "cria_json_required": (c_int, (c_void_p, *_TEXT, POINTER(c_size_t), POINTER(s.JsonProblem))),
    "cria_json_make": (c_int, (c_void_p, c_size_t, c_void_p, *_TEXT, POINTER(c_void_p), POINTER(s.JsonProblem))),
    "cria_json_begin": (c_int, (c_void_p, POINTER(s.JsonState))),
    "cria_json_mask": (c_int, (c_void_p, POINTER(s.JsonState), POINTER(c_float), c_size_t)),
    "cria_json_accept": (c_int, (c_void_p, POINTER(s.JsonState), c_uint32)),
    "cria_json_progress_of": (c_int, (c_void_p, POINTER(s.JsonState))),
}


def _chosen_folder(value: str) -> pathlib.Path:
    """The folder that CRIA_LIBRARY means: itself, or that of the library it names."""
    path = pathlib.Path(value).expanduser()
    return path if path.is_dir() else path.parent


def _folders() -> Iterator[pathlib.Path]:
    """Where the libraries may lie, if the system's loader does not know them."""
    package = pathlib.Path(__file__).resolve().parent
    yield package
    root = package.parent.parent
    if not (root / "CMakePresets.json").is_file():  # installed: lib/python3/dist-packages/cria, lib/TRIPLET/libcria.so.0
        if len(package.parents) > 2:
            yield from (found.parent for found in sorted(package.parents[2].glob(f"*/{LIBRARY}")))
        return
    builds = [root / "build" / name for name in BUILDS]
    builds += sorted(folder for folder in root.glob("build*/*") if folder.is_dir() and folder not in builds)
    for build in builds:
        yield build / "lib"


def _open(folder: Optional[pathlib.Path]) -> Optional[ctypes.CDLL]:
    """The libraries of a folder, or None where it has none or they are another machine's; None: those of the system."""
    names = (LIBRARY, HOST)
    if folder is not None and not all((folder / name).is_file() for name in names):
        return None
    try:
        for name in names:  # the second one finds the first by its name, as it is loaded already
            opened = ctypes.CDLL(str(folder / name) if folder is not None else name)
        return opened
    except OSError:
        return None


def _find() -> ctypes.CDLL:
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        library = _open(_chosen_folder(chosen))
        if library is None:
            raise ImportError(f"{ENVIRONMENT}={chosen}: no {LIBRARY} and {HOST} there that this Python can load")
        return library
    tried = []
    for folder in _folders():
        library = _open(folder)
        if library is not None:
            return library
        tried.append(str(folder))
    library = _open(None)
    if library is not None:
        return library
    found = ctypes.util.find_library("cria_host")
    library = _open(pathlib.Path(found).parent) if found and os.path.isabs(found) else None
    if library is None:
        raise ImportError(f"no {LIBRARY} and {HOST} in {', '.join(tried)} or on the loader's path; build them (scripts/setup.sh "
                          f"&& cmake --preset release && cmake --build --preset release), install libcria0, or set {ENVIRONMENT} to their "
                          "folder")
    return library


def _load() -> ctypes.CDLL:
    library = _find()
    # Functions of libcria.so.0 are found through the other one, which needs it.
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    found = library.cria_version().decode()
    if found.split(".")[:2] != VERSION.split(".")[:2]:
        raise ImportError(f"{library._name}: version {found}, which this module ({VERSION}) does not know")
    return library


lib = _load()
