"""Checkpoints with the demo's weights and another tokenizer."""
import json

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


def sentencepiece(name):
    """A tokenizer as Llama 2 has it: U+2581 for a space, one put in front of a text, tokens for single bytes."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{byte:02X}>": 3 + byte for byte in range(256)}}
    merges = []
    for letter in ["\u2581", "\u00e9", "\ufffd", *map(chr, range(0x21, 0x7f))]:
        vocab[letter] = len(vocab)
    for word in SENTENCEPIECE_WORDS:
        for i in range(1, len(word)):
            if word[:i + 1] not in vocab:
                vocab[word[:i + 1]] = len(vocab)
                merges.append(f"{word[:i]} {word[i]}")
    while len(vocab) < 2048:
        vocab[f"<unused {len(vocab)}>"] = len(vocab)
    added = [{"id": i, "content": text, "special": True, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
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
