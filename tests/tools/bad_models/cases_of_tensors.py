"""Breaks parts 3 and 5 of docs/model_format.md: the tensor directory, and the values of tensors."""
import math
import struct

from bad_models.case import INVALID, case
from bad_models.frames import rle_frame
from bad_models.kinds import kind_of
from bad_models.model_writer import BF16, BIT1, BIT2, DIRECTORY, F16, F32, INT4, INT8, INT8G32, SIGNED_SCALES, Model
from cria_reader.config_fields import EXPERTS, TIED, flag_bits

ENTRY_BYTES = 40
ROPE, EMBEDDING, NORM, Q, K = range(5)
FIELDS = {"role": (0, "<H"), "group_size": (2, "<H"), "layer": (4, "<I"), "number_format": (8, "<B"), "reserved_9": (9, "<B"),
          "rows": (12, "<I"), "cols": (16, "<I"), "first_chunk": (20, "<I"), "n_chunks": (24, "<I"), "n_matrices": (28, "<I"),
          "raw_bytes": (32, "<Q")}
WRONG = (
    (ROPE, "role", 1), (Q, "role", 20), (Q, "role", 0xFFFF), (Q, "group_size", 32), (NORM, "group_size", 32),
    (ROPE, "layer", 0), (Q, "layer", 1), (Q, "layer", 0xFFFFFFFF), (Q, "number_format", 3), (NORM, "number_format", 3),
    (Q, "number_format", 0), (Q, "reserved_9", 1), (Q, "n_matrices", 0), (Q, "n_matrices", 2), (NORM, "n_matrices", 0), (Q, "n_matrices", 0xFFFFFFFF), (Q, "rows", 3), (NORM, "rows", 0), (Q, "cols", 2),
    (Q, "cols", 0xFFFFFFFF), (Q, "first_chunk", 2), (Q, "first_chunk", 0xFFFFFFFF), (Q, "n_chunks", 0), (Q, "n_chunks", 2),
    (Q, "n_chunks", 0xFFFFFFFF), (Q, "raw_bytes", 68), (Q, "raw_bytes", 0), (Q, "raw_bytes", (1 << 64) - 1))
KEPT_FIELDS = set()
BIASED = flag_bits("mixer_norm ffn_norm gated input_bias")


def cases():
    for tensor, field, value in WRONG:
        offset, form = FIELDS[field]
        file = Model().file().put_in(DIRECTORY, ENTRY_BYTES * tensor + offset, form, value).mend_sections()
        yield case(f"tensor_{tensor}_{field}_{value:x}", INVALID, f"a tensor's {field} follows from the config", file,
                   kept=field not in KEPT_FIELDS)
        KEPT_FIELDS.add(field)
    yield from lists()
    yield from stacks()
    yield from formats()
    yield from values()


def directory_model(change, **config):
    class Changed(Model):
        def contents_of(self, kind, raw):
            return change(bytes(raw)) if kind == DIRECTORY else raw
    return Changed(**config).file()


def lists():
    rule = "the directory lists exactly the tensors that the config has"
    yield case("tensor_missing", INVALID, rule, directory_model(lambda raw: raw[:-ENTRY_BYTES]))
    yield case("tensor_too_many", INVALID, rule, directory_model(lambda raw: raw + raw[-ENTRY_BYTES:]))
    yield case("directory_bytes", INVALID, "a directory is whole entries", directory_model(lambda raw: raw[:-1]))
    yield case("directory_short", INVALID, "a directory is whole entries", directory_model(lambda raw: raw[:1]), kept=False)
    model = Model()
    model.tensors[Q], model.tensors[K] = model.tensors[K], model.tensors[Q]
    yield case("tensors_swapped", INVALID, "the tensors are in the canonical order", model.file())
    model = Model(flags=0)
    model.config["flags"] = TIED
    yield case("tensor_lm_head_of_tied", INVALID, "a tied model has no lm_head", model.file(), kept=False)
    model = Model(kinds=[kind_of(more_flags="input_bias")])
    model.config["kinds"] = [kind_of()]
    yield case("tensor_bias_without_flag", INVALID, "biases are there where the flags say so", model.file(), kept=False)


def stacks():
    """Of two experts."""
    experts = {"kinds": [kind_of(feed_forward=EXPERTS)]}
    for name, changes in (("one", {"n_matrices": 1}), ("more", {"n_matrices": 3}), ("none", {"n_matrices": 0}),
                          ("tall", {"n_matrices": 1, "rows": 2}), ("rows_of_tiles", {"rows": 16})):
        model = Model(**experts)
        place = next(i for i, tensor in enumerate(model.tensors) if tensor.shape.name == "expert_up")
        file = model.file()
        for field, value in changes.items():
            offset, form = FIELDS[field]
            file.put_in(DIRECTORY, ENTRY_BYTES * place + offset, form, value)
        yield case(f"stack_{name}", INVALID, "a stack has n_matrices of rows and cols", file.mend_sections(), everywhere=False)
    yield case("stack_value_of_last", INVALID, "weights of all matrices of a stack are finite",
               with_value("expert_down", "<f", -1, math.nan, **experts), everywhere=False)


def formats():
    """Directories whose formats are not those that the config counts."""
    rule = "the directory has as many matrices of each format as the config counts"
    of_role = lambda formats: Model(layers=[0, 0], formats=formats)
    mixed = {"down": [(F32, 0), (INT8, 0)]}
    for name, kept, model, said in (
            ("formats_of_one_kind", True, of_role({"down": (F32, 0)}), mixed),
            ("formats_of_the_other_kind", False, of_role({"down": (INT8, 0)}), mixed), ("format_not_counted", True, of_role(mixed), {}),
            ("format_of_another_role", True, of_role(mixed), {"up": [(F32, 0), (INT8, 0)]})):
        model.config["counts"] = of_role(said).config["counts"]
        yield case(name, INVALID, rule, model.file(), kept)
    first, other = Model(formats=mixed, kinds=[kind_of()] * 2, layers=[0, 1]), Model(
        formats={"down": [(INT8, 0), (F32, 0)]}, kinds=[kind_of()] * 2, layers=[0, 1])
    first.config["counts"] = other.config["counts"]
    yield case("format_of_another_layers_kind", INVALID, rule, first.file())


def with_value(role, form, index, value, plane=0, **config):
    model = Model(**config)
    raw = model.plane(role, plane)
    size = struct.calcsize(form) if isinstance(form, str) else len(value)
    if isinstance(form, str):
        struct.pack_into(form, raw, (index % (len(raw) // size)) * size, value)
    else:
        at = (index % (len(raw) // size)) * size
        raw[at:at + size] = value
    return model.set_plane(role, raw, plane).file()


SCALES = (("nan", 0x7FC00000), ("infinite", 0x7F800000), ("negative", 0xBF800000), ("minus_zero", 0x80000000),
          ("subnormal", 0x00400000), ("negative_nan", 0xFFC00000))


def values():
    int8, int4 = {"formats": {"down": (INT8, 0)}}, {"formats": {"down": (INT4, 32)}}
    rule = "an int8 code is -127..127"
    yield case("int8_code_first", INVALID, rule, with_value("down", "<b", 0, -128, **int8))
    yield case("int8_code_last", INVALID, rule + ", in padding too", with_value("down", "<b", -1, -128, **int8), kept=False)
    for i, (name, value) in enumerate(SCALES):
        # Row 0 is the only one of down; all others are padding.
        word, half = struct.pack("<I", value), struct.pack("<H", value >> 16)
        yield case(f"int8_scale_{name}", INVALID, f"an int8 scale is not {name}",
                   with_value("down", bytes, 0, word, 1, **int8))
        yield case(f"int4_scale_{name}", INVALID, f"an int4 scale is not {name}",
                   with_value("down", bytes, 0, half, 1, **int4), kept=i % 2 == 0)
        yield case(f"int4_scale_padding_{name}", INVALID, "a scale of padding is checked too",
                   with_value("down", bytes, -1, half, 1, **int4), kept=i == 0)
    grouped = {"formats": {"down": (INT8G32, 32)}}
    yield case("int8g32_code", INVALID, "an int8g32 code is -127..127", with_value("down", "<b", 0, -128, **grouped))
    for name, value in SCALES:
        yield case(f"int8g32_scale_{name}", INVALID, f"an int8g32 scale is not {name}",
                   with_value("down", bytes, 0, struct.pack("<H", value >> 16), 1, **grouped), kept=name in ("nan", "negative"))
    for number_format, group, name in ((BIT1, 128, "bit1"), (BIT2, 64, "bit2")):
        for kind, word in (("nan", 0x7E00), ("infinite", 0xFC00), ("negative_nan", 0xFC01)):
            yield case(f"{name}_scale_{kind}", INVALID, f"a scale of {name} is finite",
                       with_value("down", bytes, 0, struct.pack("<H", word), 1, formats={"down": (number_format, group)}))
        yield case(f"{name}_scale_padding_nan", INVALID, "a scale of padding is checked too",
                   with_value("down", bytes, -1, b"\0\x7e", 1, formats={"down": (number_format, group)}), kept=False)
    signed = {"formats": {"down": (INT4, 32), "up": (INT8, 0)}, "flags": TIED | SIGNED_SCALES}
    for name, value in SCALES:
        if name == "negative":
            continue
        half = struct.pack("<H", value >> 16)
        yield case(f"int4_signed_scale_{name}", INVALID, f"a scale of either sign is not {name}",
                   with_value("down", bytes, 0, half, 1, **signed), kept=name != "infinite")
    yield case("int4_signed_scale_negative_subnormal", INVALID, "a scale of either sign is not subnormal",
               with_value("down", bytes, -1, struct.pack("<H", 0x8001), 1, **signed))
    yield case("int8_scale_negative_beside_signed", INVALID, "signs are for scales of groups",
               with_value("up", "<f", 0, -1.0, 1, **signed))
    beside = {"formats": {"down": (INT4, 32), "up": (INT8G32, 32)}, "flags": TIED | SIGNED_SCALES}
    yield case("int8g32_scale_negative_beside_signed", INVALID, "signs are for scales of nibbles",
               with_value("up", bytes, 0, struct.pack("<H", 0xBF80), 1, **beside))
    yield case("int8_code_in_frame", INVALID, "codes are checked behind a frame too",
               framed_plane("down", b"\x80", **int8))
    yield case("f32_nan_in_frame", INVALID, "values are checked behind a frame too", framed_plane("down", b"\xff"))
    for role, place in (("rope", "a RoPE frequency"), ("mixer_norm", "a norm's weight"), ("final_norm", "a norm's weight")):
        for name, value in (("nan", math.nan), ("infinite", math.inf)):
            yield case(f"{role}_{name}", INVALID, f"{place} is finite", with_value(role, "<f", -1, value),
                       kept=(role, name) != ("mixer_norm", "infinite"))
    for name, value in (("negative", -0.5), ("negative_zero", -0.0), ("large", 8.001)):
        yield case(f"rope_{name}", INVALID, "a RoPE frequency is from 0 to 8", with_value("rope", "<f", 0, value))
    yield case("bias_nan", INVALID, "a bias is finite", with_value("k.bias", "<f", 0, math.nan, kind_flags=BIASED))
    for name, number_format, infinite, nan in (("f32", 1, struct.pack("<f", -math.inf), struct.pack("<I", 0x7F800001)),
                                               ("f16", F16, b"\0\x7c", b"\x01\xfc"), ("bf16", BF16, b"\x80\xff", b"\x81\x7f")):
        for kind, value in (("infinite", infinite), ("nan", nan)):
            formats = {"formats": {"down": (number_format, 0), "embedding": (number_format, 0)}}
            yield case(f"{name}_{kind}", INVALID, f"a weight of {name} is finite", with_value("down", bytes, 0, value, **formats),
                       kept=name == "f32" or kind == "nan")
            yield case(f"{name}_embedding_{kind}", INVALID, f"a weight of {name} is finite",
                       with_value("embedding", bytes, -1, value, **formats), kept=False)
    yield case("lm_head_nan", INVALID, "a weight is finite, the last of the file too",
               with_value("lm_head", "<f", -1, math.nan, flags=0))


def framed_plane(role, byte, **config):
    def frame(raw, of_role):
        return rle_frame(len(raw), byte) if of_role == role and not done.append(1) and len(done) == 1 else None
    done = []
    return Model(compression=1, frame=frame, **config).file()
