#!/usr/bin/env python3
"""Small valid models of random kinds of layers: all mixers and feed-forwards, awkward sizes, every matrix format.

  random_kinds.py FOLDER [--first SEED] [--count N]     writes FOLDER/SEED.cria for N seeds from SEED on

The same seed gives the same bytes on every machine.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bad_models import frames  # noqa: E402
from bad_models.draw import Draw  # noqa: E402
from bad_models.kinds import CLAMPED, kind_of  # noqa: E402
from bad_models.model_writer import Model  # noqa: E402
from cria_reader.config_fields import (ACTIVATIONS, ATTENTION, CLAMPED_SWIGLU, COMPRESSED_BUT_STAYING, CONVOLUTION, DELTA,  # noqa: E402
                                       DENSE, EXPERTS, FORMATS, LATENT, LAYER_NORM, LEARNED_POSITIONS, NIBBLES, NO_FEED_FORWARD, NO_KIND,
                                       NO_MIXER, NO_TABLE, NONE, RELU_SQUARED, RMS, SIGNED_SCALES, STATE_SPACE, TIED, flag_bits)
from cria_reader.roles import MATRIX, STAYING, all_shapes  # noqa: E402

MOST_KINDS, MOST_LAYERS = 4, 6
OF_ANY_MIXER = "mixer_norm mixer_out_norm input_bias output_bias"
OF_ATTENTION = "sinks mixer_gate mixer_inner_norm"
OF_ANY_FEED_FORWARD = "ffn_norm ffn_out_norm ffn_bias gated"
OF_EXPERTS = "router_bias choice_bias router_norm normalized_weights expert_scale"


class Chance(Draw):
    def choice(self, items):
        return items[self.randint(0, len(items) - 1)]

    def happens(self, share=0.5):
        return self.random() < share

    def some(self, names):
        """Each of the names or not, with blanks between them."""
        return " ".join(name for name in names.split() if self.happens())

    def even(self, most):
        return 2 * self.randint(1, most // 2)

    def epsilon(self):
        return self.choice((0.0, 1e-6, 1e-5, 0.01))

    def cap(self):
        return self.choice((0.0, 1.0, 30.0))


def random_tables(chance, max_context):
    return [{"n_pairs": chance.randint(1, 4), "factor": chance.choice((1.0, 0.75, 1.25)),
             "original_context": chance.randint(1, max_context - 1) if max_context > 1 and chance.happens(0.3) else 0}
            for _ in range(chance.randint(0, 3))]


def turned_by(chance, tables, most):
    """A table that turns at most so many elements, or none."""
    return chance.choice([NO_TABLE, *(i for i, table in enumerate(tables) if 2 * table["n_pairs"] <= most)])


def scores(chance):
    growth = chance.choice((0.0, 0.1))
    return {"window": chance.choice((0, 1, 5)), "score_multiplier": chance.choice((0.5, 0.3)), "score_cap": chance.cap(),
            "query_growth": growth, "query_growth_period": 4 if growth else 0}


def random_attention(chance, kinds, tables):
    n_keys, key_dim = chance.randint(1, 3), chance.even(8)
    value_dim = key_dim if chance.happens() else chance.even(8)
    kind = {"n_query_heads": n_keys * chance.randint(1, 5 // n_keys), "n_key_heads": n_keys, "n_value_heads": n_keys, "key_dim": key_dim,
            "value_dim": value_dim, "qkv_clip": chance.cap(), **scores(chance)}
    owners = [i for i, other in enumerate(kinds) if other["mixer"] == ATTENTION and other["shared_with"] == NO_KIND]
    flags = chance.some(OF_ATTENTION) + chance.choice(("", " head_norms", " projection_norms"))
    if owners and chance.happens():
        owner = chance.choice(owners)
        kind |= {name: kinds[owner][name] for name in "n_key_heads n_value_heads key_dim value_dim window".split()}
        kind |= {"n_query_heads": kind["n_key_heads"] * chance.randint(1, 2), "shared_with": owner}
    else:
        flags += " " + chance.some("value_norms" if key_dim != value_dim else "value_norms keys_as_values")
    return {**kind, "rope_table": turned_by(chance, tables, kind["key_dim"])}, flags


def random_latent(chance, _, tables):
    key_dim = chance.even(10)
    shared = 2 * chance.randint(0, key_dim // 2 - 1)
    return {"n_query_heads": chance.randint(1, 5), "key_dim": key_dim, "value_dim": chance.even(8),
            "query_rank": chance.choice((0, 1, 7)), "latent_rank": chance.randint(2, 9), "shared_key_dim": shared,
            "rope_table": turned_by(chance, tables, shared), **scores(chance)}, ""


def random_convolution(chance, *_):
    return {"conv_taps": chance.randint(2, 8)}, chance.some("conv_bias")


def random_recurrence(chance, *_):
    n_keys = chance.randint(1, 3)
    return {"n_query_heads": n_keys, "n_key_heads": n_keys, "n_value_heads": n_keys * chance.randint(1, 2), "key_dim": chance.even(6),
            "value_dim": chance.even(6), "conv_taps": chance.randint(2, 4)}, chance.some("conv_bias")


def random_state_space(chance, *others):
    kind, flags = random_recurrence(chance, *others)
    return kind, f"{flags} {chance.some('group_norms')}"


MIXERS = {NO_MIXER: lambda *_: ({}, ""), ATTENTION: random_attention, LATENT: random_latent, CONVOLUTION: random_convolution,
          DELTA: random_recurrence, STATE_SPACE: random_state_space}


def random_dense(chance):
    # Past a group of 128 now and then.
    return {"d_ff": chance.randint(125, 135) if chance.happens(0.2) else chance.randint(1, 40)}, chance.some("ffn_inner_norm")


def random_experts(chance):
    n_experts, d_ff = chance.randint(1, 9), chance.choice((0, 0, 5, 17))
    kind = {"d_ff": d_ff, "expert_ff": chance.choice((1, 3, 16, 18)), "n_experts": n_experts,
            "n_chosen": chance.randint(1, min(n_experts, 4)), "router_score": chance.randint(1, 2), "router_epsilon": chance.epsilon(),
            "router_scale": chance.choice((1.0, 2.5))}
    n_groups = chance.choice([n for n in range(1, n_experts + 1) if n_experts % n == 0])
    if chance.happens():
        in_group = n_experts // n_groups
        kind |= {"n_groups": n_groups, "n_groups_chosen": chance.randint(-(-kind["n_chosen"] // in_group), n_groups),
                 "group_rank": chance.randint(1, min(2, in_group))}
    return kind, f"{chance.some(OF_EXPERTS)} {chance.some('shared_gate branch_norms') if d_ff else ''}"


FEED_FORWARDS = {NO_FEED_FORWARD: lambda _: ({}, ""), DENSE: random_dense, EXPERTS: random_experts}


def random_kind(chance, kinds, tables, per_layer_width):
    mixer = chance.choice([*MIXERS, ATTENTION])
    feed_forward = chance.choice([DENSE, EXPERTS] if mixer == NO_MIXER else [*FEED_FORWARDS, DENSE])
    of_mixer, mixer_flags = MIXERS[mixer](chance, kinds, tables)
    of_feed_forward, feed_forward_flags = FEED_FORWARDS[feed_forward](chance)
    flags = f"{mixer_flags} {feed_forward_flags} {chance.some('layer_scale')}"
    if mixer != NO_MIXER:
        flags += " " + chance.some(OF_ANY_MIXER)
    if feed_forward != NO_FEED_FORWARD:
        flags += " " + chance.some(OF_ANY_FEED_FORWARD)
        activation = chance.randint(1, len(ACTIVATIONS))
        if per_layer_width and chance.happens():
            flags, activation = flags + " per_layer_input", RELU_SQUARED if activation == CLAMPED_SWIGLU else activation
        if activation == CLAMPED_SWIGLU:
            flags = " ".join({*flags.split(), "gated"})
        of_feed_forward |= CLAMPED if activation == CLAMPED_SWIGLU else {"activation": activation}
    changes = {**of_mixer, **of_feed_forward, "norm": chance.randint(RMS, LAYER_NORM), "norm_epsilon": chance.epsilon(),
               "inner_epsilon": chance.epsilon(), "flags": flag_bits(flags)}
    return kind_of(mixer, feed_forward, **changes)


def random_layers(chance, n_kinds):
    """Each kind appears, in the order of their numbers; any that has appeared may come again."""
    layers, n_seen = [], 0
    while n_seen < n_kinds or len(layers) < MOST_LAYERS and chance.happens():
        repeats = n_seen > 0 and (n_seen == n_kinds or chance.happens(0.3)) and len(layers) < MOST_LAYERS
        layers.append(chance.randint(0, n_seen - 1) if repeats else n_seen)
        n_seen = max(n_seen, layers[-1] + 1)
    return layers


def random_config(chance):
    width, max_context, vocab_size = chance.choice((0, 0, 3, 16)), chance.randint(1, 40), chance.randint(1, 20)
    tables, kinds = random_tables(chance, max_context), []
    for _ in range(chance.randint(1, MOST_KINDS)):
        kinds.append(random_kind(chance, kinds, tables, width))
    has_staying = width or any(kind["feed_forward"] == EXPERTS for kind in kinds)
    multiplier = lambda: chance.choice((1.0, 0.5, -2.0))
    per_layer = {f"per_layer_{name}_multiplier": multiplier() if width else 0.0 for name in ("table", "input", "sum")}
    return {"architecture": chance.randint(1, 40), "flags": chance.choice((0, TIED)) | chance.choice((0, 0, LEARNED_POSITIONS)),
            "d_model": chance.choice((1, 6, 17, 33)), "vocab_size": vocab_size, "max_context": max_context,
            "planned_context": chance.randint(1, max_context),
            "compression": chance.randint(0, COMPRESSED_BUT_STAYING if has_staying else 1),
            "final_norm": chance.randint(RMS, LAYER_NORM), "norm_epsilon": chance.epsilon(), "embedding_multiplier": multiplier(),
            "residual_multiplier": multiplier(), "logits_divisor": chance.choice((1.0, 8.0)), "logits_cap": chance.cap(),
            "per_layer_width": width, **per_layer, "bos_token": chance.choice((NONE, vocab_size - 1)),
            "end_tokens": [chance.randint(0, vocab_size - 1) for _ in range(chance.randint(0, 3))],
            "rope_tables": tables, "kinds": kinds, "layers": random_layers(chance, len(kinds))}


def random_formats(chance, config):
    """Of each role: one for all layers, or one for each."""
    formats = {}
    for _, _, shape in all_shapes({**config, "n_layers": 0}):
        if shape.form == MATRIX and shape.name not in formats:
            one = lambda: chance.choice(FORMATS)
            by_layer = shape.name.split(".")[0] not in ("embedding", "lm_head", "per_layer_table", "per_layer_projection")
            formats[shape.name] = [one() for _ in config["layers"]] if by_layer and chance.happens() else one()
    return formats


def random_model(seed):
    """A Model; some of its planes are zeros, and frames where the config may have frames."""
    chance = Chance(seed)
    config = random_config(chance)
    formats = random_formats(chance, config)
    model = Model(formats=formats, seed=chance.randint(0, 1 << 30), **config)
    if any(tensor.number_format in NIBBLES for tensor in model.tensors) and chance.happens():
        config["flags"] |= SIGNED_SCALES
        model = Model(formats=formats, seed=chance.randint(0, 1 << 30), **config)
    compression, staying = config["compression"], set()
    for tensor in model.tensors:
        if compression and len(tensor.planes) == 1 and chance.happens(0.3):
            tensor.planes = [bytes(len(tensor.planes[0]))]
            tensor.values = tensor.values.__class__("f", bytes(4 * len(tensor.values)))
        if compression == COMPRESSED_BUT_STAYING and tensor.shape.number in STAYING:
            staying.add(tensor.shape.name)
    if compression:
        model.frame = lambda raw, role: (frames.rle_frame(len(raw), raw[:1])
                                         if role not in staying and 16 <= len(raw) <= 512 and not any(raw) else None)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(options.first, options.first + options.count):
        (options.folder / f"{seed}.cria").write_bytes(random_model(seed).file().data)


if __name__ == "__main__":
    main()
