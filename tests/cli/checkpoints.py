"""Checkpoints with the demo's weights and another tokenizer, or the demo's tokenizer and other weights."""
import array
import json
import math
import random
import struct

import cria_cli as cli

SENTENCEPIECE_WORDS = ("the", "cat", "user", "assistant", "hello", "\u2581the", "\u2581cat", "\u2581\u2581", "\u2581\ufffd")
SENTENCEPIECE_TEMPLATE = ("{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}</s>{% endfor %}"
                          "{% if add_generation_prompt %}[assistant]{% endif %}")


def _folder(name, tokenizer, tokenizer_config, ids):
    folder = cli.folder() / name
    folder.mkdir()
    config = json.loads((cli.DEMO / "config.json").read_text()) | ids
    for file, content in (("config.json", config), ("tokenizer.json", tokenizer), ("tokenizer_config.json", tokenizer_config)):
        (folder / file).write_text(json.dumps(content))
    (folder / "model.safetensors").symlink_to(cli.DEMO / "model.safetensors")
    return folder


def odd_byte_level(name, texts):
    """The demo with its last ordinary tokens in place of these: strings of byte-level letters. Gives their ids, too."""
    tokenizer = json.loads((cli.DEMO / "tokenizer.json").read_text())
    config = json.loads((cli.DEMO / "tokenizer_config.json").read_text())
    vocab, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    ids = {}
    for text in texts:
        merge = merges.pop()
        ids[text] = vocab.pop("".join(merge if isinstance(merge, list) else merge.split(" ")))
        vocab[text] = ids[text]
    return _folder(name, tokenizer, config, {}), ids


def sentencepiece(name, knows_all=True, is_normalized=False):
    """A tokenizer as Llama 2 has it: U+2581 for a space, one put in front of a text, tokens for single bytes. One that does not
    know all has four letters. Normalized tokens are found in texts only behind a space."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    if knows_all:
        vocab |= {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    merges = []
    for letter in ["\u2581", "\u00e9", "\ufffd", *map(chr, range(0x21, 0x7f))] if knows_all else "aehl":
        vocab[letter] = len(vocab)
    for word in SENTENCEPIECE_WORDS if knows_all else ():
        for i in range(1, len(word)):
            if word[:i + 1] not in vocab:
                vocab[word[:i + 1]] = len(vocab)
                merges.append(f"{word[:i]} {word[i]}")
    while len(vocab) < 2048:
        vocab[f"<unused {len(vocab)}>"] = len(vocab)
    added = [{"id": i, "content": text, "special": True, "lstrip": False, "rstrip": False, "normalized": is_normalized, "single_word": False}
             for i, text in enumerate(("<unk>", "<s>", "</s>"))]
    tokenizer = {
        "version": "1.0", "added_tokens": added, "truncation": None, "padding": None, "pre_tokenizer": None,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": merges}}
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": SENTENCEPIECE_TEMPLATE}
    return _folder(name, tokenizer, config, {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None})


def write_safetensors(path, shapes, seed):
    """Random f32 values of these shapes, drawn up to a size; norms are near 1."""
    source, header, data = random.Random(seed), {}, bytearray()
    for name, shape in shapes.items():
        mean = 1 if len(shape) == 1 and name.endswith("weight") else 0
        n = math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
        drawn = array.array("f", [source.gauss(mean, 0.2) for _ in range(min(n, 1 << 17))])
        data += (drawn * -(-n // len(drawn)))[:n].tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def packed_ternary(name, width=128):
    """A Llama of two layers whose layers' matrices are packed as BitNet's, without a tokenizer."""
    vocab = 256
    tensors = {"model.embed_tokens.weight": ("F32", [vocab, width]), "lm_head.weight": ("F32", [vocab, width]),
               "model.norm.weight": ("F32", [width])}
    for layer in range(2):
        for part in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{part}.weight"] = ("F32", [width])
        for part in (*(f"self_attn.{letter}_proj" for letter in "qkvo"), *(f"mlp.{word}_proj" for word in ("gate", "up", "down"))):
            tensors[f"model.layers.{layer}.{part}.weight"] = ("U8", [width // 4, width])
            tensors[f"model.layers.{layer}.{part}.weight_scale"] = ("BF16", [1])
    source, header, data = random.Random(1), {}, bytearray()
    for tensor, (dtype, shape) in tensors.items():
        n = math.prod(shape)
        values = {"F32": lambda n: array.array("f", [source.gauss(0, 0.2) for _ in range(n)]).tobytes(), "U8": source.randbytes,
                  "BF16": lambda n: b"\x80\x3d" * n}[dtype](n)
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    folder = cli.folder() / name
    folder.mkdir()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": width,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "vocab_size": vocab, "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}}))
    return folder


def gpt2(name, context):
    """A GPT-2 of one layer and 32 columns with random weights, and the demo's tokenizer and template."""
    width, vocab = 32, 2048
    layer = {"ln_1": [width], "attn.c_attn": [width, 3 * width], "attn.c_proj": [width, width], "ln_2": [width],
             "mlp.c_fc": [width, 4 * width], "mlp.c_proj": [4 * width, width]}
    shapes = {"transformer.wte.weight": [vocab, width], "transformer.wpe.weight": [context, width]}
    for part, shape in (*((f"h.0.{part}", shape) for part, shape in layer.items()), ("ln_f", [width])):
        shapes |= {f"transformer.{part}.weight": shape, f"transformer.{part}.bias": shape[-1:]}
    return _random_folder(name, {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": width, "n_layer": 1, "n_head": 2, "n_positions": context,
        "vocab_size": vocab, "bos_token_id": 2042, "eos_token_id": 2046}, shapes)


def _random_folder(name, config, shapes):
    """Random weights, with the demo's tokenizer and template."""
    folder = cli.folder() / name
    folder.mkdir()
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).symlink_to(cli.DEMO / file)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", shapes, 1)
    return folder


def lfm2(name, context, width=32, ffn=48, n_layers=3):
    """An LFM2 in which every third layer attends, with random weights, and the demo's tokenizer and template."""
    vocab = 2048
    shapes = {"model.embed_tokens.weight": [vocab, width], "model.embedding_norm.weight": [width]}
    mixers = {"conv": {"conv.in_proj": [3 * width, width], "conv.conv": [width, 1, 3], "conv.out_proj": [width, width]},
              "full_attention": {"self_attn.q_proj": [width, width], "self_attn.k_proj": [width // 2, width],
                                 "self_attn.v_proj": [width // 2, width], "self_attn.out_proj": [width, width],
                                 "self_attn.q_layernorm": [width // 2], "self_attn.k_layernorm": [width // 2]}}
    layers = ["full_attention" if i % 3 == 1 else "conv" for i in range(n_layers)]
    for i, mixer in enumerate(layers):
        layer = mixers[mixer] | {"operator_norm": [width], "ffn_norm": [width], "feed_forward.w1": [ffn, width],
                                 "feed_forward.w3": [ffn, width], "feed_forward.w2": [width, ffn]}
        shapes |= {f"model.layers.{i}.{part}.weight": shape for part, shape in layer.items()}
    return _random_folder(name, {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "hidden_size": width, "intermediate_size": ffn,
        "num_hidden_layers": len(layers), "num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": layers, "norm_eps": 1e-5,
        "block_auto_adjust_ff_dim": False, "max_position_embeddings": context, "vocab_size": vocab, "tie_word_embeddings": True,
        "bos_token_id": 2042, "eos_token_id": 2046}, shapes)


def _renamed(path, name_of):
    """The demo's weights, each tensor called name_of(name); none where that gives None."""
    data = (cli.DEMO / "model.safetensors").read_bytes()
    n, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + n])
    kept = {name_of(name): entry for name, entry in header.items() if name != "__metadata__" and name_of(name) is not None}
    # Values that nothing names would be refused: they move together.
    values, at = bytearray(), 8 + n
    for entry in kept.values():
        begin, end = entry["data_offsets"]
        entry["data_offsets"] = [len(values), len(values) + end - begin]
        values += data[at + begin:at + end]
    text = json.dumps(kept).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)


TRANSFORMER, POOLING, NORMALIZE = ({"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                                   for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"),
                                                                     ("2_Normalize", "Normalize"))))


def embedding(name, modules=(TRANSFORMER, POOLING, NORMALIZE), pooling=None, config=None, has_front=False, ends=True):
    """The demo as a model of embeddings: tensors without "model.", an EOS after each text, the files of sentence-transformers.
    pooling: what 1_Pooling/config.json says besides the width."""
    tokenizer = json.loads((cli.DEMO / "tokenizer.json").read_text())
    if ends:
        template = tokenizer["post_processor"]["processors"][1]
        template["single"].append({"SpecialToken": {"id": "<|end_of_text|>", "type_id": 0}})
        template["special_tokens"]["<|end_of_text|>"] = {"id": "<|end_of_text|>", "ids": [2043], "tokens": ["<|end_of_text|>"]}
    folder = _folder(name, tokenizer, json.loads((cli.DEMO / "tokenizer_config.json").read_text()), config or {})
    if not has_front:
        (folder / "model.safetensors").unlink()
        _renamed(folder / "model.safetensors", lambda tensor: tensor.removeprefix("model.") if tensor != "lm_head.weight" else None)
    if modules is not None:
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        said = {"word_embedding_dimension": 256, **({"pooling_mode_lasttoken": True} if pooling is None else pooling)}
        (folder / "1_Pooling/config.json").write_text(json.dumps(said))
    return folder
