"""Valid models: every format, both kinds of tokenizer, and what lies just inside a limit."""
import struct

from bad_models import frames
from bad_models.case import OK, case
from bad_models.cases_of_chunks import MANY_TOKENS, noise_frame
from bad_models.cases_of_config import largest, model_of
from bad_models.cases_of_texts import DEEPEST, MOST_METADATA, long_added
from bad_models.config_limits import trials
from bad_models.kinds import TINY_TABLE, kind_of
from bad_models.model_writer import (BF16, BIT1, BIT2, CHAT, CHUNKS, CONFIG, DATA, DIRECTORY, F16, F32, INT4, INT4NL, INT8, INT8G32, MATRICES,
                                     METADATA, SIGNED_SCALES, TOKENIZER, Model)
from bad_models.text_writer import (A, ADDED, AFTER_OTHERS, AFTER_SPACE, BEGIN, BYTE_TOKENS, CALL_FORM, CALL_START, DATE, DATE_FORMAT,
                                    END, NOT_IN_USER, NOTE, SPACE, SPECIAL, SWALLOWS_BEFORE, SWALLOWS_BEHIND, THINKING_BEGIN,
                                    Tokenizer, call_form, chat_template, sentence_piece, text_model, turns)
from cria_reader.build_options import may_be_left_out
from cria_reader.config_fields import COMPRESSED_BUT_STAYING, EXPERTS, NO_TABLE, TIED, UNIT_EMBEDDINGS

HEADS = {"n_query_heads": 2, "n_key_heads": 1, "n_value_heads": 1, "key_dim": 4, "value_dim": 4}
SMALL_MODEL = {"d_model": 6, "vocab_size": 18}
SMALL = {**SMALL_MODEL, **HEADS, "d_ff": 9}
BIASES = "input_bias output_bias ffn_bias"
JSON = b'{"made by": "the second writer", "values": [1, -2.5e3, true, null, "\\u00e9\\ud83e\\udd99"]}'


def everywhere(number_format, group=0):
    return dict.fromkeys(MATRICES, (number_format, group))


def zeros_in_frames(raw, _):
    return frames.rle_frame(len(raw), b"\0") if len(raw) >= 64 and not any(raw) else None


def cases():
    yield from formats()
    yield from kinds()
    yield from texts()
    yield from limits()


def valid(name, what, model, kept=True):
    return case(name, OK, what, model.file(), kept, everywhere=not may_be_left_out(model.config))


def kinds():
    """Models of several kinds of layers, and what a build may leave out."""
    def one(name, what, **config):
        return valid(name, what, Model(**config))
    two = [kind_of(**HEADS, d_ff=9, window=5), kind_of(**HEADS, d_ff=3, rope_table=NO_TABLE, more_flags="head_norms")]
    yield one("two_kinds", "layers of two kinds: a window, or norms of heads and no RoPE", kinds=two, layers=[0, 0, 1, 0, 1],
              **SMALL_MODEL)
    yield one("equal_kinds", "layers of two equal kinds", kinds=[kind_of(**HEADS, d_ff=9)] * 2, layers=[0, 1, 0], **SMALL_MODEL)
    tables = [{**TINY_TABLE, "original_context": 8}, {**TINY_TABLE, "n_pairs": 2, "factor": 0.5}]
    yield one("two_rope_tables", "a RoPE table for each of two kinds, one with a second set of frequencies", rope_tables=tables,
              kinds=[kind_of(**HEADS), kind_of(**HEADS, rope_table=1)], layers=[0, 1], **SMALL_MODEL)
    yield one("experts", "a mixture of experts, which stay in place", compression=COMPRESSED_BUT_STAYING, kinds=[
        kind_of(feed_forward=EXPERTS, more_flags="normalized_weights ffn_bias", n_experts=3, n_chosen=2, expert_ff=18)])
    own = {**HEADS, "d_ff": 9, "window": 5, "more_flags": "per_layer_input layer_scale"}
    yield one("per_layer", "per-layer embeddings, which stay in place, and a layer that reads an earlier one's keys and values",
              per_layer_width=3, compression=COMPRESSED_BUT_STAYING, kinds=[kind_of(**own), kind_of(**own, shared_with=0)],
              layers=[0, 0, 1], **SMALL_MODEL)
    yield one("embeddings", "a model of embeddings: the mean of all rows, of length 1", flags=TIED | UNIT_EMBEDDINGS, pooling=2,
              kinds=[kind_of(**HEADS, d_ff=9)], **SMALL_MODEL)
    yield valid("config_4096", "the largest config", largest(103), kept=False)
    for trial in trials():
        model = None if trial.fault else model_of(trial.config)
        if model:
            yield valid(f"config_{trial.name}", "a field of the config at its limit", model, kept=False)


def formats():
    yield valid("f32_tied", "f32, tied, no texts", Model())
    yield valid("f32_biases", "f32 with all biases, an output matrix of its own, grouped heads, a window",
                Model(flags=0, **SMALL_MODEL, kinds=[kind_of(
                    more_flags=BIASES, window=5, d_ff=9, **{**HEADS, "n_query_heads": 4, "n_key_heads": 2, "n_value_heads": 2})]))
    norms = [kind_of(more_flags=f"{BIASES} head_norms", rope_table=table, d_ff=9, **HEADS) for table in (0, NO_TABLE)]
    yield valid("head_norms_long_rope", "norms of heads, a part of them turned by one of two sets of frequencies, a layer in three not",
                Model(flags=0, rope_tables=[{**TINY_TABLE, "original_context": 8}], kinds=norms, layers=[0, 1, 0], architecture=8,
                      **SMALL_MODEL))
    yield valid("f16_two_layers", "f16, two layers", Model(formats=everywhere(F16), layers=[0, 0]))
    yield valid("bf16", "bf16", Model(formats=everywhere(BF16), **SMALL))
    yield valid("int8", "int8", Model(formats=everywhere(INT8)))
    yield valid("int4_g32", "int4 in groups of 32", Model(formats=everywhere(INT4, 32)))
    yield valid("int4_g32_signed", "int4 with scales of either sign, beside int8",
                Model(formats={**everywhere(INT4, 32), "down": (INT8, 0)}, flags=TIED | SIGNED_SCALES, **SMALL))
    yield valid("int4nl_g32", "int4nl with scales of either sign, beside int4",
                Model(formats={**everywhere(INT4NL, 32), "down": (INT4, 32)}, flags=TIED | SIGNED_SCALES, **SMALL))
    yield valid("int4nl_g128", "int4nl in groups of 128", Model(formats=everywhere(INT4NL, 128)))
    yield valid("int4nl_g64", "int4nl in groups of 64", Model(formats=everywhere(INT4NL, 64)), kept=False)
    yield valid("int8g32", "int8 in groups of 32, beside int4 with scales of either sign",
                Model(formats={**everywhere(INT8G32, 32), "down": (INT4, 32)}, flags=TIED | SIGNED_SCALES, **SMALL))
    yield valid("int8g32_lm_head", "int8 in groups of 32, embedding and output layer apart",
                Model(formats={"embedding": (INT8G32, 32), "lm_head": (INT8G32, 32)}, flags=0, d_model=35), kept=False)
    yield valid("int4_g64", "int4 in groups of 64", Model(formats=everywhere(INT4, 64)), kept=False)
    yield valid("int4_g128", "int4 in groups of 128", Model(formats=everywhere(INT4, 128)), kept=False)
    for name, matrix_format in (("bit1", (BIT1, 128)), ("bit2", (BIT2, 64))):
        yield valid(name, f"trained weights in {name}", Model(formats=everywhere(*matrix_format), **SMALL))
        model = Model(formats={"down": matrix_format})
        model.set_plane("down", b"\1\0\xff\x83\0\x80\xff\xfb" * 4, 1)
        yield valid(f"{name}_scales", f"a scale of {name} is any finite number", model, kept=False)
    mixed = {"q": (INT8, 0), "k": (INT4, 64), "v": (INT4, 32), "o": (BF16, 0), "down": (F16, 0), "gate": (INT4, 128)}
    yield valid("mixed_formats", "each matrix in another format", Model(formats=mixed, **SMALL))
    by_layer = {"q": [(INT8, 0), (INT4, 32), (F32, 0)], "down": [(INT4, 64), (INT4, 64), (INT4, 128)], "o": [(F16, 0), (BF16, 0), (INT8, 0)]}
    yield valid("mixed_layers", "each layer in other formats", Model(formats=by_layer, layers=[0, 0, 0], **SMALL))
    yield valid("int8_frames", "int8, some chunks zstd frames", framed_model())
    yield valid("upper_bits_two_bytes", "f16, bf16 and scales of groups, their upper bits as frames", two_bytes_model())
    yield valid("upper_bits_codes", "codes of int4 and int8, their upper bits as frames",
                codes_model({"up": (INT4, 32), "down": (INT8, 0)}))
    yield valid("upper_bits_int4nl_int8g32", "the same of formats that XNNPACK does not take",
                codes_model({"gate": (INT4NL, 32), "q": (INT8G32, 32)}))
    yield valid("parts", "lower and upper bits in one frame", parts_model())
    yield valid("two_chunks", "a plane of two chunks, the first a frame",
                Model(vocab_size=MANY_TOKENS, compression=1, frame=lambda raw, role: noise_frame(raw)))
    yield valid("other_order", "the sections in another order", Model(
        order=(DATA, METADATA, CHUNKS, CHAT, TOKENIZER, DIRECTORY, CONFIG), metadata=JSON, chat=chat_template(),
        tokenizer=Tokenizer().bytes(), end_tokens=[END]))


def counting(n, most):
    return bytes(i & most for i in range(n))


def two_bytes_model():
    """Lower bytes count up, upper ones, exponents, are one."""
    def frame(raw, role):
        if role not in ("up", "down", "gate") or role == "gate" and len(raw) % 256 == 0:  # codes
            return None
        half = len(raw) // 2
        return frames.UpperBits(counting(half, 0xFF if role == "down" else 0xFE) + frames.rle_frame(half, b"\x78"))
    return Model(formats={"up": (BF16, 0), "down": (F16, 0), "gate": (INT4, 32)}, compression=1, frame=frame, **SMALL)


def codes_model(formats):
    """Lower bits count up, upper ones are 1, 2 and 0."""
    def frame(raw, role):
        if role not in formats or len(raw) % 256 != 0:  # scales
            return None
        quarter = len(raw) // 4
        return frames.UpperBits(counting(3 * quarter, 0x9F) + frames.rle_frame(quarter, b"\x21"))
    return Model(formats=formats, compression=1, frame=frame, **SMALL)


def parts_model():
    formats = {"up": (BF16, 0), "down": (INT8, 0), "gate": (INT4, 32), "q": (F16, 0)}

    def frame(raw, role):
        if role not in formats or len(raw) < 64 or role == "down" and len(raw) % 256:  # scales
            return None
        return frames.Parts(frames.raw_then_rle_frame(counting(len(raw) // 2, 0x1E), len(raw), b"\x78"))
    return Model(formats=formats, compression=1, frame=frame, **SMALL)


def framed_model():
    model = Model(formats=everywhere(INT8), compression=1, frame=zeros_in_frames)
    for role in "q k v up".split():
        model.set_plane(role, bytes(len(model.plane(role))))
    return model


def texts():
    yield valid("byte_level", "a byte-level tokenizer, a chat template, metadata",
                text_model(chat=chat_template(), metadata=JSON))
    yield valid("sentence_piece", "a SentencePiece tokenizer, a chat template", text_model(
        sentence_piece(), chat=chat_template(kind=3, rules=turns(user=b"b ", behind_answer=b"</s>")), bos_token=1,
        end_tokens=[2]))
    yield valid("calls", "a chat template with a form of calls", text_model(chat=chat_template(strings={CALL_FORM: call_form()})))
    yield valid("no_tokens", "a tokenizer of fewer tokens than the vocabulary", text_model(
        Tokenizer(tokens=((b"a", 0),), lookup=(0,), merges=(), byte_tokens=((97, 0),), added=(), bos=0xFFFFFFFF,
                  eos=0xFFFFFFFF), end_tokens=[]), kept=False)


    yield from control_tokens()


def control_tokens():
    def one(name, what, tokenizer=None, rules=turns(), strings=None, **config):
        return valid(name, what, text_model(tokenizer, chat=chat_template(rules=rules, strings=strings), **config), kept=False)
    yield one("added_alone", "bit 2 of a token that is not in added_tokens", Tokenizer().put("token_flags", A, ADDED, "<B"))
    tokens = (*BYTE_TOKENS, (b"a<s>", 0), (b"<s>a", 0))
    yield one("merge_of_special", "a special token is part of a merge, which nothing begins",
              Tokenizer(tokens=tokens, merges=((A, BEGIN, 0, 8), (BEGIN, A, 1, 9))))
    tokens, added = long_added((1024, 1023, 1))
    yield one("added_lengths", "added tokens as long as they may be", Tokenizer(tokens=tokens, added=added))
    blanks = (*BYTE_TOKENS, ("\u3000\n".encode(), ADDED))
    yield one("template_blanks", "white space in a template is no control token",
              Tokenizer(tokens=blanks, added=(NOTE, END, BEGIN, 8)), turns(user="\u3000\n".encode()))
    yield one("token_in_list", "what contents may not have holds no control tokens",
              strings={NOT_IN_USER: b"<note>\0"})
    yield one("dated", "a date stands where its slots are", rules=turns(start=b"on \0d.\0d"),
              strings={DATE: b"26 Jul 2024", DATE_FORMAT: b"%d %b %Y"})
    yield one("no_calls", "a form of answers without calls",
              strings={CALL_FORM: call_form(kind=0, strings={CALL_START: b"", THINKING_BEGIN: b"<think>\0\n<t>\0"})})
    yield one("end_token_without_text", "an end token that has no text",
              Tokenizer(tokens=(*BYTE_TOKENS, (b"", 0))), end_tokens=[END, 8, 15])
    yield one("answer_ends_as_text", "no token stands behind an answer", rules=turns(behind_answer=b"\n"))
    yield one("starts_and_ends", "texts start and end with tokens", Tokenizer(flags=3))


    yield valid("added_tokens_of_pieces", "added tokens that swallow white space, that are searched for late", added_model(True))
    yield valid("added_tokens_of_bytes", "added tokens that swallow white space, byte-level", added_model(False), kept=False)


def added_model(of_pieces):
    """Added tokens of every kind, all of them in the template, where white space stands beside them."""
    added = ((b"<e>", 0), (b"<l>", SWALLOWS_BEFORE), (b"<r>", SWALLOWS_BEHIND), (b" <w>", 0), (b"\n", 0), (b"<s>", 0), (b"<ss>", 0),
             (b"<t>", AFTER_OTHERS), (SPACE + b"<u>", AFTER_OTHERS), (b"<v>", AFTER_OTHERS | AFTER_SPACE))
    if not of_pieces:
        added = added[:7]
    tokens = [(b"a", 0), (b"b", 0), (SPACE if of_pieces else b" ", 0), (b"<unk>", 0)]
    tokens += [(text, ADDED | flags | (0 if text.isspace() else SPECIAL)) for text, flags in added]
    order = sorted(range(4, len(tokens)), key=lambda i: (tokens[i][0][0], -len(tokens[i][0]), tokens[i][0]))
    lookup = sorted(range(4), key=lambda i: tokens[i][0])
    kind = {"kind": 2, "pre_tokenizer": 6, "flags": 1 << 4 | 1 << 5} if of_pieces else {}
    tokenizer = Tokenizer(tokens=tokens, lookup=lookup, merges=(), byte_tokens=() if of_pieces else ((97, 0), (98, 1), (32, 2)),
                          added=order, bos=9, eos=4, unknown=3, **kind)
    rules = turns(b"<s> <l>a <r> <w>\n<l>", b"<u> <u>", b" <v>b<t>", b"<ss> \t<l>\n", b"\n<e> <w>")
    return text_model(tokenizer, chat=chat_template(rules=rules), vocab_size=len(tokens), bos_token=9, end_tokens=[4])


def limits():
    yield valid("metadata_16_deep", "metadata nested 16 deep", Model(metadata=b"[" * DEEPEST + b"]" * DEEPEST), kept=False)
    yield valid("metadata_largest", "metadata of 2^20 bytes", Model(metadata=b'"' + b"x" * (MOST_METADATA - 2) + b'"'), kept=False)
    for name, raw in (("number", b"-0.5E+10"), ("blanks", b" \t\r\n{ } \n"), ("string", '"\u2581\U0001f999"'.encode()),
                      ("lone_surrogate", b'"\\ud800"'), ("same_keys", b'{"a":1,"a":2}'), ("delete", b'"\x7f"')):
        yield valid(f"metadata_{name}", "metadata is any JSON", Model(metadata=raw), kept=False)
    yield valid("compression_unused", "frames are allowed, and none is there", Model(compression=1), kept=False)
    yield valid("checked_frame", "a frame with its own checksum", Model(compression=1, frame=lambda raw, role: (
        frames.checked_frame(len(raw), b"\0") if role == "down" else None)).set_plane("down", bytes(64)), kept=False)
    yield valid("least_stored", "a frame of exactly a 64th of what it makes", framed_to_the_limit(), kept=False)
    for name, value in (("subnormal", struct.pack("<I", 1)), ("minus_zero", struct.pack("<f", -0.0))):
        model = Model()
        raw = model.plane("down")
        raw[:4] = value
        yield valid(f"f32_{name}", "a weight is any finite number", model.set_plane("down", raw), kept=False)
    model = Model(formats=everywhere(INT8))
    for role in ("q", "down"):
        model.set_plane(role, bytes(64), 1)
    yield valid("int8_scale_zero", "a scale may be zero", model, kept=False)
    model = Model(formats=everywhere(INT4, 32))
    model.set_plane("down", b"\x80\0" * 16, 1).set_plane("q", b"\x7f\x7f" * 16, 1)
    yield valid("int4_scale_limits", "the smallest and the largest scale", model, kept=False)


def framed_to_the_limit():
    """1024 rows of f32 make 4096 bytes from 64."""
    def frame(raw, role):
        if role != "embedding":
            return None
        content = 64 - len(frames.header(len(raw))) - 3 - 4
        return frames.raw_then_rle_frame(bytes(content), len(raw), b"\0")
    model = Model(vocab_size=1024, compression=1, frame=frame)
    return model.set_plane("embedding", bytes(4096))
