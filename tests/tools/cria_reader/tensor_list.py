"""Part 3 of docs/model_format.md: the tensors a config has, and the directory, which says their formats."""
import struct

from cria_reader.file_layout import round_up
from cria_reader.model_config import (BF16, F16, F32, INT4, INT4NL, INT8, INT8G32, LONG_ROPE, MLP_BIAS, NONE, OUTPUT_BIAS, QK_NORM,
                                      QKV_BIAS, SIGNED_SCALES, TIED)
from cria_reader.refusal import require

ENTRY_FORMAT = "<HHIB3sIIIIIQ"
ENTRY_BYTES = 40
TILE_ROWS = 16
INT8_PADDING = 32
CHUNK_BYTES = 1 << 18
GROUP_AT, FORMAT_AT = 1, 3  # among an entry's fields
ROLES = ("rope embedding attention_norm q k v o ffn_norm gate up down final_norm lm_head q.bias k.bias v.bias o.bias "
         "gate.bias up.bias down.bias q_norm k_norm rope_long").split()
VALUE_BYTES = {F32: 4, F16: 2, BF16: 2}
VALUE_BITS = {F16: 16, BF16: 16, INT8: 8, INT8G32: 8, INT4: 4, INT4NL: 4}  # of values whose upper bits may be apart


class Tensor:
    def __init__(self, role, layer, rows, cols, matrix_format=None, has_signed_scales=False):
        """matrix_format: (number format, group size); None for a vector. has_signed_scales: those of nibbles."""
        self.has_signed_scales = has_signed_scales
        self.role, self.layer, self.rows, self.cols = role, layer, rows, cols
        self.is_matrix = matrix_format is not None
        self.format, self.group = matrix_format or (F32, 0)
        self.name = role if layer == NONE else f"layers.{layer}.{role}"
        self.tiles = round_up(rows, TILE_ROWS) // TILE_ROWS
        self.first_chunk = 0
        if not self.is_matrix:
            self.padded, self.planes = cols, (cols * VALUE_BYTES[F32],)
        elif self.group:
            self.padded = round_up(cols, self.group)
            code_bytes = TILE_ROWS if self.format == INT8G32 else TILE_ROWS // 2
            self.planes = (self.tiles * self.padded * code_bytes, self.tiles * (self.padded // self.group) * TILE_ROWS * 2)
        elif self.format == INT8:
            self.padded = round_up(cols, INT8_PADDING)
            self.planes = (self.tiles * self.padded * TILE_ROWS, self.tiles * TILE_ROWS * 4)
        else:
            self.padded, self.planes = cols, (self.tiles * cols * TILE_ROWS * VALUE_BYTES[self.format],)

    def chunks(self):
        """Raw bytes of each chunk, and the bits of a value where its upper ones may be apart, else 0: the planes are cut one after
        the other."""
        of_scales = [16 if self.group else 0] * (len(self.planes) - 1)
        for plane, bits in zip(self.planes, [VALUE_BITS.get(self.format, 0) if self.is_matrix else 0, *of_scales]):
            for at in range(0, plane, CHUNK_BYTES):
                yield min(CHUNK_BYTES, plane - at), bits

    def n_chunks(self):
        return sum(-(-plane // CHUNK_BYTES) for plane in self.planes)


def tensors_of(config):
    """(role, layer, rows, cols, is_matrix) in the canonical order. Lazily: a config may ask for more than its file can hold."""
    d, ff, flags = config["d_model"], config["d_ff"], config["flags"]
    q, kv = config["n_heads"] * config["head_dim"], config["n_kv_heads"] * config["head_dim"]
    yield "rope", NONE, 1, config["rotary_dim"] // 2, False
    if flags & LONG_ROPE:
        yield "rope_long", NONE, 1, config["rotary_dim"] // 2, False
    yield "embedding", NONE, config["vocab_size"], d, True
    in_attention = (("q", q, d, QKV_BIAS), ("k", kv, d, QKV_BIAS), ("v", kv, d, QKV_BIAS), ("o", d, q, OUTPUT_BIAS))
    in_ffn = (("gate", ff, d, MLP_BIAS), ("up", ff, d, MLP_BIAS), ("down", d, ff, MLP_BIAS))
    for layer in range(config["n_layers"]):
        for norm, matrices in (("attention_norm", in_attention), ("ffn_norm", in_ffn)):
            yield norm, layer, 1, d, False
            for role, rows, cols, bias in matrices:
                yield role, layer, rows, cols, True
                if flags & bias:
                    yield f"{role}.bias", layer, 1, rows, False
                if role == "v" and flags & QK_NORM:
                    yield "q_norm", layer, 1, config["head_dim"], False
                    yield "k_norm", layer, 1, config["head_dim"], False
    yield "final_norm", NONE, 1, d, False
    if not flags & TIED:
        yield "lm_head", NONE, config["vocab_size"], d, True


def read_directory(raw, config):
    require(len(raw) % ENTRY_BYTES == 0, "the size of the directory")
    entries, tensors, chunk = struct.iter_unpack(ENTRY_FORMAT, raw), [], 0
    left = {name: dict(counts) for name, counts in config["n_matrices"].items()}
    for role, layer, rows, cols, is_matrix in tensors_of(config):
        entry = next(entries, None)
        require(entry is not None, "the directory lacks tensors")
        matrix_format = (entry[FORMAT_AT], entry[GROUP_AT]) if is_matrix else None
        if is_matrix:
            require(left[role].get(matrix_format, 0) > 0, f"the format of a {role}")
            left[role][matrix_format] -= 1
        tensor = Tensor(role, layer, rows, cols, matrix_format, bool(config["flags"] & SIGNED_SCALES))
        tensor.first_chunk = chunk
        wanted = (ROLES.index(tensor.role), tensor.group, tensor.layer, tensor.format, bytes(3), tensor.rows, tensor.cols,
                  chunk, tensor.n_chunks(), 0, sum(tensor.planes))
        require(entry == wanted, f"the directory's entry of {tensor.name}")
        chunk += tensor.n_chunks()
        tensors.append(tensor)
    require(next(entries, None) is None, "the directory has too many tensors")
    return tensors
