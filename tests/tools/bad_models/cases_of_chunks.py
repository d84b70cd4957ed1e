"""Breaks part 4 of docs/model_format.md: the chunk table, the chain of chunks, and what a chunk's frame is."""
from bad_models import frames
from bad_models.case import CORRUPT, INVALID, case
from bad_models.draw import Draw
from bad_models.kinds import kind_of
from bad_models.model_writer import BF16, BIT1, BIT2, CHUNK_BYTES, CHUNKS, DATA, ENTRY_BYTES, INT8, Model, round_up
from cria_reader.config_fields import COMPRESSED_BUT_STAYING, EXPERTS

OFFSET, STORED, RAW, COMPRESSION, RESERVED = 0, 8, 12, 16, 20
N_CHUNKS = 12  # of the tiny model
MANY_TOKENS = 65552  # an embedding of f32 that is one chunk and 64 bytes
LEAST_STORED = CHUNK_BYTES // 64


def entry(chunk, field, form, value, model=None):
    file = (model or Model()).file()
    return file.put_in(CHUNKS, ENTRY_BYTES * chunk + field, form, value).mend()


def cases():
    yield from tables()
    yield from chains()
    yield from two_chunks()
    yield from gaps()
    yield from compressed()
    yield from frame_cases()


def tables():
    for name, value in (("0", 0), ("63", 63), ("65", 65), ("most", 0xFFFFFFFF)):
        yield case(f"chunk_stored_bytes_{name}", INVALID, "a stored chunk has its raw bytes",
                   entry(3, STORED, "<I", value), kept=name in ("63", "most"))
        yield case(f"chunk_raw_bytes_{name}", INVALID, "raw bytes follow from the planes",
                   entry(3, RAW, "<I", value), kept=name in ("0", "most"))
    yield case("chunk_raw_bytes_limit", INVALID, "a chunk has at most 262144 raw bytes", entry(3, RAW, "<I", CHUNK_BYTES + 1))
    yield case("chunk_reserved", INVALID, "reserved bytes of a chunk are zero", entry(3, RESERVED, "<I", 1))
    yield case("chunk_codec", INVALID, "compression is 0 to 3", entry(3, COMPRESSION, "<I", 4))
    yield case("chunk_codec_most", INVALID, "compression is 0 to 3", entry(3, COMPRESSION, "<I", 0xFFFFFFFF), kept=False)
    rule = "the chunks of all tensors are the whole chunk table"
    for name, change in (("missing", lambda raw: raw[:-ENTRY_BYTES]), ("too_many", lambda raw: raw + raw[-ENTRY_BYTES:]),
                         ("cut", lambda raw: raw[:-1])):
        yield case(f"chunk_entry_{name}", INVALID, rule if name != "cut" else "a chunk table is whole entries",
                   other_table(change))


def other_table(change):
    """A chunk table of another length, the data after it as it was."""
    good = Model().file()
    table = bytes(good.data[good.begin[CHUNKS]:good.begin[CHUNKS] + good.size[CHUNKS]])
    other = change(table)
    begin, end = good.begin[CHUNKS], good.begin[CHUNKS] + len(other)
    data_at = round_up(end, 64)
    shift = data_at - good.begin[DATA]
    content = good.data[good.begin[DATA]:]
    good.data[begin:] = other + bytes(data_at - end) + content
    good.put(good.entry_at(CHUNKS) + 16, "<Q", len(other)).put(good.entry_at(DATA) + 8, "<Q", data_at)
    good.begin[DATA] = data_at
    good.size[CHUNKS] = len(other)
    for i in range(len(other) // ENTRY_BYTES):
        good.put_in(CHUNKS, ENTRY_BYTES * i, "<Q", good.get_in(CHUNKS, ENTRY_BYTES * i, "<Q") + shift)
    return good.put(16, "<Q", len(good.data)).mend()


def shifted_from(first, distance):
    """The chunks from the first on lie so much farther on, in a file that is so much longer."""
    file = Model().file()
    at = file.get_in(CHUNKS, ENTRY_BYTES * first, "<Q")
    file.data[at:at] = bytes(distance)
    for i in range(first, N_CHUNKS):
        file.put_in(CHUNKS, ENTRY_BYTES * i, "<Q", file.get_in(CHUNKS, ENTRY_BYTES * i, "<Q") + distance)
    return longer(file, distance)


def longer(file, distance):
    file.put(file.entry_at(DATA) + 16, "<Q", file.size[DATA] + distance)
    return file.put(16, "<Q", len(file.data)).mend()


def overlapping(first):
    """The chunks from the first on lie where the one before lies, and the rest follows: the file is shorter."""
    file = Model().file()
    at = file.get_in(CHUNKS, ENTRY_BYTES * first, "<Q")
    del file.data[at - 64:at]
    for i in range(first, N_CHUNKS):
        file.put_in(CHUNKS, ENTRY_BYTES * i, "<Q", file.get_in(CHUNKS, ENTRY_BYTES * i, "<Q") - 64)
    return longer(file, -64)


def chains():
    rule = "a chunk begins at align64 of the end of the one before"
    for chunk in range(N_CHUNKS):
        kept = chunk in (0, 4, 6, 8, N_CHUNKS - 1)
        yield case(f"chain_hole_before_{chunk}", INVALID, rule + ", with no hole", shifted_from(chunk, 64), kept)
        yield case(f"chain_overlap_{chunk}", INVALID, rule + ", not inside it", overlapping(chunk),
                   kept and 0 < chunk) if chunk else case(
            "chain_first_unaligned", INVALID, rule, shifted_from(0, 8))
    file = Model().file()
    first = file.get_in(CHUNKS, 0, "<Q")
    for name, value in (("header", 0), ("config", 192), ("previous", first), ("behind_file", 1 << 39),
                        ("wraps", (1 << 64) - 64), ("negative_step", first - 64)):
        yield case(f"chunk_at_{name}", INVALID, rule, entry(3, OFFSET, "<Q", value), kept=name in ("header", "wraps", "previous"))
    file = Model().file()
    yield case("data_behind_last_chunk", INVALID, "the data section ends with the last chunk",
               longer(file.resize(len(file.data) + 64), 64))
    file = Model().file()
    yield case("data_ends_in_last_chunk", INVALID, "the data section ends with the last chunk",
               longer(file.resize(len(file.data) - 1), -1))
    # All chunks moved back by one place: each follows the one before, and only the first and the last are wrong.
    file = Model().file()
    for i in range(6, N_CHUNKS):
        file.put_in(CHUNKS, ENTRY_BYTES * i, "<Q", file.get_in(CHUNKS, ENTRY_BYTES * i, "<Q") + 64)
    yield case("chain_ends_behind_file", INVALID, "chunks lie in the data section", file.mend())


def noise_frame(raw):
    """A frame of almost nothing but zeros that is just large enough for what it makes."""
    if len(raw) != CHUNK_BYTES:
        return None
    noise = bytes(byte & 0x3F for byte in Draw(2).randbytes(LEAST_STORED))
    return frames.raw_then_rle_frame(noise, len(raw), b"\0")


def two_chunks():
    """An embedding of two chunks; the first is a frame so that the file stays small."""
    def model():
        return Model(vocab_size=MANY_TOKENS, compression=1, frame=lambda raw, role: noise_frame(raw))
    yield case("plane_cut_early", INVALID, "a plane is cut into chunks of 262144 bytes",
               recut(Model(vocab_size=MANY_TOKENS), CHUNK_BYTES - 64), kept=False)
    yield case("chunk_of_two_planes", INVALID, "a chunk ends with its plane", entry(2, RAW, "<I", 128, model()), kept=False)
    yield case("second_chunk_overlaps", INVALID, "a chunk begins behind the one before",
               entry(2, OFFSET, "<Q", model().file().get_in(CHUNKS, ENTRY_BYTES, "<Q"), model()))
    stored = Model(vocab_size=MANY_TOKENS, flags=0)
    file = stored.file()
    last = file.get_in(CHUNKS, ENTRY_BYTES * (len(file.chunks()) - 1), "<Q")
    yield case("ends_in_last_tensor", INVALID, "the data section ends with the last chunk",
               longer_cut(stored.file(), last), kept=False)
    yield case("ends_before_last_tensor_ends", INVALID, "the data section ends with the last chunk",
               longer_cut(stored.file(), last - CHUNK_BYTES // 2), kept=False)
    shifted = stored.file()
    step = CHUNK_BYTES // 2
    for i in range(len(shifted.chunks()) // 2, len(shifted.chunks())):
        shifted.put_in(CHUNKS, ENTRY_BYTES * i, "<Q", shifted.get_in(CHUNKS, ENTRY_BYTES * i, "<Q") + step)
    yield case("later_chunks_agree_with_each_other", INVALID, "a chunk begins at align64 of the end of the one before",
               shifted.mend(), kept=False)


def longer_cut(file, n_bytes):
    distance = n_bytes - len(file.data)
    return longer(file.resize(n_bytes), distance)


def recut(model, first_bytes):
    file = model.file()
    table, chunk = file.begin[CHUNKS], 1
    offset = file.get_in(CHUNKS, ENTRY_BYTES * chunk, "<Q")
    whole = CHUNK_BYTES + 64
    for i, (at, size) in enumerate(((offset, first_bytes), (offset + first_bytes, whole - first_bytes))):
        file.put(table + ENTRY_BYTES * (chunk + i), "<QII", at, size, size)
    return file.mend()


def gaps():
    rule = "the bytes between two chunks are zero"
    for chunk, kept in ((1, True), (7, True), (N_CHUNKS - 1, False)):
        file = Model().file()
        yield case(f"gap_before_chunk_{chunk}", CORRUPT, rule,
                   file.put(file.get_in(CHUNKS, ENTRY_BYTES * chunk, "<Q") - 1, "<B", 1), kept)


def framed(make, role="down", **config):
    """One chunk of 64 raw bytes, or of the embedding, holds what make gives for them."""
    return Model(**{"compression": 1, **config}, frame=lambda raw, of: make(len(raw)) if of == role else None).file()


def compressed():
    zeros = lambda n: frames.rle_frame(n, b"\0")
    yield case("frame_where_none_may_be", INVALID, "a config of compression 0 allows no frames", framed(zeros, compression=0))
    of_experts = {"kinds": [kind_of(feed_forward=EXPERTS)], "compression": COMPRESSED_BUT_STAYING}
    for role, staying in (("expert_gate", of_experts), ("expert_up", of_experts), ("expert_down", of_experts),
                          ("per_layer_table", {"per_layer_width": 1, "compression": COMPRESSED_BUT_STAYING})):
        yield case(f"frame_of_staying_{role}", INVALID, "a config of compression 2 stores staying roles",
                   framed(zeros, role, **staying), everywhere=False)
    yield from compressed_apart()
    raw_frame = lambda n: frames.header(n) + frames.block(frames.RAW_BLOCK, n, bytes(n))
    yield case("frame_larger", INVALID, "a frame is smaller than what it makes", framed(raw_frame))
    same = lambda n: frames.header(n) + frames.block(0, n - 9, bytes(n - 9), False)[:n - 9 + 3] + b"\0"
    yield case("frame_as_large", INVALID, "a frame is smaller than what it makes", framed(lambda n: (same(n) + bytes(n))[:n]))
    yield case("frame_makes_too_much", INVALID, "a frame makes at most 64 times its bytes",
               framed(zeros, "embedding", vocab_size=1024), kept=True)


def compressed_apart():
    upper = lambda n, n_upper, byte=b"\0": frames.UpperBits(bytes(n - n_upper) + frames.rle_frame(n_upper, byte))
    halves = lambda n: upper(n, n // 2)
    parts = lambda n: frames.Parts(frames.rle_frame(n, b"\0"))
    two_bytes = {"formats": {"down": (BF16, 0)}}
    for name, make in (("upper_bits", halves), ("parts", parts)):
        yield case(f"{name}_where_none_may_be", INVALID, "a config of compression 0 allows no frames",
                   framed(make, compression=0, **two_bytes), kept=False)
        # 64 bytes: f32 of a column, the scales of int8.
        for of, formats in (("f32", {}), ("int8_scales", {"down": (INT8, 0)})):
            yield case(f"{name}_{of}", INVALID, f"only codes and values of two bytes have {name.replace('_', ' ')}",
                       framed(lambda n, make=make: make(n) if n == 64 else None, formats=formats))
        for number_format, group in ((BIT1, 128), (BIT2, 64)):
            for plane, size in (("codes", 256), ("scales", 32)):
                yield case(f"{name}_bit{number_format - BIT1 + 1}_{plane}", INVALID, "chunks of trained low bits have no upper bits apart",
                           framed(lambda n, make=make, size=size: make(n) if n == size else None,
                                  formats={"down": (number_format, group)}))
    # The first code, whose upper bits are put against its sign, is -128.
    code = lambda n: frames.UpperBits(b"\x80" + bytes(n * 3 // 4 - 1) + frames.rle_frame(n // 4, b"\x18")) if n == 512 else None
    yield case("upper_bits_int8_code", INVALID, "a code of int8 is at least -127", framed(code, formats={"down": (INT8, 0)}))
    yield case("upper_bits_bf16_infinite", INVALID, "values whose bits were apart are finite",
               framed(lambda n: upper(n, n // 2, b"\xff"), **two_bytes))
    rule = "upper bits are one frame behind the lower bits"
    whole = frames.rle_frame(32, b"\0")
    for name, behind in (("no_frame", b""), ("frame_cut", whole[:-1]), ("frame_then_byte", whole + b"\0"),
                         ("frame_makes_less", frames.rle_frame(31, b"\0")), ("frame_makes_more", frames.rle_frame(33, b"\0")),
                         ("frame_makes_all", frames.rle_frame(64, b"\0")), ("frame_wrong_size", frames.header(32) + frames.block(frames.RLE_BLOCK, 31, b"\0"))):
        yield case(f"upper_bits_{name}", INVALID, rule, framed(lambda n, behind=behind: frames.UpperBits(bytes(32) + behind), **two_bytes),
                   kept=name in ("no_frame", "frame_makes_more"))
    yield case("upper_bits_cut", INVALID, "a chunk of upper bits has all lower bits",
               framed(lambda n: frames.UpperBits(bytes(31)), **two_bytes))
    yield case("parts_make_less", INVALID, "the parts of a chunk make its values",
               framed(lambda n: frames.Parts(frames.rle_frame(n // 2, b"\0")), **two_bytes))


def frame_cases():
    n_zero = lambda n: frames.rle_frame(n, b"\0")
    one = lambda name, rule, make, kept=True: case(f"frame_{name}", INVALID, rule, framed(make), kept)
    yield one("no_frame", "a chunk of compression 1 is a zstd frame", lambda n: bytes(20))
    yield one("cut", "a frame is whole", lambda n: n_zero(n)[:-1])
    yield one("magic_only", "a frame is whole", lambda n: frames.MAGIC, kept=False)
    yield one("then_byte", "a chunk is one frame and nothing else", lambda n: n_zero(n) + b"\0")
    yield one("then_frame", "a chunk is one frame", lambda n: frames.rle_frame(n, b"\0") + frames.rle_frame(0, b"\0"))
    yield one("two_halves", "a chunk is one frame", lambda n: frames.rle_frame(n // 2, b"\0") * 2)
    yield one("then_skippable", "a chunk is one frame", lambda n: n_zero(n) + frames.SKIPPABLE + bytes(4), kept=False)
    yield one("skippable_first", "a chunk is one frame", lambda n: frames.SKIPPABLE + bytes(4) + n_zero(n))
    yield one("makes_less", "a frame makes the raw bytes", lambda n: frames.rle_frame(n - 1, b"\0"))
    yield one("makes_more", "a frame makes the raw bytes", lambda n: frames.rle_frame(n + 1, b"\0"))
    yield one("without_size", "a frame states its content size",
              lambda n: frames.windowed_frame(n, b"\0", 10, states_size=False))
    yield one("wrong_size", "a frame makes what it states",
              lambda n: frames.header(n) + frames.block(frames.RLE_BLOCK, n - 1, b"\0"))
    yield one("window", "a frame's window is no larger than a chunk", lambda n: frames.windowed_frame(n, b"\0", 19))
    yield one("window_most", "a frame's window is no larger than a chunk", lambda n: frames.windowed_frame(n, b"\0", 41), False)
    yield one("dictionary", "a frame uses no dictionary", lambda n: frames.dictionary_frame(n, b"\0", 7))
    yield one("reserved_bit", "a frame's reserved bit is zero",
              lambda n: frames.rle_frame(n, b"\0", frames.RESERVED_BIT))
    yield one("reserved_block", "a frame has no reserved block",
              lambda n: frames.header(n) + frames.block(frames.RESERVED_BLOCK, n, b"\0"))
    yield one("no_last_block", "a frame is whole",
              lambda n: frames.header(n) + frames.block(frames.RLE_BLOCK, n, b"\0", is_last=False), kept=False)
    yield one("checksum", "a frame's own checksum holds", lambda n: frames.checked_frame(n, b"\0", error=1))
