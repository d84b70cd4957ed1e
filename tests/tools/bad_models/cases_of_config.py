"""Breaks part 2 of docs/model_format.md: each field of the config on both sides of its limits, counts, sizes.

Where a model of the forbidden size stays small, its tensors are as the config says, so that nothing else is wrong with it.
"""
from bad_models.case import INVALID, case
from bad_models.config_limits import trials
from bad_models.kinds import kind_of
from bad_models.model_writer import CONFIG, F16, F32, MATRICES, Model, config_bytes, counts_needed, round_up
from cria_reader.build_options import may_be_left_out
from cria_reader.config_fields import KIND, MOST_CONFIG_BYTES, NO_KIND, SCALARS
from cria_reader.roles import ROLE_NUMBERS, all_shapes

MOST_SMALL = 1 << 20
MOST_32 = 0xFFFFFFFF
F32_PLACE, F16_PLACE = 0, 1


def cases():
    for trial in trials():
        if trial.fault:
            file = (model_of(trial.config) or other_config(trial.config)).file()
            yield case(f"config_{trial.name}", INVALID, f"{trial.fault} is within its limits", file, everywhere=not may_be_left_out(trial.config))
    yield from matrix_counts()
    yield from reserved()
    yield from sizes()


def model_of(config):
    """The model that a config describes, or None where it is large or none."""
    try:
        size = 0
        for _, _, shape in all_shapes(config):
            sizes_of = (shape.count, shape.rows, shape.cols)
            size += shape.count * round_up(shape.rows, 16) * shape.cols * 4
            if min(sizes_of) < 0 or size > MOST_SMALL:
                return None
    except (IndexError, TypeError):
        return None
    return Model(config=config)


def other_config(config):
    """The smallest model's file with this config."""
    class Other(Model):
        def contents_of(self, kind, raw):
            return config_bytes({**config, "counts": counts_needed(config)}) if kind == CONFIG else raw
    return Other()


def count(role, n, place=F32_PLACE, kind=0):
    return {"role": ROLE_NUMBERS.get(role, role), "kind": kind, "format": place, "count": n}


def matrix_counts():
    """Two layers, so that a count may be one too few."""
    good = Model(layers=[0, 0]).config["counts"]

    def one(name, rule, kept=True, down=None, more=(), less=None, **config):
        counts = [c for c in good if down is None or c["role"] != ROLE_NUMBERS["down"]]
        counts = [c for c in [*counts, *(down or []), *more] if c["role"] != ROLE_NUMBERS.get(less)]
        counts.sort(key=lambda c: (c["kind"], c["role"]))
        return case(f"config_counts_{name}", INVALID, rule, Model(layers=[0, 0], counts=counts, **config).file(), kept)
    rule = "counts of a role sum up to its matrices"
    yield one("none", rule, less="down")
    yield one("fewer", rule, down=[count("down", 1)])
    yield one("more", rule, down=[count("down", 3)])
    yield one("most", rule, down=[count("down", MOST_32)], kept=False)
    yield one("more_of_another", rule, down=[count("down", 2), count("down", 1, 3)])
    yield one("no_embedding", rule, less="embedding")
    yield one("no_lm_head", rule, flags=0, kept=False)
    yield case("config_counts_two_embeddings", INVALID, rule, Model(layers=[0, 0], counts=[
        *good[:-1], count("embedding", 2, kind=NO_KIND)]).file(), kept=False)
    # Modulo 2^32 these are two.
    yield one("wrap", "counts do not wrap", down=[count("down", MOST_32), count("down", 3, F16_PLACE)])
    yield one("zero", "a count is at least 1", down=[count("down", 2), count("down", 0, F16_PLACE)])
    rule = "counts ascend by kind, role and format"
    yield one("descend", rule, down=[count("down", 1, F16_PLACE), count("down", 1)])
    yield one("twice", rule, down=[count("down", 1), count("down", 1)])
    yield case("config_counts_of_roles_descend", INVALID, rule, Model(layers=[0, 0], counts=[good[1], good[0], *good[2:]]).file(), kept=False)
    yield case("config_counts_of_kinds_descend", INVALID, rule, Model(layers=[0, 0], counts=[good[-1], *good[:-1]]).file(), kept=False)
    rule = "a count is of a role in any format that its kind has"
    for name, more in (("lm_head_of_tied", count("lm_head", 1, kind=NO_KIND)), ("of_vector", count("mixer_norm", 2)),
                       ("of_no_role", count(0xFFFF, 2)), ("of_role_22", count(22, 1)), ("of_kind_1", count("down", 2, kind=1)),
                       ("of_layers_outside", count("down", 2, kind=NO_KIND)), ("of_embedding_inside", count("embedding", 1)),
                       ("of_router", count("router", 2)), ("of_other_mixer", count("key_up", 2))):
        yield one(name, rule, more=[more], kept=name in ("lm_head_of_tied", "of_vector", "of_kind_1"))
    rule = "a count's format is a place of the list"
    yield one("place_13", rule, down=[count("down", 2, 13)])
    yield one("place_255", rule, down=[count("down", 1), count("down", 1, 255)], kept=False)


def reserved():
    for name, record, at, rule in (
            ("scalars_first", SCALARS, 224, "reserved bytes of the scalars are zero"), ("scalars_last", SCALARS, 255, "reserved bytes of the scalars are zero"),
            ("rope_table", SCALARS, 160 + 15, "reserved bytes of a RoPE table are zero"),
            ("rope_table_unused", SCALARS, 160 + 16, "RoPE tables that are not used are zero"),
            ("kind_first", KIND, 81, "reserved bytes of a kind are zero"), ("kind_last", KIND, 127, "reserved bytes of a kind are zero"),
            ("layers", None, SCALARS.size + KIND.size + 7, "zeros fill up the layers")):
        file = Model().file()
        at += SCALARS.size if record == KIND else 0
        yield case(f"config_reserved_{name}", INVALID, rule, file.put_in(CONFIG, at, "<B", 1).mend_sections())


def sizes():
    rule = "the size of the config follows from its counts"
    whole = len(config_bytes(Model().config))
    for size in (1, 255, 256, whole - 8, whole - 1, whole + 1, whole + 8):
        yield case(f"config_bytes_{size}", INVALID, "a config has 256 bytes or more" if size < 256 else rule, resized_config(size))
    yield case("config_bytes_4097", INVALID, "a config has at most 4096 bytes", resized_config(MOST_CONFIG_BYTES + 1))
    yield case("config_bytes_4104", INVALID, "a config has at most 4096 bytes", largest(104).file(), kept=False)


def resized_config(size):
    class OtherSize(Model):
        def contents_of(self, kind, raw):
            return (bytes(raw) + bytes(max(0, size - len(raw))))[:size] if kind == CONFIG else raw
    return OtherSize().file()


def largest(n_more):
    """A config of 113 counts and n_more: so many roles of a kind have one of four layers in f16. With 103 it is as large as may be."""
    n_kinds = 16
    roles = [role for role in MATRICES if role not in ("embedding", "lm_head")]
    formats = {role: [(F16, 0) if layer < n_kinds and n_kinds * i + layer < n_more else (F32, 0) for layer in range(4 * n_kinds)]
               for i, role in enumerate(roles)}
    return Model(kinds=[kind_of()] * n_kinds, layers=[*range(n_kinds)] * 4, formats=formats)
