"""Checkpoint files at their worst: for each parser of cria-convert the inputs that cost it most.

Each maker takes a size in bytes and returns file contents of about that size (never more). CASES names them, with the
file they go into and words of the line that must follow, so that a test can tell how far the parser came: to what is
looked for behind the file (READ), or to the rule or limit that the case is about.
"""

import json
import random
import struct

SPACE_MARK = "\u2581"
TENSOR = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
MASK = (1 << 64) - 1
MURMUR = 0xC6A4A7935BD1E995  # the multiplier of libstdc++'s string hash


def repeated(text, size):
    return text * (size // len(text))


def joined(items, size, begin, end):
    """begin + items, separated by commas, + end, as many as fit into size bytes of UTF-8."""
    parts, used = [], len(begin) + len(end)
    for item in items:
        used += len(item.encode()) + 1
        if used > size:
            break
        parts.append(item)
    return begin + ",".join(parts) + end


def shuffled_numbers(n):
    return random.Random(n).sample(range(n), n)


def safetensors(header):
    data = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(data)) + data


def tensors(name):
    """A header full of empty tensors; name makes a key of a number."""
    def make(size):
        n = size // (len(name(0)) + len(TENSOR) + 4)
        return safetensors(joined((f'"{name(i)}":{TENSOR}' for i in shuffled_numbers(n)), size - 8, "{", "}"))
    return make


def header(text):
    return lambda size: safetensors(text(size - 8))


def deep_objects(size):
    return repeated('{"a":', size)


def equal_hashes(n):
    """n texts to which an unkeyed 64-bit Murmur hash with this multiplier gives one value."""
    inverse = pow(MURMUR, -1, 1 << 64)
    rng = random.Random(5)

    def mix(block):
        x = block * MURMUR & MASK
        return (x ^ x >> 47) * MURMUR & MASK

    def unmix(data):
        x = data * inverse & MASK
        return (x ^ x >> 47) * inverse & MASK

    def is_ascii(block):
        return all(byte < 0x80 for byte in block.to_bytes(8, "little"))

    # As few characters that JSON escapes as a short search finds.
    best = None
    for _ in range(1 << 15):
        block = int.from_bytes(bytes(rng.randrange(0x80) for _ in range(8)), "little")
        other = unmix(mix(block) ^ 1 << 63)
        if is_ascii(other):
            found = [number.to_bytes(8, "little").decode() for number in (block, other)]
            best = min(best or found, found, key=lambda pair: len(json.dumps(pair)))
    # The top bit passes through a multiplication by an odd number, so that a second block takes it away again.
    halves = best[0] * 2, best[1] * 2
    n_bits = max(1, (n - 1).bit_length())
    for i in range(n):
        yield "".join(halves[i >> bit & 1] for bit in range(n_bits))


def colliding_keys(size):
    n = 2
    while 2 * n * (len(json.dumps(list(equal_hashes(2)))) * n.bit_length() + 12) < size:
        n *= 2
    return equal_hashes(n)


# tokenizer.json ---------------------------------------------------------------------------------------------------

def byte_level(vocab, merges, **others):
    """tokenizer.json as text, from the texts of its vocab and merges."""
    rest = "".join(f'"{key}":{value},' for key, value in others.items() if key != "pre_tokenizer")
    pre_tokenizer = others.get("pre_tokenizer", '{"type":"ByteLevel","add_prefix_space":false}')
    return f'{{{rest}"pre_tokenizer":{pre_tokenizer},"model":{{"type":"BPE","vocab":{vocab},"merges":{merges}}}}}'


SMALL_VOCAB = '{"a":0,"b":1,"ab":2}'


def large_vocab(size):
    n = min(size // 18, 1 << 20)
    return byte_level(joined((f'"{i:03x}":{i}' for i in shuffled_numbers(n)), size - 200, "{", "}"), "[]")


def words(n):
    """Three-letter words in an order of no help to a cache."""
    letters = [chr(c) for c in range(ord("!"), ord("~") + 1) if chr(c) not in '"\\ ']
    letters += [chr(c) for c in range(0xA1, 0xAD)]
    count = len(letters)
    yield from letters
    yield from (a + b for a in letters for b in letters)
    order = list(range(count ** 3))
    random.Random(8).shuffle(order)
    for i in order[:n]:
        yield letters[i // count // count] + letters[i // count % count] + letters[i % count]


def many_merges(size):
    """Every way to make each of many tokens, shuffled."""
    # The config's end token, 2, must be no single byte, which would leave it out with a warning.
    texts = ["<unk>", "<bos>", "<eos>", *words(size // 28)]
    vocab = ",".join(f'"{text}":{i}' for i, text in enumerate(texts))
    merges = [f'"{text[:cut]} {text[cut:]}"' for text in texts[3:] for cut in range(1, len(text))]
    random.Random(9).shuffle(merges)
    return byte_level("{" + vocab + "}", joined(merges, size - len(vocab.encode()) - 200, "[", "]"))


def one_merge_again(size):
    return byte_level(SMALL_VOCAB, joined(iter(lambda: '"a b"', None), size - 300, "[", "]"))


def equal_hash_vocab(size):
    items = (f"{json.dumps(text)}:{i}" for i, text in enumerate(colliding_keys(size)))
    return byte_level(joined(items, size - 300, "{", "}"), "[]")


def added_tokens(size):
    items = (f'{{"id":{i + 3},"content":"<|{i}|>","special":true}}' for i in range(1 << 20))
    return byte_level(SMALL_VOCAB, "[]", added_tokens=joined(items, size - 300, "[", "]"))


def one_added_token_again(size):
    items = (f'{{"id":{i + 3},"content":"<|x|>"}}' for i in range(1 << 20))
    return byte_level(SMALL_VOCAB, "[]", added_tokens=joined(items, size - 300, "[", "]"))


def stages(kind, list_key, stage):
    def make(size):
        items = joined(iter(lambda: stage, None), size - 400, f'{{"type":"Sequence","{list_key}":[', "]}")
        return byte_level(SMALL_VOCAB, "[]", **{kind: items})
    return make


def nested_sequences(size):
    inner = joined(iter(lambda: '{"type":"Sequence","normalizers":[]}', None), size - 2000, "", "")
    text = f'{{"type":"Sequence","normalizers":[{inner}]}}'
    for _ in range(12):
        text = f'{{"type":"Sequence","normalizers":[{text}]}}'
    return byte_level(SMALL_VOCAB, "[]", normalizer=text)


def template_items(size):
    items = joined(iter(lambda: '{"Sequence":{"id":"A"}}', None), size - 400, "[", "]")
    return byte_level(SMALL_VOCAB, "[]", post_processor=f'{{"type":"TemplateProcessing","single":{items}}}')


def long_regex(size):
    stage = f'{{"type":"Split","behavior":"Isolated","pattern":{{"Regex":"{repeated("(a*)*", size - 500)}"}}}}'
    return byte_level(SMALL_VOCAB, "[]", pre_tokenizer=stage)


# SentencePiece ----------------------------------------------------------------------------------------------------

def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def piece(text, score=None, kind=None):
    body = field(1, text.encode() if isinstance(text, str) else text)
    body += b"" if score is None else b"\x15" + struct.pack("<f", score)
    return field(1, body + (b"" if kind is None else b"\x18" + bytes([kind])))


# BPE that keeps spaces.
SPM_SETTINGS = field(2, b"\x18\x02") + field(3, b"\x20\x00")


def pieces(items, size):
    parts, used = [SPM_SETTINGS], len(SPM_SETTINGS)
    for item in items:
        used += len(item)
        if used > size:
            break
        parts.append(item)
    return b"".join(parts)


def chained_pieces(longest):
    """Texts that are the beginnings and ends of each other: every cut of every piece is a merge."""
    def items():
        for last in range(1 << 16):
            for n in range(1, longest):
                yield piece("a" * n + ("" if last == 0 else chr(0x4E00 + last)), -float(n))
    return lambda size: pieces(items(), size)


def short_pieces(size):
    rng = random.Random(4)
    return pieces((piece(text, rng.random()) for text in words(size // 12)), size)


# Chat templates ---------------------------------------------------------------------------------------------------

TEMPLATE_PIECES = {
    "tags": "{{", "comments": "{#", "closed comments": "{# #}", "quotes": "{{'", "backslashes": "{{'\\\\", "blanks": " ",
    "brackets": "{{ (", "calls": "{{ x(1) }}", "loops": "{% for a in messages %}", "conditions": "{% if true %}x{% endif %}",
    "strings": "{{ 'a' + 'b' }}", "sums": "{{ 1 + 1 + 1 }}", "names": "abc",
}


def template(item):
    return lambda size: "{{ 1 }}" + repeated(item, size - 100) + "{{ 2 }}"


# What is asked: (name, file, maker, words of the line) ------------------------------------------------------------

# The parser took all of it; what is missing is a tensor, which is looked for later.
READ = "model.embed_tokens.weight"
# Limits that only a file of nearly 16 MB exceeds.
LIMIT_WORDS = "JSON values", "more than 2097152 pieces", "more than 8388608 merges"

CASES = [
    ("many tensors", "model.safetensors", tensors(lambda i: f"{i:07d}"), "JSON values"),
    ("tensors of one beginning", "model.safetensors", tensors(lambda i: "x" * 200 + f"{i:07d}"), READ),
    ("many keys of metadata", "model.safetensors",
     header(lambda size: joined((f'"{i}":""' for i in range(1 << 24)), size, '{"__metadata__":{', "}}")), "JSON values"),
    ("empty lists", "model.safetensors", header(lambda size: joined(iter(lambda: "[]", None), size, '{"a":[', "]}")),
     "JSON values"),
    ("empty objects", "model.safetensors", header(lambda size: joined(iter(lambda: "{}", None), size, '{"a":[', "]}")),
     "JSON values"),
    ("small numbers", "model.safetensors", header(lambda size: joined(iter(lambda: "1", None), size, "[", "]")), "JSON values"),
    ("deep lists", "model.safetensors", header(lambda size: repeated("[", size)), "nested too deeply"),
    ("deep objects", "model.safetensors", header(deep_objects), "nested too deeply"),
    ("a long number", "model.safetensors", header(lambda size: '{"a":' + "9" * (size - 7) + "}"), "out of range"),
    ("a long fraction", "model.safetensors", header(lambda size: '{"a":0.' + "1" * (size - 9) + "}"), "has no dtype"),
    ("a long exponent", "model.safetensors", header(lambda size: '{"a":1e' + "0" * (size - 9) + "}"), "has no dtype"),
    ("a long key", "model.safetensors", header(lambda size: '{"' + "k" * (size - 6) + '":1}'), "has no dtype"),
    ("a long text", "model.safetensors", header(lambda size: '{"a":"' + "k" * (size - 9) + '"}'), "has no dtype"),
    ("an endless text", "model.safetensors", header(lambda size: '{"' + repeated("\\u0001", size - 3)), "not valid JSON"),
    ("bad text", "model.safetensors", header(lambda size: b'{"' + b"\xff" * (size - 2)), "not valid JSON"),
    ("blanks", "model.safetensors", header(lambda size: " " * size), "not valid JSON"),
    ("an index of many tensors", "model.safetensors.index.json",
     lambda size: joined((f'"t{i}":"a.safetensors"' for i in shuffled_numbers(size // 30)), size,
                         '{"weight_map":{', "}}"), "JSON values"),
    ("an index of many shards", "model.safetensors.index.json",
     lambda size: joined((f'"t{i}":"{i}.safetensors"' for i in shuffled_numbers(size // 34)), size,
                         '{"weight_map":{', "}}"), "shards"),
    ("a large vocabulary", "tokenizer.json", large_vocab, READ),
    ("many merges", "tokenizer.json", many_merges, READ),
    ("one merge again and again", "tokenizer.json", one_merge_again, READ),
    ("texts of one hash", "tokenizer.json", equal_hash_vocab, READ),
    ("many added tokens", "tokenizer.json", added_tokens, READ),
    ("one added token again and again", "tokenizer.json", one_added_token_again, READ),
    ("many normalizers", "tokenizer.json", stages("normalizer", "normalizers", '{"type":"NFC"}'), "stages"),
    ("many pre-tokenizers", "tokenizer.json", stages("pre_tokenizer", "pretokenizers", '{"type":"ByteLevel"}'), "stages"),
    ("many post-processors", "tokenizer.json", stages("post_processor", "processors", '{"type":"ByteLevel"}'), "stages"),
    ("many decoders", "tokenizer.json", stages("decoder", "decoders", '{"type":"ByteLevel"}'), "stages"),
    ("nested sequences", "tokenizer.json", nested_sequences, READ),
    ("many template items", "tokenizer.json", template_items, "text twice"),
    ("a long regex", "tokenizer.json", long_regex, "is not supported"),
    ("a list for a tokenizer", "tokenizer.json", lambda size: joined(iter(lambda: "{}", None), size, "[", "]"),
     "found array"),
    ("many tokens in the config", "tokenizer_config.json",
     lambda size: joined((f'"{i}":{{"content":"<|{i}|>"}}' for i in range(1 << 20)), size,
                         '{"added_tokens_decoder":{', "}}"), READ),
    ("many templates", "tokenizer_config.json",
     lambda size: joined(iter(lambda: '{"name":"x","template":"y"}', None), size, '{"chat_template":[', "]}"), READ),
    ("a long template in the config", "tokenizer_config.json",
     lambda size: '{"chat_template":"' + "x" * (size - 20) + '"}', "chat_template"),
    ("many added tokens in a file", "added_tokens.json",
     lambda size: joined((f'"<|{i}|>":{i}' for i in shuffled_numbers(size // 24)), size, "{", "}"), READ),
    ("added tokens of one hash", "added_tokens.json",
     lambda size: joined((f"{json.dumps(text)}:{i}" for i, text in enumerate(colliding_keys(size))), size, "{", "}"), READ),
    ("empty pieces", "tokenizer.model", lambda size: pieces(iter(lambda: b"\x0a\x00", None), size),
     "more than 2097152 pieces"),
    ("short pieces", "tokenizer.model", short_pieces, READ),
    ("pieces that are parts of each other", "tokenizer.model", chained_pieces(400), "more than 8388608 merges"),
    ("long pieces that are parts of each other", "tokenizer.model", chained_pieces(509), "more than 8388608 merges"),
    ("pieces that are too long and parts of each other", "tokenizer.model", chained_pieces(4000), "too long"),
    ("one long piece", "tokenizer.model", lambda size: pieces([piece(b"a" * (size - 100))], size), "too long"),
    ("pieces of one hash", "tokenizer.model",
     lambda size: pieces((piece(text, 0.0) for text in colliding_keys(size)), size), READ),
    ("unknown fields", "tokenizer.model", lambda size: pieces(iter(lambda: b"\x50\x01", None), size), "no pieces"),
    ("many settings", "tokenizer.model", lambda size: pieces(iter(lambda: SPM_SETTINGS, None), size), "no pieces"),
    ("long names of a normalizer", "tokenizer.model",
     lambda size: pieces(iter(lambda: field(3, field(1, b"n" * 1000)), None), size), "no pieces"),
    ("groups in groups", "tokenizer.model", lambda size: b"\x0b" * size, "damaged"),
    ("a text of ranks without end", "tokenizer.model", lambda size: b"QUJD" * (size // 4), "damaged"),
]

# Files with a limit below 16 MB: at the limit.
SMALL_CASES = [
    ("many settings of a config", "config.json", 1 << 20, None, READ),
    ("many end tokens", "generation_config.json", 1 << 20,
     lambda size: joined((str(i) for i in range(1 << 20)), size, '{"eos_token_id":[', "]}"), "eos_token_id"),
    ("many special tokens", "special_tokens_map.json", 1 << 20,
     lambda size: joined((f'"{i}":{{"content":"x"}}' for i in range(1 << 20)), size, "{", "}"), READ),
    *((f"template of {name}", "chat_template.jinja", 1 << 16, template(item), READ) for name, item in TEMPLATE_PIECES.items()),
]


def fill(config, size):
    """config with unknown settings up to size bytes."""
    text = json.dumps(config)[:-1]
    return text + "," + joined((f'"x{i}":{i}' for i in range(1 << 20)), size - len(text) - 1, "", "}")
