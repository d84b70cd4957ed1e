"""Configs of the smallest models there are: the fields of the model, and kinds of layers with each mixer and feed-forward."""
from cria_reader.config_fields import (ATTENTION, CLAMPED_SWIGLU, CONVOLUTION, DELTA, DENSE, EXPERTS, LATENT, NO_FEED_FORWARD, NO_KIND,
                                       NO_MIXER, NO_TABLE, NONE, SILU, STATE_SPACE, KIND, SCALARS, flag_bits)

HEADS = {"n_query_heads": 1, "n_key_heads": 1, "n_value_heads": 1, "key_dim": 2, "value_dim": 2}
MIXERS = {
    NO_MIXER: {},
    ATTENTION: {**HEADS, "rope_table": 0, "score_multiplier": 0.5},
    LATENT: {**HEADS, "latent_rank": 2, "score_multiplier": 0.5},
    CONVOLUTION: {"conv_taps": 2},
    DELTA: {**HEADS, "conv_taps": 2, "unit_epsilon": 1e-6},
    STATE_SPACE: {**HEADS, "conv_taps": 2}}
FEED_FORWARDS = {
    NO_FEED_FORWARD: {},
    DENSE: {"activation": SILU, "d_ff": 1},
    EXPERTS: {"activation": SILU, "expert_ff": 1, "n_experts": 2, "n_chosen": 1, "router_score": 1, "router_scale": 1.0}}
CLAMPED = {"activation": CLAMPED_SWIGLU, "activation_alpha": 1.75, "activation_limit": 7.0}
EMPTY = {**dict.fromkeys((name for name in KIND.places if not name.startswith("reserved")), 0), "norm": 1,
         "norm_epsilon": 1e-5, "rope_table": NO_TABLE, "shared_with": NO_KIND}

TINY_TABLE = {"n_pairs": 1, "factor": 1.0, "original_context": 0}
TINY_MODEL = {
    **dict.fromkeys((name for name in SCALARS.places if not name.startswith("reserved")), 0),
    "architecture": 1, "flags": 1, "d_model": 1, "vocab_size": 16, "max_context": 32, "planned_context": 16, "final_norm": 1,
    "norm_epsilon": 1e-5, "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "logits_divisor": 1.0, "bos_token": NONE}
OF_A_MODEL = ("flags", "norm_epsilon")  # what both have; a kind's are kind_flags and kind_norm_epsilon
LISTS = ("end_tokens", "rope_tables", "kinds", "layers", "counts")
COUNTED = {"n_layers": "layers", "n_kinds": "kinds", "n_counts": "counts", "n_end_tokens": "end_tokens", "n_rope_tables": "rope_tables"}


def known(changes, fields):
    unknown = changes.keys() - set(fields)
    if unknown:
        raise ValueError(f"no such field: {unknown}")
    return changes


def kind_of(mixer=ATTENTION, feed_forward=DENSE, more_flags="", **changes):
    """A kind of a Llama's layer, or with another mixer and feed-forward."""
    usual = " ".join(["mixer_norm"] * (mixer != NO_MIXER) + ["ffn_norm gated"] * (feed_forward != NO_FEED_FORWARD))
    return {**EMPTY, **MIXERS[mixer], **FEED_FORWARDS[feed_forward], "mixer": mixer, "feed_forward": feed_forward,
            "flags": flag_bits(f"{usual} {more_flags}"), **known(changes, EMPTY)}


def config_of(**changes):
    """A model of one layer. Fields of kinds change the only kind; what is counted is counted, unless changes say otherwise."""
    of_kind = {name.removeprefix("kind_"): value for name, value in changes.items()
               if name.removeprefix("kind_") in EMPTY and name not in OF_A_MODEL}
    if "kinds" in changes and of_kind:
        raise ValueError(f"of which kind? {of_kind}")
    of_model = {name: value for name, value in changes.items() if name.removeprefix("kind_") not in of_kind or name in OF_A_MODEL}
    config = {**TINY_MODEL, "kinds": [{**kind_of(), **of_kind}], "layers": [0], "rope_tables": [TINY_TABLE], "end_tokens": [],
              "counts": None, **known(of_model, {*TINY_MODEL, *LISTS})}
    return config
