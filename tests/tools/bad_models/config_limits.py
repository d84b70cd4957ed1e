"""Each field of the config at its limit, which is valid, and beyond it, which is refused with the field's name."""
import collections
import math

from bad_models.kinds import CLAMPED, EMPTY, FEED_FORWARDS, MIXERS, TINY_TABLE, config_of, kind_of
from cria_reader.config_fields import (ACTIVATIONS, ATTENTION, CLAMPED_SWIGLU, CONVOLUTION, DELTA, DENSE, EXPERTS, KIND_FLAGS, LATENT,
                                       NO_FEED_FORWARD, NO_MIXER, NONE, STATE_SPACE, KIND, flag_bits)

# fault: the field that is wrong; None: valid.
Trial = collections.namedtuple("Trial", "name config fault")
NAN, INF = math.nan, math.inf
BELOW_1 = 1 - 2 ** -24
MOST_32 = 0xFFFFFFFF
MIXER_NAMES = dict(zip(MIXERS, "none attention latent convolution delta state_space".split()))
FEED_FORWARD_NAMES = dict(zip(FEED_FORWARDS, "none dense experts".split()))

# Field of the model: values that are valid, values that are not.
EPSILON = ((0.0, -0.0, BELOW_1), (-1e-5, 1.0, NAN, INF))
FINITE = ((0.0, -1.0, 1e38), (NAN, INF, -INF))
OPTIONAL = ((0.0, -0.0, 1e-30), (-1.0, NAN, INF))
MODEL = {
    "architecture": ((1, 9, MOST_32), (0,)),
    "flags": ((0, 1), (2, 3, 8, 16, 1 << 31)),
    "d_model": ((1, 1 << 17), (0, (1 << 17) + 1, MOST_32)),
    "vocab_size": ((1, 1 << 21), (0, (1 << 21) + 1, MOST_32)),
    "max_context": ((16, 1 << 24), ((1 << 24) + 1, MOST_32, 0)),
    "planned_context": ((1, 32), (0, 33, MOST_32)),
    "compression": ((0, 1), (2, 3, MOST_32)),
    "final_norm": ((1, 2), (0, 3)),
    "norm_epsilon": EPSILON, "embedding_multiplier": FINITE, "residual_multiplier": FINITE,
    "logits_divisor": ((1e-30, 1e38), (0.0, -1.0, NAN, INF)), "logits_cap": OPTIONAL,
    "per_layer_width": ((4096,), (4097, MOST_32)),
    "per_layer_table_multiplier": ((), (1.0, -0.0, NAN)), "per_layer_input_multiplier": ((), (1.0, -0.0, INF)),
    "per_layer_sum_multiplier": ((), (1.0, -0.0, NAN)),
    "bos_token": ((0, 15, NONE), (16, NONE - 1)),
    "n_layers": ((), (1025, MOST_32)), "n_kinds": ((), (17, MOST_32)), "n_counts": ((), (464, MOST_32)),
    "n_end_tokens": ((), (17, MOST_32)), "n_rope_tables": ((), (5, MOST_32)), "pooling": ((1, 2, 3), (4, MOST_32))}

# (mixer, feed-forward) that has the fields: field: values that are valid, values that are not. Both are often dictionaries.
HEADS = {
    "n_query_heads": ((1, {"n_query_heads": 1024, "key_dim": 128}), (0, 1025, 0xFFFF, {"n_query_heads": 1024, "key_dim": 130})),
    "n_key_heads": (({"n_query_heads": 6, "n_key_heads": 3, "n_value_heads": 3},),
                    (0, {"n_query_heads": 3, "n_key_heads": 2, "n_value_heads": 2}, {"n_key_heads": 2, "n_value_heads": 2}, 0xFFFF)),
    "n_value_heads": (({"n_query_heads": 1024, "n_key_heads": 1024, "n_value_heads": 1024, "value_dim": 128},),
                      (0, 2, 0xFFFF, {"n_query_heads": 1024, "n_key_heads": 1024, "n_value_heads": 1024, "value_dim": 130})),
    "key_dim": ((2, 512), (0, 3, 514, 0xFFFF)),
    "value_dim": ((2, 512), (0, 3, 514, 0xFFFF))}
SCORES = {
    "rope_table": ((255,), (1, 254)),
    "window": ((0, 1, 1 << 24), ((1 << 24) + 1, MOST_32)),
    "score_multiplier": FINITE, "score_cap": OPTIONAL,
    "query_growth": (({"query_growth": -0.5, "query_growth_period": 1}, {"query_growth": 1e38, "query_growth_period": 1 << 24}),
                     ({"query_growth": NAN, "query_growth_period": 1}, {"query_growth": INF, "query_growth_period": 1})),
    "query_growth_period": ((), (1, {"query_growth": 0.5}, {"query_growth": 0.5, "query_growth_period": (1 << 24) + 1}))}
RECURRENT_HEADS = {
    **{name: HEADS[name] for name in ("key_dim", "value_dim")},
    "n_query_heads": ((), (0, 1025)),
    "n_key_heads": (({"n_query_heads": 1024, "n_key_heads": 1024, "n_value_heads": 1024},),
                    (0, 1025, {"n_query_heads": 2, "n_value_heads": 2})),
    "n_value_heads": ((1, 3, 1024), (0, 1025, {"n_query_heads": 2, "n_key_heads": 2, "n_value_heads": 3},
                                     {"n_value_heads": 1024, "value_dim": 130})),
    "conv_taps": ((2, 8), (0, 1, 9, 255))}
GROUPED = {"n_experts": 8, "n_chosen": 4, "n_groups": 4, "n_groups_chosen": 2, "group_rank": 2}
LATENT_HEADS = {"n_query_heads": 2, "key_dim": 6, "latent_rank": 4, "shared_key_dim": 2}
KINDS = {
    (ATTENTION, DENSE): {
        **HEADS, **SCORES, "qkv_clip": OPTIONAL, "norm": ((1, 2), (0, 3, 255)),
        "norm_epsilon": EPSILON, "inner_epsilon": EPSILON, "shared_with": ((255,), (0, 1, 254)),
        "mixer": ((), (6, 255)), "feed_forward": ((), (3, 255)),
        "activation": ((*(a for a in ACTIVATIONS if a != CLAMPED_SWIGLU), CLAMPED), (0, len(ACTIVATIONS) + 1, 255)),
        "activation_alpha": (({**CLAMPED, "activation_alpha": -1.0},), (1.0, -0.0, {**CLAMPED, "activation_alpha": NAN})),
        "activation_limit": (({**CLAMPED, "activation_limit": 1e-30},), (
            1.0, -0.0, *({**CLAMPED, "activation_limit": value} for value in (0.0, -1.0, NAN, INF)))),
        "d_ff": ((1, 1 << 19), (0, (1 << 19) + 1, MOST_32))},
    (NO_MIXER, DENSE): {"norm_epsilon": EPSILON, "inner_epsilon": EPSILON},
    (ATTENTION, NO_FEED_FORWARD): {},
    (NO_MIXER, NO_FEED_FORWARD): {"mixer": ((), (0,))},
    (LATENT, DENSE): {
        **SCORES,
        "n_query_heads": ((1, {"n_query_heads": 1024, "key_dim": 128}), (0, 1025, {"n_query_heads": 1024, "key_dim": 130})),
        "n_key_heads": ((), (0, 2, 0xFFFF)), "n_value_heads": ((), (0, 2, 0xFFFF)), "key_dim": HEADS["key_dim"],
        "value_dim": HEADS["value_dim"], "query_rank": ((0, 1, 1 << 14), ((1 << 14) + 1, 0xFFFF)),
        "latent_rank": ((2, 3, 512, {"n_query_heads": 256, "latent_rank": 512}), (0, 1, 513, {"n_query_heads": 257, "latent_rank": 512})),
        "shared_key_dim": (({**LATENT_HEADS, "shared_key_dim": 4}, {**LATENT_HEADS, "rope_table": 0}),
                           ({**LATENT_HEADS, "shared_key_dim": 3}, {**LATENT_HEADS, "shared_key_dim": 6}, 2)),
        # Nothing shared is nothing to turn.
        "rope_table": ((255,), (0, 1))},
    (CONVOLUTION, DENSE): {"conv_taps": RECURRENT_HEADS["conv_taps"]},
    (DELTA, DENSE): {**RECURRENT_HEADS, "unit_epsilon": EPSILON},
    (STATE_SPACE, DENSE): RECURRENT_HEADS,
    (ATTENTION, EXPERTS): {
        "d_ff": ((0, 1, 1 << 19), ((1 << 19) + 1,)),
        "expert_ff": ((1, {"n_experts": 32, "expert_ff": 1 << 19}), (0, (1 << 19) + 1, MOST_32)),
        "n_experts": ((1, 1024, {"n_experts": 1024, "expert_ff": 1 << 14}), (0, 1025, {"n_experts": 33, "expert_ff": 1 << 19})),
        "n_chosen": ((2, {"n_experts": 64, "n_chosen": 64}), (0, 3, {"n_experts": 128, "n_chosen": 65})),
        "n_groups": ((GROUPED, {"n_groups": 1, "n_groups_chosen": 1, "group_rank": 1}, {"n_groups": 2, "n_groups_chosen": 1, "group_rank": 1}),
                     ({**GROUPED, "n_groups": 3}, {**GROUPED, "n_groups": 16})),
        "n_groups_chosen": (({**GROUPED, "n_groups_chosen": 4},),
                            (1, {**GROUPED, "n_groups_chosen": 0}, {**GROUPED, "n_groups_chosen": 1}, {**GROUPED, "n_groups_chosen": 5})),
        "group_rank": ((), (1, {**GROUPED, "group_rank": 0}, {**GROUPED, "group_rank": 3},
                            {"n_groups": 2, "n_groups_chosen": 1, "group_rank": 2})),
        "router_score": ((1, 2), (0, 3)), "router_epsilon": EPSILON, "router_scale": FINITE}}

# Flags: what must be of a kind that has it; all that are not in a line with its mixer and feed-forward are refused.
FLAGS_OF_MIXERS = {
    "mixer_norm mixer_out_norm input_bias output_bias": {ATTENTION, LATENT, CONVOLUTION, DELTA, STATE_SPACE},
    "head_norms projection_norms value_norms keys_as_values sinks mixer_gate mixer_inner_norm": {ATTENTION},
    "conv_bias": {CONVOLUTION, DELTA, STATE_SPACE}, "group_norms": {STATE_SPACE}}
FLAGS_OF_FEED_FORWARDS = {
    "ffn_norm ffn_out_norm ffn_bias gated per_layer_input": {DENSE, EXPERTS}, "ffn_inner_norm": {DENSE},
    "router_bias choice_bias router_norm normalized_weights expert_scale shared_gate branch_norms": {EXPERTS}}
FLAG_NEEDS = {"per_layer_input": {"per_layer_width": 1}, "shared_gate": {"d_ff": 1}, "branch_norms": {"d_ff": 1}}


def spelt(value):
    if isinstance(value, dict):
        return "_".join(f"{name}_{spelt(v)}" for name, v in value.items())
    return f"{value:x}" if isinstance(value, int) else str(value).replace(".", "p").replace("-", "m").replace("+", "")


def trials():
    yield from of_model()
    yield from of_positions()
    yield from of_tables()
    yield from of_kinds()
    yield from of_unused_fields()
    yield from of_flags()
    yield from of_layers()


def of_model():
    for field, (good, bad) in MODEL.items():
        for fault, values in ((None, good), (field, bad)):
            for value in values:
                yield Trial(f"{field}_{spelt(value)}", config_of(**{field: value}), fault)
    for name, items in (("end_tokens_16", list(range(16))), ("end_tokens_same", [3, 3])):
        yield Trial(name, config_of(end_tokens=items), None)
    for pooling in (1, 2, 3):
        yield Trial(f"flags_9_pooling_{pooling}", config_of(flags=9, pooling=pooling), None)
    yield Trial("end_token_outside", config_of(end_tokens=[16]), "end_tokens")
    yield Trial("end_tokens_behind", config_of(n_end_tokens=1, end_tokens=[1, 2]), "end_tokens")


def of_positions():
    wide = {"d_model": 1 << 17, "flags": 5}
    yield Trial("positions_most", config_of(**wide, max_context=1 << 14), None)
    yield Trial("positions_more", config_of(**wide, max_context=(1 << 14) + 1), "flags")
    width = {"per_layer_width": 1, "vocab_size": 1 << 21}
    yield Trial("per_layer_rows_most", config_of(**width, layers=[0] * 1024), None)
    few = {"per_layer_width": 1}
    for name in ("table", "input", "sum"):
        field = f"per_layer_{name}_multiplier"
        yield Trial(f"{field}_used", config_of(**few, **{field: -0.5}), None)
        yield Trial(f"{field}_used_nan", config_of(**few, **{field: NAN}), field)


def of_tables():
    table = lambda **changes: {**TINY_TABLE, **changes}
    for fault, tables in ((None, [table()] * 4), (None, [table(factor=0.0), table(factor=-1e38)]),
                          (None, [table(original_context=31)]), ("n_pairs", [table(n_pairs=0)]), ("n_pairs", [table(), table(n_pairs=257)]),
                          ("factor", [table(factor=NAN)]), ("factor", [table(factor=INF)]),
                          ("original_context", [table(original_context=32)]), ("original_context", [table(original_context=MOST_32)])):
        yield Trial(f"rope_tables_{len(tables)}_{spelt(tables[-1])}", config_of(rope_tables=tables), fault)
    yield Trial("rope_table_256_pairs", config_of(rope_tables=[table(n_pairs=256)], key_dim=512, value_dim=512), None)
    yield Trial("rope_table_wide", config_of(rope_tables=[table(n_pairs=2)]), "rope_table")
    yield Trial("rope_table_no_kind_uses", config_of(rope_tables=[table(), table(n_pairs=256)]), None)
    yield Trial("rope_tables_none", config_of(rope_tables=[], rope_table=255), None)
    yield Trial("rope_table_missing", config_of(rope_tables=[]), "rope_table")
    yield Trial("rope_tables_behind", config_of(n_rope_tables=1, rope_tables=[table(), table()]), "rope_tables")


def kind_named(mixer, feed_forward, changes):
    name = "_".join((MIXER_NAMES[mixer], FEED_FORWARD_NAMES[feed_forward], spelt(changes)))
    return name, config_of(kinds=[{**kind_of(mixer, feed_forward), **changes}])


def of_kinds():
    for blocks, fields in KINDS.items():
        for field, (good, bad) in fields.items():
            for fault, values in ((None, good), (field, bad)):
                for value in values:
                    name, config = kind_named(*blocks, value if isinstance(value, dict) else {field: value})
                    yield Trial(name, config, fault)


def of_unused_fields():
    """A field that neither the mixer nor the feed-forward has is zero, or 255."""
    always = {"mixer", "feed_forward", "norm", "flags", "norm_epsilon", "inner_epsilon"}
    of_mixers = {field for fields in (HEADS, SCORES, RECURRENT_HEADS) for field in fields}
    of_mixers |= {"qkv_clip", "shared_with", "query_rank", "latent_rank", "shared_key_dim", "unit_epsilon"}
    for (mixer, feed_forward), fields in KINDS.items():
        if not mixer and not feed_forward:
            continue
        mine = set(fields) | set(HEADS if mixer == ATTENTION else {}) | set(SCORES if mixer == ATTENTION else {})
        mine |= {"qkv_clip", "shared_with"} if mixer == ATTENTION else set()
        mine |= {"activation", "activation_alpha", "activation_limit", "d_ff"} if feed_forward else set()
        for field in EMPTY:
            if field in always | mine:
                continue
            value = 0 if field in ("rope_table", "shared_with") else 0.5 if KIND.places[field][1] == "f" else 1
            name, config = kind_named(mixer, feed_forward, {field: value})
            yield Trial(f"{name}_unused", config, field)
    name, config = kind_named(ATTENTION, DENSE, {"router_scale": -0.0})
    yield Trial(f"{name}_unused", config, "router_scale")


def allowed_flags(mixer, feed_forward):
    found = {"layer_scale"}
    for table, block in ((FLAGS_OF_MIXERS, mixer), (FLAGS_OF_FEED_FORWARDS, feed_forward)):
        found |= {name for names, blocks in table.items() if block in blocks for name in names.split()}
    return found


def of_flags():
    for mixer, feed_forward in KINDS:
        if not mixer and not feed_forward:
            continue
        names, allowed = f"{MIXER_NAMES[mixer]}_{FEED_FORWARD_NAMES[feed_forward]}", allowed_flags(mixer, feed_forward)
        for flag in KIND_FLAGS:
            needs = FLAG_NEEDS.get(flag, {}) if flag in allowed else {}
            yield Trial(f"flag_{flag}_{names}", flagged(mixer, feed_forward, flag, **needs), None if flag in allowed else "flags")
            if needs:
                yield Trial(f"flag_{flag}_alone_{names}", flagged(mixer, feed_forward, flag), "flags")
    for bit in range(len(KIND_FLAGS), 32):
        yield Trial(f"flag_{bit}", flagged(ATTENTION, DENSE, "", bits=1 << bit), "flags")
    yield Trial("flag_two_norms", flagged(ATTENTION, DENSE, "head_norms projection_norms"), "flags")
    yield Trial("flag_keys_as_values_other_width", flagged(ATTENTION, DENSE, "keys_as_values", value_dim=4), "flags")
    yield Trial("flag_per_layer_clamped", flagged(ATTENTION, DENSE, "per_layer_input", per_layer_width=1, **CLAMPED), "flags")
    for feed_forward in (DENSE, EXPERTS):
        kind = {**kind_of(ATTENTION, feed_forward), **CLAMPED}
        kind["flags"] &= ~flag_bits("gated")
        yield Trial(f"flag_clamped_{FEED_FORWARD_NAMES[feed_forward]}_not_gated", config_of(kinds=[kind]), "flags")
    for name, flags, fault in (("shared", "", None), ("shared_value_norms", "value_norms", "flags"),
                               ("shared_keys_as_values", "keys_as_values", "flags"), ("shared_head_norms", "head_norms", None),
                               ("shared_biases", "input_bias output_bias projection_norms", None)):
        yield Trial(f"flag_{name}", sharing({"shared_with": 0}, flags), fault)


def flagged(mixer, feed_forward, names, per_layer_width=0, bits=0, **changes):
    kind = {**kind_of(mixer, feed_forward, names), **changes}
    kind["flags"] |= bits
    return config_of(kinds=[kind], per_layer_width=per_layer_width)


def sharing(changes, flags="", first=None, **model):
    """A second kind that is another's, or meant to be."""
    return config_of(kinds=[first or kind_of(), {**kind_of(more_flags=flags), **changes}], **{"layers": [0, 1], **model})


def of_layers():
    one, other = kind_of(), kind_of(d_ff=2)
    three = [one, other, one]
    for name, kinds, layers, fault in (
            ("layers_none", [one], [], "n_layers"), ("layers_1024", [one], [0] * 1024, None), ("layers_1025", [one], [0] * 1025, "n_layers"),
            ("kinds_none", [], [0], "n_kinds"), ("kinds_16", [one] * 16, range(16), None), ("kinds_17", [one] * 17, range(17), "n_kinds"),
            ("kinds_equal", [one, one], [0, 1, 0], None), ("layers_turns", three, [0, 1, 0, 2, 1, 2], None),
            ("layers_first_1", [one, other], [1, 0], "layers"), ("layers_out_of_order", three, [0, 2, 1], "layers"),
            ("layers_kind_unused", [one, other], [0, 0], "layers"), ("layers_last_kind_unused", three, [0, 1, 1], "layers"),
            ("layers_kind_1_of_1", [one], [0, 1], "layers"), ("layers_kind_255", [one], [0, 255], "layers")):
        yield Trial(name, config_of(kinds=kinds, layers=list(layers)), fault)
    own = {"shared_with": 0}
    for name, config, fault in (
            ("shared_with_itself", sharing({"shared_with": 1}), "shared_with"),
            ("shared_with_later", config_of(kinds=[kind_of(shared_with=1), kind_of()], layers=[0, 1]), "shared_with"),
            ("shared_with_none", sharing({"shared_with": 2}), "shared_with"),
            ("shared_with_other_heads", sharing({**own, "n_query_heads": 2, "n_key_heads": 2, "n_value_heads": 2}), "shared_with"),
            ("shared_with_more_queries", sharing({**own, "n_query_heads": 2}), None),
            ("shared_with_other_key_dim", sharing({**own, "key_dim": 4}), "shared_with"),
            ("shared_with_other_value_dim", sharing({**own, "value_dim": 4}), "shared_with"),
            ("shared_with_other_window", sharing({**own, "window": 3}), "shared_with"),
            ("shared_with_other_table", sharing({**own, "rope_table": 255}), None),
            ("shared_with_no_attention", sharing(own, first=kind_of(CONVOLUTION)), "shared_with"),
            ("shared_with_latent", sharing(own, first=kind_of(LATENT)), "shared_with")):
        yield Trial(name, config, fault)
    third = config_of(kinds=[kind_of(), kind_of(shared_with=0), kind_of(shared_with=1)], layers=[0, 1, 2])
    yield Trial("shared_with_sharing", third, "shared_with")
    yield Trial("shared_last_of_several", config_of(kinds=[kind_of(), kind_of(shared_with=0)], layers=[0, 0, 1, 0, 1]), None)
    yield Trial("compression_2_experts", config_of(kinds=[kind_of(feed_forward=EXPERTS)], compression=2), None)
    yield Trial("compression_2_per_layer", config_of(per_layer_width=1, compression=2), None)
