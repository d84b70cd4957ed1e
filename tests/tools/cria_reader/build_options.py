"""What a build of cria may leave out: its programs then refuse a valid file with CRIA_UNSUPPORTED."""
from cria_reader.config_fields import (ACTIVATIONS, ATTENTION, DENSE, EXPERTS, LAYER_NORM, LEARNED_POSITIONS, NO_KIND,
                                       SILU, STATE_SPACE, flag_bits)

IN_EVERY_BUILD = flag_bits("mixer_norm ffn_norm input_bias output_bias ffn_bias head_norms gated")
ALL_FLAGS = (1 << 27) - 1
VARIANT_FIELDS = ("score_cap", "qkv_clip", "query_growth")


def may_be_left_out(config):
    """Of a config that need not be valid. No build leaves out what does not exist."""
    return bool(config["flags"] & LEARNED_POSITIONS or config["final_norm"] == LAYER_NORM or config["logits_cap"] or
                config["per_layer_width"] or any(map(kind_may_be_left_out, config["kinds"])))


def kind_may_be_left_out(kind):
    is_other_block = kind["mixer"] != ATTENTION and kind["mixer"] <= STATE_SPACE or kind["feed_forward"] in (0, EXPERTS)
    is_plain = kind["feed_forward"] == DENSE and not kind["flags"] & flag_bits("gated")
    return (is_other_block or is_plain or kind["norm"] == LAYER_NORM or kind["activation"] in ACTIVATIONS[SILU:] or
            kind["flags"] & ALL_FLAGS & ~IN_EVERY_BUILD or kind["key_dim"] != kind["value_dim"] or kind["shared_with"] != NO_KIND or
            any(kind[name] for name in VARIANT_FIELDS))
