"""A whole model file: refused or read, as docs/model_format.md says."""
from cria_reader.build_options import may_be_left_out
from cria_reader.chat_section import read_chat
from cria_reader.chunk_table import STORED, check_gaps, raw_planes, read_chunk_table
from cria_reader.control_tokens import check_control_tokens
from cria_reader.file_layout import CHAT, CHUNKS, CONFIG, DATA, DIRECTORY, METADATA, TOKENIZER, read_sections
from cria_reader.json_text import is_json
from cria_reader.model_config import check_config_size, read_config
from cria_reader.refusal import OK, Refused, require
from cria_reader.tensor_list import read_directory
from cria_reader.tensor_values import check_values, rows_of
from cria_reader.tokenizer_section import Tokenizer

MOST_METADATA, DEEPEST_METADATA = 1 << 20, 16


class ModelFile:
    """Raises Refused where a rule is broken; what it holds then needs no more checks."""

    def __init__(self, data):
        self.data = bytes(data)
        self.sections = read_sections(self.data)
        check_config_size(self.sections[CONFIG].size)
        self.config = read_config(self.content(CONFIG, "config"))
        tensors = read_directory(self.content(DIRECTORY, "tensor directory"), self.config)
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self.chunks = read_chunk_table(self.content(CHUNKS, "chunk table"), self.config, tensors, self.sections[DATA])
        self.metadata = self.read_metadata()
        self.tokenizer = Tokenizer(self.content(TOKENIZER, "tokenizer"), self.config) if TOKENIZER in self.sections else None
        self.chat = read_chat(self.content(CHAT, "chat template")) if CHAT in self.sections else None
        if self.tokenizer:
            check_control_tokens(self.config, self.tokenizer, self.chat)
        check_gaps(self.chunks, self.data)
        for tensor in tensors:
            check_values(tensor, self.planes(tensor))

    def content(self, kind, name):
        return self.sections[kind].undamaged(name)

    def read_metadata(self):
        if METADATA not in self.sections:
            return None
        raw = self.content(METADATA, "metadata")
        require(len(raw) <= MOST_METADATA, "the size of the metadata")
        require(is_json(raw, DEEPEST_METADATA), "the metadata")
        return raw.decode("utf-8")

    def is_compressed(self):
        return any(chunk.compression != STORED for chunk in self.chunks)

    def planes(self, tensor):
        return raw_planes(tensor, self.chunks, self.data)

    def rows(self, tensor):
        """The values of a tensor, row by row, as little-endian f32."""
        return rows_of(tensor, self.planes(tensor))


def verdict(data):
    """OK, or the status that refuses a file; what is wrong with it; whether a build may have left out what is in it."""
    try:
        model = ModelFile(data)
    except Refused as refusal:
        return refusal.status, refusal.problem, False
    return OK, "", may_be_left_out(model.config)
