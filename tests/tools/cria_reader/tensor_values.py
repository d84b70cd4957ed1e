"""Part 5 of docs/model_format.md: which values a tensor may have, and the numbers that its codes are."""
import array
import struct
import sys

from cria_reader.model_config import BF16, F16, F32, INT4, INT4NL, INT8, INT8G32, NIBBLES
from cria_reader.refusal import require
from cria_reader.tensor_list import TILE_ROWS

LEAST_CODE = 0x80  # of int8 and int8g32
UNEVEN = (-32, -25, -20, -16, -12, -8, -5, -3, 0, 2, 5, 8, 11, 15, 20, 28)  # what nibbles of int4nl stand for
MOST_FREQUENCY = 8.0
# Of a value's highest byte: 1 where its exponent may have all bits set.
ALL_SET = {F32: bytes(b & 0x7F == 0x7F for b in range(256)), BF16: bytes(b & 0x7F == 0x7F for b in range(256)),
           F16: bytes(b & 0x7C == 0x7C for b in range(256))}
EXPONENT = {F32: ("I", 0x7F800000), BF16: ("H", 0x7F80), F16: ("H", 0x7C00)}
LOW_NIBBLES = bytes(b & 15 for b in range(256))
HIGH_NIBBLES = bytes(b >> 4 for b in range(256))


def words(raw, kind):
    values = array.array(kind)
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def require_finite(raw, number_format, name):
    size = 4 if number_format == F32 else 2
    if b"\1" not in raw[size - 1::size].translate(ALL_SET[number_format]):
        return
    kind, mask = EXPONENT[number_format]
    require(all(word & mask != mask for word in words(raw, kind)), f"{name} has a value that is not finite")


def require_scales(raw, number_format, name, are_signed):
    """Zero, or normal and, unless are_signed, positive."""
    kind, exponent = EXPONENT[number_format]
    least = exponent & -exponent
    mask = 0x7FFF if are_signed else -1
    require(all(word == 0 or least <= word & mask < exponent for word in words(raw, kind)), f"{name} has a scale that is none")


def require_frequencies(raw, name):
    """The bits of floats that are not negative are in their order."""
    most, = struct.unpack("<I", struct.pack("<f", MOST_FREQUENCY))
    require(all(word <= most for word in words(raw, "I")), f"{name} has a frequency that is none")


def check_values(tensor, planes):
    if tensor.role in ("rope", "rope_long"):
        require_frequencies(planes[0], tensor.name)
    elif tensor.format in (INT8, INT8G32, *NIBBLES):
        has_nibbles = tensor.format in NIBBLES
        require(has_nibbles or LEAST_CODE not in planes[0], f"{tensor.name} has a code of -128")
        require_scales(planes[1], F32 if tensor.format == INT8 else BF16, tensor.name, tensor.has_signed_scales and has_nibbles)
    else:
        require_finite(planes[0], tensor.format, tensor.name)


def rows_of(tensor, planes):
    """Row by row, as little-endian f32 bytes."""
    if not tensor.is_matrix:
        yield planes[0]
        return
    by_format = {F32: float_row, F16: float_row, BF16: float_row, INT8: int8_row, INT8G32: int8_row, INT4: int4_row,
                 INT4NL: int4_row}[tensor.format]
    for row in range(tensor.rows):
        yield by_format(tensor, planes, *divmod(row, TILE_ROWS))


def float_row(tensor, planes, tile, r):
    kind = "I" if tensor.format == F32 else "H"
    size = 4 if tensor.format == F32 else 2
    tile_bytes = tensor.cols * TILE_ROWS * size
    values = words(planes[0][tile * tile_bytes:(tile + 1) * tile_bytes], kind)[r::TILE_ROWS]
    if tensor.format == F32:
        return struct.pack(f"<{tensor.cols}I", *values)
    if tensor.format == BF16:
        return struct.pack(f"<{tensor.cols}I", *(value << 16 for value in values))
    raw = struct.pack(f"<{tensor.cols}H", *values)
    return struct.pack(f"<{tensor.cols}f", *struct.unpack(f"<{tensor.cols}e", raw))


def int8_row(tensor, planes, tile, r):
    tile_bytes = tensor.padded * TILE_ROWS
    codes = planes[0][tile * tile_bytes:(tile + 1) * tile_bytes]
    of_row = bytearray(tensor.padded)
    for i in range(4):
        of_row[i::4] = codes[4 * r + i::64]
    signed = memoryview(of_row).cast("b")
    if tensor.format == INT8:
        scales, group = struct.unpack_from("<f", planes[1], (tile * TILE_ROWS + r) * 4), tensor.padded
    else:
        scales, group = group_scales(tensor, planes[1], tile, r), tensor.group
    out = [code * scale for i, scale in enumerate(scales) for code in signed[i * group:(i + 1) * group]]
    return product_bytes(out[:tensor.cols])


def group_scales(tensor, plane, tile, r):
    groups = tensor.padded // tensor.group
    scales = words(plane, "H")[tile * groups * TILE_ROWS + r:(tile + 1) * groups * TILE_ROWS:TILE_ROWS]
    return [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in scales]


def int4_row(tensor, planes, tile, r):
    tile_bytes = tensor.padded * 8
    packed = planes[0][tile * tile_bytes:(tile + 1) * tile_bytes]
    codes = bytearray(tensor.padded)
    for line in range(4):
        for i in range(4):
            line_bytes = packed[64 * line + 4 * r + i::256]
            codes[4 * line + i::32] = line_bytes.translate(LOW_NIBBLES)
            codes[16 + 4 * line + i::32] = line_bytes.translate(HIGH_NIBBLES)
    out = []
    for group, scale in enumerate(group_scales(tensor, planes[1], tile, r)):
        products = [value * scale for value in (UNEVEN if tensor.format == INT4NL else range(-8, 8))]
        out += [products[code] for code in codes[group * tensor.group:(group + 1) * tensor.group]]
    return product_bytes(out[:tensor.cols])


def product_bytes(products):
    """Products that are exact as Python's floats, rounded once to f32."""
    values = array.array("f", products)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
