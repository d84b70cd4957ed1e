"""Part 3 of docs/model_format.md: the directory, which says the formats of the tensors that a config has."""
import struct

from cria_reader.config_fields import (BF16, BIT1, BIT2, F16, F32, FORMATS, INT4, INT4NL, INT8, INT8G32, NONE, SIGNED_SCALES)
from cria_reader.file_layout import round_up
from cria_reader.refusal import require
from cria_reader.roles import MATRIX, STAYING, VECTOR, all_shapes

ENTRY_FORMAT = "<HHIB3sIIIIIQ"
ENTRY_BYTES = 40
TILE_ROWS = 16
INT8_PADDING = 32
CHUNK_BYTES = 1 << 18
GROUP_AT, FORMAT_AT = 1, 3  # among an entry's fields
VALUE_BYTES = {F32: 4, F16: 2, BF16: 2}
CODE_BITS = {INT8: 8, INT8G32: 8, INT4: 4, INT4NL: 4, BIT1: 1, BIT2: 2}
APART_BITS = {F16: 16, BF16: 16, INT8: 8, INT8G32: 8, INT4: 4, INT4NL: 4}  # of values whose upper bits may be apart
SCALE_BYTES = 2  # of a group


class Tensor:
    def __init__(self, layer, shape, matrix_format=(F32, 0), has_signed_scales=False):
        """matrix_format: (number format, group size). has_signed_scales: those of nibbles."""
        self.layer, self.role, self.is_vector = layer, shape.number, shape.form == VECTOR
        self.name = shape.name if layer == NONE else f"layers.{layer}.{shape.name}"
        self.n_matrices, self.rows, self.cols = shape.count, shape.rows, shape.cols
        (self.format, self.group), self.has_signed_scales = matrix_format, has_signed_scales
        self.tiles = round_up(self.rows, TILE_ROWS) // TILE_ROWS  # of a matrix
        self.padded = round_up(self.cols, self.group or (INT8_PADDING if self.format == INT8 else 1))
        self.planes = self.plane_bytes()
        self.first_chunk = 0

    def plane_bytes(self):
        if self.is_vector:
            return (self.cols * VALUE_BYTES[F32],)
        tiles = self.n_matrices * self.tiles
        if self.format in VALUE_BYTES:
            return (tiles * self.cols * TILE_ROWS * VALUE_BYTES[self.format],)
        scales = self.padded // self.group * SCALE_BYTES if self.group else VALUE_BYTES[F32]
        return (tiles * self.padded * TILE_ROWS * CODE_BITS[self.format] // 8, tiles * TILE_ROWS * scales)

    def stays(self):
        """Whether its chunks are stored where the config has compression 2."""
        return self.role in STAYING

    def chunks(self):
        """Raw bytes of each chunk, and the bits of a value where its upper ones may be apart, else 0: the planes are cut one after
        the other."""
        bits = 0 if self.is_vector else APART_BITS.get(self.format, 0)
        of_scales = 16 if self.group and bits else 0
        for plane, value_bits in zip(self.planes, (bits, of_scales)):
            for at in range(0, plane, CHUNK_BYTES):
                yield min(CHUNK_BYTES, plane - at), value_bits

    def n_chunks(self):
        return sum(-(-plane // CHUNK_BYTES) for plane in self.planes)


def read_directory(raw, config):
    require(len(raw) % ENTRY_BYTES == 0, "the size of the directory")
    entries, tensors, chunk = struct.iter_unpack(ENTRY_FORMAT, raw), [], 0
    left = {(count["kind"], count["role"], FORMATS[count["format"]]): count["count"] for count in config["counts"]}
    for layer, kind, shape in all_shapes(config):
        entry = next(entries, None)
        require(entry is not None, "the directory lacks tensors")
        matrix_format = (F32, 0)
        if shape.form == MATRIX:
            matrix_format = (entry[FORMAT_AT], entry[GROUP_AT])
            counted = (kind, shape.number, matrix_format)
            require(left.get(counted, 0) > 0, f"the format of a {shape.name}")
            left[counted] -= 1
        tensor = Tensor(layer, shape, matrix_format, bool(config["flags"] & SIGNED_SCALES))
        tensor.first_chunk = chunk
        wanted = (tensor.role, tensor.group, layer, tensor.format, bytes(3), tensor.rows, tensor.cols, chunk, tensor.n_chunks(),
                  tensor.n_matrices, sum(tensor.planes))
        require(entry == wanted, f"the directory's entry of {tensor.name}")
        chunk += tensor.n_chunks()
        tensors.append(tensor)
    require(next(entries, None) is None, "the directory has too many tensors")
    return tensors
