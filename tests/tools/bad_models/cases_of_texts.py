"""Breaks parts 6 and 7 of docs/model_format.md, tokenizer and chat template, and the rules for the metadata."""
from bad_models.case import INVALID, case
from bad_models.model_writer import Model
from bad_models.text_writer import (A, AB, ABB, ADDED, AFTER_OTHERS, AFTER_SPACE, ANSWER, B, BEGIN, BLANK, BYTE_TOKENS, CALL_FORM,
                                    CALL_START, CALLS_END, DATE, DATE_FORMAT, END, NAME_KEYS, NOT_IN_USER, NOTE, PIECE_TOKENS, SPACE,
                                    SPECIAL, START, TOOL, USER, WORD_RUNS, WORD_STAGES, WORD_STATES, Rule, Tokenizer, call_form,
                                    chat_template, sentence_piece, text_model, turns, word_tables)
from cria_reader.config_fields import NONE

MOST_METADATA = 1 << 20
DEEPEST = 16


def cases():
    yield from headers()
    yield from tables()
    yield from merges()
    yield from lists()
    yield from chat()
    yield from words()
    yield from control_tokens()
    yield from metadata()


def bad(name, rule, tokenizer, kept=True, **config):
    return case(f"tokenizer_{name}", INVALID, rule, text_model(tokenizer, **config).file(), kept)


def headers():
    for name, fields, rule, kept in (
            ("kind_0", {"kind": 0}, "kind is 1 or 2", False), ("kind_3", {"kind": 3}, "kind is 1 or 2", True),
            ("cut_7", {"pre_tokenizer": 7}, "pre_tokenizer is 0, 1, 5 or 6", True),
            ("cut_of_other_kind", {"pre_tokenizer": 5}, "5 and 6 go with SentencePiece", True),
            ("flag_11", {"flags": 1 << 11}, "unknown flags are zero", True),
            ("n_tokens_17", {"n_tokens": 17}, "n_tokens is at most vocab_size", True),
            ("n_tokens_most", {"n_tokens": 0xFFFFFFFF}, "n_tokens is at most vocab_size", False),
            ("n_sorted_9", {"n_sorted": 9}, "n_sorted is at most n_tokens", True),
            ("n_sorted_most", {"n_sorted": 0xFFFFFFFF}, "n_sorted is at most n_tokens", False),
            ("n_merges_limit", {"n_merges": (1 << 23) + 1}, "n_merges is at most 2^23", True),
            ("n_merges_most", {"n_merges": 0xFFFFFFFF}, "n_merges is at most 2^23", False),
            ("n_added_9", {"n_added": 9}, "n_added is at most n_tokens", True),
            ("text_bytes_limit", {"text_bytes": (1 << 26) + 1}, "text_bytes is at most 2^26", True),
            ("text_bytes_most", {"text_bytes": 0xFFFFFFFF}, "text_bytes is at most 2^26", False),
            ("bos_outside", {"bos_token": 8}, "bos_token is a token or NONE", True),
            ("eos_outside", {"eos_token": NONE - 1}, "eos_token is a token or NONE", True),
            ("unknown_outside", {"unknown_token": 8}, "unknown_token is a token or NONE", True),
            ("longest_4097", {"longest_token": 4097}, "longest_token is at most 4096", True),
            ("longest_shorter", {"longest_token": 5}, "longest_token is the longest text's bytes", True),
            ("longest_longer", {"longest_token": 7}, "longest_token is the longest text's bytes", False),
            ("fewer_tokens", {"n_tokens": 7}, "the section ends with its last array", False),
            ("more_text", {"text_bytes": 200}, "the section ends with its last array", True)):
        yield bad(name, rule, Tokenizer().set(**fields), kept)
    yield bad("no_tokens", "there is at least one token", Tokenizer(
        tokens=(), lookup=(), merges=(), byte_tokens=(), added=(), bos=NONE, eos=NONE), end_tokens=[])
    yield bad("starts_with_nothing", "flag bit 0 needs a BOS", Tokenizer(flags=1, bos=NONE))
    yield bad("ends_with_nothing", "flag bit 1 needs an EOS", Tokenizer(flags=2, eos=NONE))
    raw = Tokenizer().bytes()
    yield bad("reserved", "reserved bytes of the tokenizer are zero", raw[:52] + b"\1" + raw[53:])
    yield bad("short", "a tokenizer has a header", raw[:63])
    yield bad("cut_off", "the section ends with its last array", raw[:-1])
    yield bad("longer", "the section ends with its last array", raw + bytes(4))
    other = sentence_piece(pre_tokenizer=1)
    yield bad("piece_cut_of_other_kind", "1 goes with byte-level BPE", other, bos_token=1, end_tokens=[2])
    # Nine tokens make the flags' array end off the alignment.
    odd = Tokenizer(tokens=(*BYTE_TOKENS, (b"c", 0)))
    raw, at = bytearray(odd.bytes()), odd.place_of("sorted_tokens") - 1
    raw[at] = 1
    yield bad("gap", "bytes that align an array are zero", bytes(raw))
    long_text = b"x" * 4097
    yield bad("token_too_long", "a token has at most 4096 bytes", Tokenizer(tokens=(*BYTE_TOKENS, (long_text, 0))),
              kept=False)


def words():
    """The tables of pre_tokenizer."""
    yield bad("normalizes_pieces", "flag bit 10 goes with byte-level BPE", sentence_piece(flags=1 << 10), bos_token=1, end_tokens=[2])
    yield bad("words_unused", "only pre_tokenizer 1 has tables", Tokenizer(pre_tokenizer=0, tables=word_tables()))
    yield bad("words_missing", "pre_tokenizer 1 has tables", Tokenizer(tables=b""))
    run, stage, states = WORD_RUNS[0], WORD_STAGES[0], WORD_STATES
    for name, rule, changes in (
            ("no_class", "there is a class of characters", {"n_classes": 0}),
            ("class_of_ascii", "ascii_classes are below n_classes", {"of_blank": 2}),
            ("class_of_run", "a run's class is below n_classes", {"runs": (run | 2,)}),
            ("first_run", "the first run starts at U+0080", {"runs": (run + 256,)}),
            ("runs_repeat", "runs ascend", {"runs": (run, run)}),
            ("run_outside", "runs start in Unicode", {"runs": (run, 0x110000 << 8)}),
            ("no_stage", "there are 1 to 8 stages", {"stages": ()}),
            ("stages_9", "there are 1 to 8 stages", {"stages": (stage,) * 9}),
            ("behavior_4", "behavior is at most 3", {"stages": ((5, 4, 0),)}),
            ("inverted_2", "inverted is 0 or 1", {"stages": ((5, 0, 2),)}),
            ("states_1", "a stage has 2 to 2^10 states", {"stages": ((1, 0, 0),)}),
            ("states_fewer", "stages have all transitions", {"stages": ((4, 0, 0),)}),
            ("states_more", "stages have all transitions", {"stages": ((6, 0, 0),)}),
            ("next_state", "a transition leads to a state", {"states": (*states[:4], (1, 10, 1))}),
            ("dead_lives", "the dead state has no transitions", {"states": ((0, 1, 0), *states[1:])}),
            ("goes_on", "no state follows the end of the text", {"states": (*states[:4], (1, 9, 4))}),
            ("empty_word", "no word is empty", {"states": (states[0], (4, 7, 0), *states[2:])})):
        yield bad(f"words_{name}", rule, Tokenizer(tables=word_tables(**changes)))


def tables():
    rule = "token_ends ascend to text_bytes"
    yield bad("ends_descend", rule, Tokenizer().put("token_ends", B, 0))
    yield bad("end_outside", rule, Tokenizer().put("token_ends", B, 0xFFFFFFFF))
    yield bad("last_end_early", rule, Tokenizer().put("token_ends", NOTE, 14))
    yield bad("last_end_late", rule, Tokenizer().put("token_ends", NOTE, 30), kept=False)
    yield bad("token_flag_7", "unknown flags of a token are zero", Tokenizer().put("token_flags", A, 0x80, "<B"))
    yield bad("added_without_flag", "added_tokens have bit 2 of the flags", Tokenizer().put("token_flags", NOTE, 0, "<B"))
    rule = "sorted_tokens ascend by their bytes"
    yield bad("sorted_wrong", rule, Tokenizer(lookup=(BLANK, AB, A, ABB, B)))
    yield bad("sorted_twice", rule, Tokenizer(lookup=(BLANK, A, A, AB, B)))
    yield bad("sorted_empty", "a sorted token has a text",
              Tokenizer(tokens=(*BYTE_TOKENS, (b"", 0)), lookup=(8, BLANK, A, AB, ABB, B)))
    yield bad("sorted_outside", "sorted_tokens are tokens", Tokenizer(lookup=(BLANK, A, AB, ABB, 8)))
    yield bad("sorted_most", "sorted_tokens are tokens", Tokenizer(lookup=(BLANK, A, AB, ABB, NONE)), kept=False)
    yield bad("sorted_special", "special tokens are in no table but added_tokens", Tokenizer(lookup=(BLANK, END, A, AB, B)))
    yield bad("byte_outside", "byte_tokens are tokens or NONE", Tokenizer(byte_tokens=((97, 8),)))
    yield bad("byte_most", "byte_tokens are tokens or NONE", Tokenizer(byte_tokens=((97, NONE - 1),)), kept=False)
    yield bad("byte_of_other", "a byte's token is that byte", Tokenizer(byte_tokens=((97, B),)))
    yield bad("byte_longer", "a byte's token is that byte", Tokenizer(byte_tokens=((97, AB),)))
    yield bad("byte_special", "special tokens are in no table but added_tokens",
              Tokenizer(byte_tokens=((97, END),)), kept=False)


def merges():
    good = ((A, B, 0, AB), (AB, B, 1, ABB))
    yield bad("merge_ends_descend", "merge_ends ascend to n_merges", Tokenizer().put("merge_ends", B, 0))
    yield bad("merge_end_outside", "merge_ends ascend to n_merges", Tokenizer().put("merge_ends", A, 0xFFFFFFFF))
    yield bad("merge_last_end", "merge_ends ascend to n_merges", Tokenizer().put("merge_ends", NOTE, 1))
    yield bad("merge_right_outside", "parts of a merge are tokens", Tokenizer().put("merges", 0, 8))
    yield bad("merge_result_outside", "parts of a merge are tokens", Tokenizer().put("merges", 2, 8))
    yield bad("merge_result_other", "a merge's result is its two texts", Tokenizer(merges=((A, B, 0, ABB), good[1])))
    yield bad("merge_result_shorter", "a merge's result is its two texts", Tokenizer(merges=((A, B, 0, A), good[1])), kept=False)
    rule = "merges of a token ascend by their right part"
    yield bad("merges_twice", rule, Tokenizer(merges=(good[0], good[0], good[1])))
    more = (*BYTE_TOKENS, (b"aa", 0))
    yield bad("merges_unsorted", rule, Tokenizer(tokens=more, merges=((A, B, 0, AB), (A, A, 2, 8), (AB, B, 1, ABB))))
    special = (*BYTE_TOKENS[:AB], (b"ab", SPECIAL | ADDED), *BYTE_TOKENS[AB + 1:])
    yield bad("merge_makes_special", "special tokens are in no table but added_tokens",
              Tokenizer(tokens=special, lookup=(BLANK, A, B), merges=((A, B, 0, AB),), added=(NOTE, END, BEGIN, AB)))


def lists():
    rule = "added_tokens are in order"
    yield bad("added_unsorted", rule, Tokenizer(added=(END, NOTE, BEGIN)))
    yield bad("added_twice", rule, Tokenizer(added=(NOTE, END, END)))
    yield bad("added_outside", "added_tokens are tokens", Tokenizer(added=(NOTE, END, 8)))
    yield bad("added_most", "added_tokens are tokens", Tokenizer(added=(NOTE, END, NONE)), kept=False)
    tokens = (*BYTE_TOKENS, (b"", ADDED))
    yield bad("added_empty", "an added token has a text", Tokenizer(tokens=tokens, added=(NOTE, END, BEGIN, 8)))
    tokens = (*BYTE_TOKENS, (b"<e>", ADDED))
    yield bad("added_same_text", rule, Tokenizer(tokens=tokens, added=(NOTE, END, 8, BEGIN)))


    tokens, added = long_added((1024, 1023, 2))
    yield bad("added_lengths", "different lengths of added tokens of one first byte sum to at most 2048 bytes",
              Tokenizer(tokens=tokens, added=added), kept=False)


def long_added(lengths):
    """The usual tokens and special ones of one letter, so long; and the list of all added ones."""
    tokens = (*BYTE_TOKENS, *((b"z" * length, SPECIAL | ADDED) for length in lengths))
    return tokens, (NOTE, END, BEGIN, *range(len(BYTE_TOKENS), len(tokens)))


def bad_chat(name, rule, section, kept=True):
    return case(f"chat_{name}", INVALID, rule, text_model(chat=section).file(), kept)


def chat():
    raw = chat_template()
    yield bad_chat("kind_0", "kind is 1 to 13", chat_template(kind=0))
    yield bad_chat("kind_14", "kind is 1 to 13", chat_template(kind=14), kept=False)
    yield bad_chat("flag_25", "unknown flags are zero", chat_template(flags=1 << 25))
    yield bad_chat("flag_27", "unknown flags are zero", chat_template(flags=1 << 27))
    yield bad_chat("not_blank_10", "units are 0 to 9", chat_template(not_blank=1 << 10))
    yield bad_chat("result_trims_3", "contents lose nothing, white space or newlines", chat_template(result_trims=3 << 4))
    yield bad_chat("short", "a template has a header", raw[:103])
    for name, style in (("form_7", (7, 0, 0, 0)), ("tags_indented", (5, 2, 0, 0)), ("tags_flag_0", (5, 0, 0, 1)), ("members_flag_2", (6, 0, 0, 4)), ("indent_9", (0, 9, 0, 0)), ("depth_9", (0, 0, 9, 0)), ("flag_2", (0, 0, 0, 4))):
        yield bad_chat(f"style_{name}", "a value is written in a known way", chat_template(styles=bytes(24) + bytes(style)),
                       kept=name == "form_7")
    yield bad_chat("style_tags_of_result", "tags are for tools", chat_template(styles=bytes(20) + bytes((5, 0, 0, 0, 0, 0, 0, 0))))
    yield bad_chat("tags_of_whole", "tags are for functions",
                   chat_template(strings={TOOL: b"\0w"}, styles=bytes(24) + bytes((5, 0, 0, 0))))
    yield bad_chat("date_missing", "slot d is there only with a date", chat_template(rules=(one_rule(b"on \0d."),)))
    yield bad_chat("tools_missing", "slot t is there only with string 5", chat_template(rules=(one_rule(b"\0t"),)))
    yield bad_chat("slot_open", "a slot is a zero byte and a letter", chat_template(rules=(one_rule(b"a\0"),)))
    yield bad_chat("slots_9", "at most eight slots", chat_template(strings={TOOL: b"\0w" * 9}))
    yield bad_chat("slot_of_tool", "slots of a tool are known", chat_template(strings={TOOL: b"\0a"}))
    for name, rule, strings in (
            ("date_alone", "a date has a format", {DATE: b"26 Jul 2024"}),
            ("format_alone", "a format has a date", {DATE_FORMAT: b"%d %b %Y"}),
            ("date_65", "a date has at most 64 bytes", {DATE: b"x" * 65, DATE_FORMAT: b"%d"}),
            ("date_zero", "a date has no zero byte", {DATE: b"x\0", DATE_FORMAT: b"%d"}),
            ("list_open", "texts of a list end with a zero byte", {NOT_IN_USER: b"/think"})):
        yield bad_chat(name, rule, chat_template(strings=strings))
    yield bad_chat("cut_off", "the strings end the section", raw[:-1])
    yield bad_chat("longer", "the strings end the section", raw + b"x")
    yield bad_chat("string_4097", "a string has at most 4096 bytes", chat_template(strings={TOOL: b"x" * 4097}), kept=False)
    yield bad_chat("joints_65537", "the joints have at most 65536 bytes",
                   chat_template(rules=(one_rule(b"x" * 65535), one_rule(b"xx"))), kept=False)
    yield bad_chat("string_most", "a string has at most 4096 bytes", chat_template(sizes={13: 0xFFFFFFFF}))
    yield bad_chat("strings_wrap", "a string has at most 4096 bytes", chat_template(sizes={12: 0x80000000, 13: 0x80000000}))
    yield from rules_of_chat()
    yield from calls()


def one_rule(joint=b"", **fields):
    return Rule(1 << START, 1 << USER, joint, **fields)


def rules_of_chat():
    yield bad_chat("rules_513", "n_rules is at most 512", chat_template(rules=(one_rule(),) * 513), kept=False)
    yield bad_chat("rules_most", "n_rules is at most 512", chat_template(n_rules=0xFFFFFFFF))
    yield bad_chat("rules_missing", "the section has all rules", chat_template(rules=(), n_rules=1))
    for name, rule, fields in (
            ("left_10", "units are 0 to 9", {"left": 1 << 10}),
            ("right_15", "units are 0 to 9", {"right": 1 << 15}),
            ("place_20", "places are 0 to 19", {"places": 1 << 20}),
            ("value_of_none", "values are of the places that matter", {"values": 1}),
            ("joint_outside", "a joint lies in string 0", {"at": 1}),
            ("joint_longer", "a joint lies in string 0", {"n_bytes": 1}),
            ("joint_wraps", "a joint lies in string 0", {"at": 0xFFFFFFFF, "n_bytes": 1}),
            ("trim_3", "contents lose nothing, white space or newlines", {"trims": 3}),
            ("trim_48", "contents lose nothing, white space or newlines", {"trims": 0x30}),
            ("leaves_out_2", "leaves_out is 0 or 1", {"leaves_out": 2}),
            ("leaves_out_user", "only thinking, calls and texts beside calls are left out", {"leaves_out": 1}),
            ("leaves_out_text", "only thinking, calls and texts beside calls are left out",
             {"right": 1 << ANSWER, "leaves_out": 1})):
        yield bad_chat(f"rule_{name}", rule, chat_template(rules=(Rule(**{"left": 1 << START, "right": 1 << USER, **fields}),)))


def calls():
    for name, rule, form in (
            ("short", "a form has a header", call_form()[:79]),
            ("kind_5", "kind is 0 to 4", call_form(kind=5)),
            ("flag_3", "unknown flags are zero", call_form(flags=1 << 3)),
            ("ids_65", "ids have at most 64 characters", call_form(flags=65 << 8)),
            ("cut_off", "the strings end the form", call_form()[:-1]),
            ("longer", "the strings end the form", call_form() + b"x"),
            ("string_most", "a string lies in the form", call_form(sizes={CALLS_END: 0xFFFFFFFF})),
            ("list_open", "texts of a list end with a zero byte", call_form(strings={CALL_START: b"<tool_call>"})),
            ("list_of_9", "a list has at most 8 texts", call_form(strings={CALL_START: b"<\0" * 9})),
            ("text_97", "a text has at most 96 bytes", call_form(strings={CALLS_END: b"x" * 97})),
            ("text_zero", "a text has no zero byte", call_form(strings={CALLS_END: b"<\0"})),
            ("text_blank", "a text is not blank", call_form(strings={CALLS_END: b" \n"})),
            ("none_starts", "kind 0 has no marker", call_form(kind=0)),
            ("bare_named", "only JSON and Python stand without a marker", call_form(kind=3, flags=1)),
            ("unmarked", "calls have a marker", call_form(strings={CALL_START: b""})),
            ("keyless", "objects have keys", call_form(strings={NAME_KEYS: b""})),
            ("tagless", "values stand between tags", call_form(kind=4))):
        yield bad_chat(f"calls_{name}", rule, chat_template(strings={CALL_FORM: form}))


def control_tokens():
    tokens = list(BYTE_TOKENS)
    tokens[END] = (b"<e>", ADDED)
    rule = "an end token of the config is special"
    yield case("end_token_not_special", INVALID, rule, text_model(Tokenizer(tokens=tokens)).file())
    yield case("template_token_not_special", INVALID, "an added token in the template's joints is special",
               text_model(chat=chat_template(rules=turns(user=b"<note>"))).file())
    yield case("answer_ends_nothing", INVALID, "the first control token behind an answer is an end token",
               text_model(chat=chat_template(rules=turns(behind_answer=b"<s><e>"))).file())


    yield case("end_token_unknown", INVALID, "the unknown token is no end token", text_model(Tokenizer(unknown=END)).file())
    yield case("template_token_unknown", INVALID, "the unknown token is no token of the template",
               text_model(Tokenizer(unknown=BEGIN), chat=chat_template()).file())
    rule = "a token of the template is special, found with a space in front too"
    for name, text, flags, string in (("behind_space", SPACE + b"<x>", ADDED | AFTER_OTHERS, b"<x>"),
                                      ("late", b"<x>", ADDED | AFTER_OTHERS, b"b<x>"),
                                      ("swallows_space", b"<x>", ADDED | AFTER_OTHERS | AFTER_SPACE, b"b <x>"),
                                      ("lacks_space", b"<x>", ADDED | AFTER_OTHERS | AFTER_SPACE, b"b<x>")):
        yield case(f"template_token_{name}", INVALID, rule, piece_model(text, flags, string).file(), kept=name == "behind_space")


def piece_model(text, flags, string):
    """A SentencePiece model with one more added token, and a template that has this string in front of what users say."""
    order = sorted((1, 2, 7), key=lambda i: (lambda t: (t[0], -len(t), t))([*PIECE_TOKENS, (text, 0)][i][0]))
    tokenizer = sentence_piece(tokens=(*PIECE_TOKENS, (text, flags)), added=tuple(order))
    rules = turns(user=string, behind_answer=b"</s>")
    return text_model(tokenizer, chat=chat_template(kind=3, rules=rules), bos_token=1, end_tokens=[2])


def metadata():
    def one(name, rule, raw, kept=True):
        return case(f"metadata_{name}", INVALID, rule, Model(metadata=raw).file(), kept)
    rule = "metadata is JSON"
    for name, raw in (("no_json", b"hello"), ("open", b'{"a": 1'), ("closed_twice", b"{}}"), ("two_values", b"1 2"),
                      ("nan", b'{"a": NaN}'), ("single_quotes", b"{'a': 1}"), ("comma", b"[1,]"), ("leading_zero", b"01"),
                      ("control", b'"\n"'), ("escape", b'"\\x"'), ("blank", b" "), ("nothing_behind", b"{}\0"),
                      ("mixed_brackets", b"[}"), ("short_escape", b'"\\u12"'), ("comment", b"{} // x"), ("plus", b"+1"),
                      ("point", b"1."), ("no_colon", b'{"a" 1}'), ("key", b"{1: 1}"), ("infinity", b"-Infinity")):
        yield one(name, rule, raw, kept=name in ("no_json", "open", "closed_twice", "comma", "nothing_behind", "escape"))
    for name, raw in (("not_utf8", b'"\xff"'), ("overlong", b'"\xc0\x80"'), ("surrogate", b'"\xed\xa0\x80"'),
                      ("past_unicode", b'"\xf4\x90\x80\x80"'), ("cut_character", b'"\xe2\x96"'), ("byte_order_mark", b"\xef\xbb\xbf{}")):
        yield one(name, "metadata is UTF-8", raw, kept=name in ("not_utf8", "surrogate", "overlong"))
    yield one("deep", "metadata nests at most 16 deep", b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1))
    yield one("deep_objects", "metadata nests at most 16 deep", b'{"a":' * DEEPEST + b"[]" + b"}" * DEEPEST, kept=False)
    yield one("very_deep", "metadata nests at most 16 deep", b"[" * 100_000 + b"]" * 100_000, kept=False)
    yield one("very_deep_open", "metadata nests at most 16 deep", b"[" * 100_000, kept=False)
    yield one("large", "metadata has at most 2^20 bytes", b'"' + b"x" * (MOST_METADATA - 1) + b'"', kept=False)
