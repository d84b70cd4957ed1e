"""Part 5 of docs/model_format.md: which values a tensor may have, and the numbers that its codes are."""
import array
import struct
import sys

from cria_reader.config_fields import BF16, BIT1, BIT2, F16, F32, INT4, INT4NL, INT8, INT8G32, NIBBLES
from cria_reader.refusal import require
from cria_reader.roles import ROLE_NUMBERS
from cria_reader.tensor_list import CODE_BITS, TILE_ROWS, VALUE_BYTES

LEAST_CODE = 0x80  # of int8 and int8g32
SIGNED_BYTES = [*range(128), *range(-128, 0)]
# The numbers that codes stand for, before the scale.
VALUES = {INT8: SIGNED_BYTES, INT8G32: SIGNED_BYTES, INT4: range(-8, 8), BIT1: (-1, 1), BIT2: (-1, 0, 1, 2),
          INT4NL: (-32, -25, -20, -16, -12, -8, -5, -3, 0, 2, 5, 8, 11, 15, 20, 28)}
SCALES = {INT8: F32, INT8G32: BF16, INT4: BF16, INT4NL: BF16, BIT1: F16, BIT2: F16}
MOST_FREQUENCY = 8.0
# Of a value's highest byte: 1 where its exponent may have all bits set.
ALL_SET = {F32: bytes(b & 0x7F == 0x7F for b in range(256)), BF16: bytes(b & 0x7F == 0x7F for b in range(256)),
           F16: bytes(b & 0x7C == 0x7C for b in range(256))}
EXPONENT = {F32: ("I", 0x7F800000), BF16: ("H", 0x7F80), F16: ("H", 0x7C00)}
LINE_BYTES, LINES = 64, 4
# For each width of a code: what a byte holds at each of its places.
CODES_OF_BYTE = {bits: [bytes(b >> shift & (1 << bits) - 1 for b in range(256)) for shift in range(0, 8, bits)]
                 for bits in (1, 2, 4, 8)}


def words(raw, kind):
    values = array.array(kind)
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def require_finite(raw, number_format, name):
    size = VALUE_BYTES[number_format]
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
    if tensor.role == ROLE_NUMBERS["rope"]:
        require_frequencies(planes[0], tensor.name)
    elif tensor.format in VALUES:
        require(CODE_BITS[tensor.format] != 8 or LEAST_CODE not in planes[0], f"{tensor.name} has a code of -128")
        if tensor.format in (BIT1, BIT2):
            require_finite(planes[1], SCALES[tensor.format], tensor.name)
        else:
            require_scales(planes[1], SCALES[tensor.format], tensor.name, tensor.has_signed_scales and tensor.format in NIBBLES)
    else:
        require_finite(planes[0], tensor.format, tensor.name)


def rows_of(tensor, planes):
    """Row by row, of a stack the rows of one matrix after the other, as little-endian f32 bytes."""
    if tensor.is_vector:
        yield planes[0]
        return
    row_of = coded_row if tensor.format in VALUES else float_row
    for matrix in range(tensor.n_matrices):
        for row in range(tensor.rows):
            tile, r = divmod(row, TILE_ROWS)
            yield row_of(tensor, planes, matrix * tensor.tiles + tile, r)


def float_row(tensor, planes, tile, r):
    size = VALUE_BYTES[tensor.format]
    tile_bytes = tensor.cols * TILE_ROWS * size
    values = words(planes[0][tile * tile_bytes:(tile + 1) * tile_bytes], EXPONENT[tensor.format][0])[r::TILE_ROWS]
    return float_bytes(floats_of(values, tensor.format))


def floats_of(values, number_format):
    """Words that are floats of this format."""
    if number_format == F16:
        return struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}H", *values))
    shift = 16 if number_format == BF16 else 0
    return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}I", *(value << shift for value in values)))


def coded_row(tensor, planes, tile, r):
    group = tensor.group or tensor.padded
    codes, numbers, out = codes_of_row(tensor, planes[0], tile, r), VALUES[tensor.format], []
    for i, scale in enumerate(scales_of_row(tensor, planes[1], tile, r)):
        out += [numbers[code] * scale for code in codes[i * group:(i + 1) * group]]
    return float_bytes(out[:tensor.cols])


def codes_of_row(tensor, plane, tile, r):
    """Of a block of four lines; of a line the four bytes of a row hold as many neighbouring inputs at each place of a code."""
    bits = CODE_BITS[tensor.format]
    tables = CODES_OF_BYTE[bits]
    tile_bytes, block_inputs = tensor.padded * TILE_ROWS * bits // 8, LINES * 4 * len(tables)
    packed = plane[tile * tile_bytes:(tile + 1) * tile_bytes]
    codes = bytearray(tensor.padded)
    for line in range(LINES):
        for i in range(4):
            of_line = packed[LINE_BYTES * line + 4 * r + i::LINE_BYTES * LINES]
            for place, table in enumerate(tables):
                codes[4 * (line + LINES * place) + i::block_inputs] = of_line.translate(table)
    return codes


def scales_of_row(tensor, plane, tile, r):
    number_format = SCALES[tensor.format]
    kind, n = EXPONENT[number_format][0], tensor.padded // tensor.group if tensor.group else 1
    scales = words(plane, kind)[tile * n * TILE_ROWS + r:(tile + 1) * n * TILE_ROWS:TILE_ROWS]
    return floats_of(scales, number_format)


def float_bytes(values):
    """Products that are exact as Python's floats, rounded once to f32."""
    out = array.array("f", values)
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()
