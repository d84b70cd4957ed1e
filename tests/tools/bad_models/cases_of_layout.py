"""Breaks part 1 of docs/model_format.md: header, section table, what lies between the sections; and checksums."""
from bad_models.case import CORRUPT, INVALID, NOT_A_MODEL, TRUNCATED, VERSION, case
from bad_models.model_writer import CHAT, CHUNKS, CONFIG, DATA, DIRECTORY, METADATA, TOKENIZER, USUAL_ORDER, Model
from bad_models.text_writer import chat_template, text_model

JSON = b'{"a": 1}'
SECTION_NAMES = {CONFIG: "config", TOKENIZER: "tokenizer", CHAT: "chat", DIRECTORY: "directory", CHUNKS: "chunk_table",
                 METADATA: "metadata", DATA: "data"}
FILE_BYTES, RESERVED, CHECKSUM = 16, 24, 56
MOST_SECTIONS = 16


def tiny():
    return Model().file()


def header(at, form, value):
    return tiny().put(at, form, value).mend_header()


def section(kind, at, form, value):
    file = tiny()
    return file.put(file.entry_at(kind) + at, form, value).mend_sections()


def cases():
    yield from headers()
    yield from sizes()
    yield from sections()
    yield from gaps()
    yield from checksums()


def headers():
    yield case("magic", NOT_A_MODEL, "the magic is another", header(0, "<B", ord("X")))
    yield case("magic_text_mode", NOT_A_MODEL, "the magic is another", header(4, "<H", 0x1a0a))
    yield case("version_1", VERSION, "another version is not known", header(8, "<I", 1))
    yield case("version_2", VERSION, "version 2 is to be converted again", header(8, "<I", 2))
    yield case("version_4", VERSION, "another version is not known", header(8, "<I", 4), kept=False)
    yield case("version_0", VERSION, "another version is not known", header(8, "<I", 0))
    yield case("no_sections", INVALID, "section_count is at least 1", header(12, "<I", 0))
    file = tiny()
    file.put(12, "<I", MOST_SECTIONS + 1)
    yield case("sections_17", INVALID, "section_count is at most 16", file.mend_header())
    yield case("sections_most", INVALID, "section_count is at most 16",
               tiny().put(12, "<I", 0xFFFFFFFF))
    yield case("header_reserved", INVALID, "reserved bytes of the header are zero", header(RESERVED + 31, "<B", 1))


def sizes():
    data = tiny().data
    yield case("empty", NOT_A_MODEL, "a file shorter than its header", b"")
    yield case("short_magic", NOT_A_MODEL, "a file shorter than its header", bytes(data[:8]))
    yield case("short_header", NOT_A_MODEL, "a file shorter than its header", bytes(data[:63]))
    yield case("no_table", TRUNCATED, "a file that ends behind its header", bytes(data[:64]))
    yield case("half_table", TRUNCATED, "a file that lacks its end", bytes(data[:64 + 40]))
    yield case("no_content", TRUNCATED, "a file that lacks its end", bytes(data[:192]))
    yield case("one_byte_short", TRUNCATED, "a file that lacks its end", bytes(data[:-1]))
    yield case("one_byte_long", INVALID, "file_bytes is the size of the file", bytes(data) + b"\0")
    yield case("header_says_less", INVALID, "file_bytes is the size of the file", header(FILE_BYTES, "<Q", len(data) - 1))
    yield case("header_says_zero", INVALID, "file_bytes is the size of the file", header(FILE_BYTES, "<Q", 0))
    yield case("header_says_more", TRUNCATED, "file_bytes is more than the file", header(FILE_BYTES, "<Q", len(data) + 1))
    yield case("file_bytes_limit", INVALID, "file_bytes is at most 2^40", header(FILE_BYTES, "<Q", (1 << 40) + 1))
    yield case("file_bytes_most", INVALID, "file_bytes is at most 2^40", header(FILE_BYTES, "<Q", (1 << 64) - 1))


def sections():
    yield case("kind_0", INVALID, "kinds are 1 to 7", section(CONFIG, 0, "<I", 0))
    yield case("kind_8", INVALID, "kinds are 1 to 7", section(CONFIG, 0, "<I", 8))
    yield case("kind_twice", INVALID, "each kind is there at most once", section(CHUNKS, 0, "<I", DIRECTORY))
    for kind in (CONFIG, DIRECTORY, CHUNKS, DATA):
        name = SECTION_NAMES[kind]
        order = tuple(k for k in USUAL_ORDER if k != kind)
        if kind != CHUNKS:  # the writer needs one to lay the chunks out
            yield case(f"without_{name}", INVALID, f"a model has a section {name}", without(kind))
    yield case("without_chunk_table", INVALID, "a model has a section chunk table", without(CHUNKS))
    yield case("section_reserved", INVALID, "reserved bytes of a section entry are zero", section(CHUNKS, 4, "<I", 1))
    file = tiny()
    begin, size = file.begin[DIRECTORY], file.size[DIRECTORY]
    for name, value in (("later", begin + 64), ("unaligned", begin + 8), ("overlaps", file.begin[CONFIG]),
                        ("in_header", 0), ("behind_file", 1 << 39), ("wraps", (1 << 64) - 64)):
        yield case(f"section_{name}", INVALID, "sections lie one behind the other, in the order of the table",
                   section(DIRECTORY, 8, "<Q", value))
    yield case("section_empty", INVALID, "a section has at least one byte", section(DIRECTORY, 16, "<Q", 0))
    yield case("section_longer", INVALID, "a section ends in the file",
               section(DIRECTORY, 16, "<Q", size + 64))
    yield case("section_most_bytes", INVALID, "a section ends in the file", section(DIRECTORY, 16, "<Q", (1 << 64) - 1))
    yield case("section_wraps_round", INVALID, "a section ends in the file",
               section(DIRECTORY, 16, "<Q", (1 << 64) - begin))
    last = file.size[DATA]
    yield case("last_section_long", INVALID, "the last section ends the file", section(DATA, 16, "<Q", last + 1))
    yield case("last_section_short", INVALID, "the last section ends the file", section(DATA, 16, "<Q", last - 1))
    yield case("data_checksum", INVALID, "the data section has no checksum of its own", section(DATA, 24, "<Q", 1))
    file = tiny()
    yield case("behind_last_section", INVALID, "the last section ends the file",
               file.resize(len(file.data) + 64).mend_header())


def without(kind):
    """The same file, the section's entry changed to one of metadata, which nobody misses."""
    file = tiny()
    file.data[file.begin[kind]:file.begin[kind] + 2] = b"{}"
    at = file.begin[kind] + 2
    file.data[at:file.begin[kind] + file.size[kind]] = b" " * (file.size[kind] - 2)
    return file.put(file.entry_at(kind), "<I", METADATA).mend_sections()


def gaps():
    file = text_model(chat=chat_template()).file()
    for kind in (CHAT, DIRECTORY, CHUNKS, DATA):
        begin = file.begin[kind]
        if begin > 0 and file.order.index(kind) > 0:
            before = file.order[file.order.index(kind) - 1]
            end = file.begin[before] + file.size[before]
            if end < begin:
                changed = text_model(chat=chat_template()).file().put(begin - 1, "<B", 1)
                yield case(f"gap_before_{SECTION_NAMES[kind]}", CORRUPT, "the bytes between two sections are zero", changed)
    order = (DATA, DIRECTORY, CONFIG, CHUNKS)
    file = Model(order=order).file()
    yield case("gap_behind_data", CORRUPT, "the bytes between two sections are zero",
               file.put(file.begin[DATA] + file.size[DATA], "<B", 0x80))


def checksums():
    yield case("header_checksum", CORRUPT, "the header's checksum holds", tiny().put(CHECKSUM, "<B", 1))
    file = text_model(chat=chat_template()).file()
    for kind in (CONFIG, TOKENIZER, CHAT, DIRECTORY, CHUNKS):
        file = text_model(chat=chat_template()).file()
        at = file.entry_at(kind) + 24
        file.data[at] ^= 1
        yield case(f"checksum_of_{SECTION_NAMES[kind]}", CORRUPT, f"the checksum of the section {SECTION_NAMES[kind]} holds",
                   file.mend_header(), kept=kind != CONFIG)
    file = Model(metadata=JSON).file()
    file.data[-1] ^= 1
    yield case("checksum_of_metadata", CORRUPT, "the checksum of the section metadata holds", file)
    file = tiny()
    file.data[-1] ^= 1
    yield case("checksum_of_last_chunk", CORRUPT, "a chunk's checksum holds", file)
    file = tiny()
    file.data[file.begin[DATA]] ^= 1
    yield case("checksum_of_first_chunk", CORRUPT, "a chunk's checksum holds", file)
