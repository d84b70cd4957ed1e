"""Part 2 of docs/model_format.md: where the fields of the config section lie, and what its numbers stand for."""
import struct

NONE = 0xFFFFFFFF
NO_KIND = NO_TABLE = 255

F32, F16, BF16, INT8, INT4, INT4NL, INT8G32, BIT1, BIT2 = range(1, 10)
NIBBLES = (INT4, INT4NL)
FORMAT_NAMES = {F32: "f32", F16: "f16", BF16: "bf16", INT8: "int8", INT4: "int4", INT4NL: "int4nl", INT8G32: "int8g32",
                BIT1: "bit1", BIT2: "bit2"}
# (number format, group size) of each place.
FORMATS = ((F32, 0), (F16, 0), (BF16, 0), (INT8, 0), (INT4, 32), (INT4, 64), (INT4, 128), (INT4NL, 32), (INT4NL, 64), (INT4NL, 128),
           (INT8G32, 32), (BIT1, 128), (BIT2, 64))

TIED, SIGNED_SCALES, LEARNED_POSITIONS, UNIT_EMBEDDINGS = 1, 2, 4, 8  # flags of the model
NOT_COMPRESSED, COMPRESSED, COMPRESSED_BUT_STAYING = range(3)
RMS, LAYER_NORM = 1, 2
NO_MIXER, ATTENTION, LATENT, CONVOLUTION, DELTA, STATE_SPACE = range(6)
NO_FEED_FORWARD, DENSE, EXPERTS = range(3)
ACTIVATIONS = SILU, GELU, RELU_SQUARED, CLAMPED_SWIGLU = range(1, 5)

# Flags of a kind, from bit 0 on.
KIND_FLAGS = ("mixer_norm mixer_out_norm ffn_norm ffn_out_norm input_bias output_bias ffn_bias head_norms projection_norms "
              "value_norms keys_as_values sinks mixer_gate mixer_inner_norm ffn_inner_norm gated router_bias choice_bias "
              "router_norm normalized_weights expert_scale shared_gate branch_norms per_layer_input layer_scale conv_bias "
              "group_norms").split()


def flag_bits(names):
    """Of names with blanks between them."""
    return sum(1 << KIND_FLAGS.index(name) for name in {*names.split()})


class Record:
    """Fields that follow each other: text has the name and the format of struct of each. Several numbers are a list."""

    def __init__(self, text):
        words = text.split()
        self.places, at = {}, 0
        for name, form in zip(words[::2], words[1::2]):
            self.places[name] = (at, form)
            at += struct.calcsize("<" + form)
        self.size = at

    def read(self, raw, at=0):
        found = {name: struct.unpack_from("<" + form, raw, at + offset) for name, (offset, form) in self.places.items()}
        return {name: list(values) if len(values) > 1 else values[0] for name, values in found.items()}

    def write(self, values):
        """Fields that values lack are zeros."""
        raw = bytearray(self.size)
        for name, (offset, form) in self.places.items():
            value = values.get(name)
            if isinstance(value, list):
                struct.pack_into(f"<{len(value)}{form[-1]}", raw, offset, *value)
            elif value is not None:
                struct.pack_into("<" + form, raw, offset, value)
        return bytes(raw)

    def bytes_of(self, name, raw, at=0):
        offset, form = self.places[name]
        return raw[at + offset:at + offset + struct.calcsize("<" + form)]

    def reserved(self):
        return [name for name in self.places if name.startswith("reserved")]


SCALARS = Record("""
    architecture I  flags I  n_layers I  n_kinds I  n_counts I  d_model I  vocab_size I  max_context I  planned_context I
    compression I  final_norm I  norm_epsilon f  embedding_multiplier f  residual_multiplier f  logits_divisor f  logits_cap f
    per_layer_width I  per_layer_table_multiplier f  per_layer_input_multiplier f  per_layer_sum_multiplier f
    bos_token I  n_end_tokens I  end_tokens 16I  n_rope_tables I  pooling I  rope_tables 64s  reserved_224 32s""")
ROPE_TABLE = Record("n_pairs I  factor f  original_context I  reserved_12 4s")
KIND = Record("""
    mixer B  feed_forward B  norm B  activation B  flags I  n_query_heads H  n_key_heads H  n_value_heads H  key_dim H
    value_dim H  query_rank H  latent_rank H  shared_key_dim H  rope_table B  shared_with B  conv_taps B  router_score B
    window I  score_multiplier f  score_cap f  qkv_clip f  query_growth f  query_growth_period I  norm_epsilon f
    inner_epsilon f  unit_epsilon f  d_ff I  expert_ff I  n_experts H  n_chosen H  n_groups H  n_groups_chosen H
    group_rank B  reserved_81 3s  router_epsilon f  router_scale f  activation_alpha f  activation_limit f  reserved_100 28s""")
COUNT = Record("role H  kind B  format B  count I")

MOST_CONFIG_BYTES = 4096
MOST_ROPE_TABLES = 4
MOST_END_TOKENS = 16
LAYERS_ALIGNMENT = 8


def config_size(n_kinds, n_layers, n_counts):
    layers = -(-n_layers // LAYERS_ALIGNMENT) * LAYERS_ALIGNMENT
    return SCALARS.size + KIND.size * n_kinds + layers + COUNT.size * n_counts
