"""The structs and enumerations of cria.h, cria_chat.h, cria_json.h and cria_host.h, as ctypes has them."""
from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

NO_TOKEN = 0xFFFFFFFF
TEXT_BYTES = 1024

ENCODE_SPECIAL = 1
ENCODE_PARSE = 2

TURN_OPENED = 1


class Status(enum.IntEnum):
    """cria_status; CriaError.status is one of them."""

    CRIA_OK = 0
    CRIA_INVALID_ARGUMENT = 1
    CRIA_NOT_A_MODEL = 2
    CRIA_UNSUPPORTED_VERSION = 3
    CRIA_CORRUPT = 4
    CRIA_TRUNCATED = 5
    CRIA_READ_FAILED = 6
    CRIA_MEMORY_TOO_SMALL = 7
    CRIA_MISALIGNED = 8
    CRIA_UNSUPPORTED = 9
    CRIA_NO_TOKENIZER = 10
    CRIA_NO_CHAT_TEMPLATE = 11
    CRIA_TEXT_TOO_LONG = 12
    CRIA_BUFFER_TOO_SMALL = 13
    CRIA_CONTEXT_FULL = 14
    CRIA_NOTHING_TO_SAMPLE = 15
    CRIA_BAD_STATE = 16
    CRIA_BACKEND_FAILED = 17
    CRIA_INVALID_MODEL = 18
    CRIA_NO_WEIGHTS = 19
    CRIA_CANCELLED = 20
    CRIA_FORGOTTEN = 21
    CRIA_REFUSED_BY_TEMPLATE = 22


class Role(enum.IntEnum):
    """cria_role."""

    SYSTEM = 0
    USER = 1
    ASSISTANT = 2
    TOOL = 3


class CallsKind(enum.IntEnum):
    """cria_calls_kind."""

    TEXT = 0
    THINKING = 1
    BEGIN = 2
    ARGUMENTS = 3
    END = 4
    BROKEN = 5


class CallProgress(enum.IntEnum):
    """cria_call_progress."""

    TEXT = 0
    OPEN = 1
    WHOLE = 2
    CLOSED = 3


class Pooling(enum.IntEnum):
    """cria_pooling."""

    LAST = 1
    MEAN = 2
    FIRST = 3


class ChatEnd(enum.IntEnum):
    """cria_chat_end."""

    ANSWERED = 0
    LIMIT = 1
    STOPPED = 2
    FULL = 3


class JsonProgress(enum.IntEnum):
    """cria_json_progress."""

    OPEN = 0
    WHOLE = 1
    CLOSED = 2


class HostCalls(enum.IntEnum):
    """cria_host_calls."""

    NO_CALLS = 0
    ONE_CALL = 1
    ANY_CALLS = 2


# Of cria_host_options: what an option is called, and its number there.
BACKENDS = {"auto": 0, "exact": 1, "xnnpack": 2}
KV_FORMATS = {"auto": 0, "int8": 1, "f32": 2, "k8v4": 3}


class ModelInfoStruct(ctypes.Structure):
    """cria_model_info."""

    _fields_ = [
        *((name, c_uint64) for name in (
            "file_bytes", "n_parameters", "weight_bytes", "embedding_bytes", "n_active_parameters", "active_bytes",
            "tokenizer_bytes", "chat_template_bytes", "metadata_offset", "metadata_bytes")),
        *((name, c_uint32) for name in (
            "format_version", "architecture", "n_layers", "n_layer_kinds", "d_model", "vocab_size", "max_context",
            "planned_context", "bos_token")),
        ("weight_format", c_int),
        ("embedding_format", c_int),
        ("group_size", c_uint32),
        ("chat_template", c_uint32),
        *((name, c_uint8) for name in (
            "tied_embedding", "compressed", "has_tokenizer", "signed_scales", "can_drop", "pooling", "unit_embeddings",
            "keeps_blocks")),
        ("reserved", c_uint8 * 8),
        ("config_bytes", c_uint32),
        ("private_config", c_uint64 * 512),
        ("refused", c_char_p),
    ]


class LayerKindStruct(ctypes.Structure):
    """cria_layer_kind."""

    _fields_ = [
        ("n_layers", c_uint32),
        ("mixer", c_int),
        ("feed_forward", c_int),
        *((name, c_uint32) for name in (
            "n_heads", "n_kv_heads", "n_states", "key_dim", "value_dim", "window", "has_rope", "original_context", "d_ff", "n_experts",
            "n_chosen", "expert_ff")),
    ]


class ModelPlanStruct(ctypes.Structure):
    """cria_memory_plan.model."""

    _fields_ = [(name, c_uint64) for name in ("total", "objects", "tokenizer", "weights", "backend")]


class SessionPlanStruct(ctypes.Structure):
    """cria_memory_plan.session."""

    _fields_ = [(name, c_uint64) for name in ("total", "objects", "kv_cache", "history", "logits")]


class WorkspacePlanStruct(ctypes.Structure):
    """cria_memory_plan.workspace."""

    _fields_ = [(name, c_uint64) for name in ("total", "objects", "backend", "running", "sampling", "encoding")]


class MemoryPlanStruct(ctypes.Structure):
    """cria_memory_plan."""

    _fields_ = [
        ("model", ModelPlanStruct),
        ("session", SessionPlanStruct),
        ("workspace", WorkspacePlanStruct),
        *((name, c_uint64) for name in ("loading", "total", "in_place")),
    ]


class TextState(ctypes.Structure):
    """cria_text_state."""

    _fields_ = [("pending", c_uint8 * 4), *((name, c_uint8) for name in ("n_pending", "started", "show_special", "reserved"))]


class MessageStruct(ctypes.Structure):
    """cria_message."""

    _fields_ = [("role", c_int), ("text", c_char_p), ("n_bytes", c_size_t)]


class TextStruct(ctypes.Structure):
    """cria_text."""

    _fields_ = [("text", c_char_p), ("n_bytes", c_size_t)]


class CallStruct(ctypes.Structure):
    """cria_call."""

    _fields_ = [("name", TextStruct), ("arguments", TextStruct), ("id", TextStruct)]


class MessagePartsStruct(ctypes.Structure):
    """cria_message_parts."""

    _fields_ = [("thinking", TextStruct), ("calls", POINTER(CallStruct)), ("n_calls", c_size_t), ("name", TextStruct), ("id", TextStruct)]


class CallsEvent(ctypes.Structure):
    """cria_calls_event."""

    _fields_ = [("kind", c_int), ("call", c_uint32), ("text", c_void_p), ("n_bytes", c_size_t), ("id", c_void_p), ("n_id", c_size_t)]


CALLS_TELL = ctypes.CFUNCTYPE(None, c_void_p, POINTER(CallsEvent))


class ConversationStruct(ctypes.Structure):
    """cria_conversation."""

    _fields_ = [("messages", POINTER(MessageStruct)), ("n_messages", c_size_t), ("ending", c_int), ("thinking", c_int),
                ("parts", c_void_p), ("tools", c_void_p), ("n_tools", c_size_t)]


class Hidden(ctypes.Structure):
    """cria_hidden."""

    _fields_ = [("rows", POINTER(c_float)), ("n_rows", c_size_t), ("instead_of_logits", c_uint8), ("reserved", c_uint8 * 7)]


class BatchEntry(ctypes.Structure):
    """cria_batch_entry."""

    _fields_ = [("session", c_void_p), ("tokens", POINTER(c_uint32)), ("n_tokens", c_size_t), ("all_logits", POINTER(c_float)),
                ("hidden", Hidden)]


class LogitBias(ctypes.Structure):
    """cria_logit_bias."""

    _fields_ = [("token", c_uint32), ("bias", c_float)]


class Sampling(ctypes.Structure):
    """cria_sampling."""

    _fields_ = [
        ("biases", POINTER(LogitBias)),
        ("n_biases", c_size_t),
        ("repeat_penalty", c_float),
        ("frequency_penalty", c_float),
        ("presence_penalty", c_float),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
    ]


class ChatConfig(ctypes.Structure):
    """cria_chat_config."""

    _fields_ = [("max_messages", c_uint32), ("max_text_bytes", c_uint32), ("exact_context", c_uint8), ("reserved", c_uint8 * 7)]


class ChatPiece(ctypes.Structure):
    """cria_chat_piece."""

    _fields_ = [("token", c_uint32), ("text", c_void_p), ("n_bytes", c_size_t), ("is_last", c_int), ("end", c_int)]


class JsonProblem(ctypes.Structure):
    """cria_json_problem."""

    _fields_ = [("offset", c_size_t), ("reason", c_char_p), ("keyword", c_char * 48)]


class CallOrder(ctypes.Structure):
    """cria_call_order."""

    _fields_ = [("format", c_char_p), ("n_format", c_size_t), ("tools", c_char_p), ("n_tools", c_size_t), ("choice", c_int),
                ("name", c_char_p), ("n_name", c_size_t), ("one_call", c_int), ("thinks", c_int)]


class CallProblem(ctypes.Structure):
    """cria_call_problem."""

    _fields_ = [("tool", c_char * 132), ("schema", JsonProblem)]


class CallState(ctypes.Structure):
    """cria_call_state."""

    _fields_ = [("bytes", c_uint64 * 384)]


class JsonState(ctypes.Structure):
    """cria_json_state."""

    _fields_ = [("bytes", c_uint64 * 384)]


class HostOptions(ctypes.Structure):
    """cria_host_options."""

    _fields_ = [
        *((name, c_uint32) for name in (
            "context", "n_threads", "prefill_chunk", "max_text_bytes", "backend", "isa_mask", "kv_format")),
        ("never_map", c_uint8),
        ("reserved", c_uint8 * 3),
    ]


class Host(ctypes.Structure):
    """cria_host."""

    _fields_ = [
        ("model", c_void_p),
        ("session", c_void_p),
        ("workspace", c_void_p),
        ("n_threads", c_uint32),
        ("is_mapped", c_uint32),
        ("info", ModelInfoStruct),
        ("plan", MemoryPlanStruct),
    ]


class HostProblem(ctypes.Structure):
    """cria_host_problem."""

    _fields_ = [("status", c_int32), ("exit_code", c_int32), ("message", c_char * 504)]
