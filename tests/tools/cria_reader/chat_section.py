"""Part 7 of docs/model_format.md: the chat template."""
import struct

from cria_reader.call_form import check_call_form
from cria_reader.refusal import require

HEADER_BYTES, RULE_BYTES = 104, 20
KINDS = range(1, 14)
KNOWN_FLAGS = 0xFF | 1 << 24 | 0xFFF << 8 | 0x90F << 20
N_STRINGS, N_STYLES, N_UNITS, N_PLACES, N_TRIMS, N_FORMS = 15, 7, 10, 20, 3, 5
TAGS, MEMBERS, OF_TOOL = 5, 6, 6  # forms, and the style that may have them
MOST_RULES, MOST_JOINTS, MOST_STRING, MOST_DATE, MOST_SLOTS, MOST_INDENT = 512, 1 << 16, 4096, 64, 8, 8
JOINTS, PATTERNS, TOOL, DATE, DATE_FORMAT, LISTS, CALL_FORM = 0, range(1, 7), 5, 7, 8, slice(9, 14), 14
SLOTS = {1: b"niax", 2: b"kv", 3: b"", 4: b"nir", 5: b"wfnep", 6: b""}
SYSTEM, USER, THINKING, TEXT, CALL = 1, 3, 4, 5, 6
RIGHT_HAS_CALLS = 1 << 12
SYSTEM_IN_LAST = 1


class Rule:
    def __init__(self, raw):
        self.left, self.right, self.places, self.values, self.begin, self.n_bytes, self.trims, self.leaves_out = \
            struct.unpack("<HHIIIHBB", raw)


class Chat:
    """The trusted texts, and the joint after an answer that a question follows."""

    def __init__(self, texts, behind_answer):
        self.texts, self.behind_answer = texts, behind_answer


def is_trim(trims):
    return trims & 15 < N_TRIMS and trims >> 4 < N_TRIMS


def check_slots(text, letters, what):
    parts = text.split(b"\0")[1:]
    # Two zero bytes in a row are a slot without a letter.
    require(len(parts) <= MOST_SLOTS and all(part[:1] and part[0] in letters for part in parts), f"a slot of {what}")


def check_rule(rule, joints, flags):
    require((rule.left | rule.right) >> N_UNITS == 0, "units of a rule of the chat template")
    require(rule.places >> N_PLACES == 0 and rule.values & ~rule.places == 0, "places of a rule of the chat template")
    require(rule.begin + rule.n_bytes <= len(joints), "a joint of the chat template")
    require(is_trim(rule.trims), "trims of the chat template")
    require(rule.leaves_out < 2, "what a rule of the chat template leaves out")
    if rule.leaves_out:
        moved = 1 << SYSTEM if flags & SYSTEM_IN_LAST else 0
        require(rule.right & ~(1 << THINKING | 1 << TEXT | 1 << CALL | moved) == 0, "what a rule of the chat template leaves out")
        require(not rule.right & 1 << TEXT or rule.values & RIGHT_HAS_CALLS, "a text of the chat template that is left out")


def read_chat(raw):
    require(len(raw) >= HEADER_BYTES, "the size of the chat template section")
    kind, flags, n_rules, *sizes = struct.unpack_from(f"<3I{N_STRINGS}I", raw)
    styles = [raw[12 + 4 * (N_STRINGS + i):][:4] for i in range(N_STYLES)]
    not_blank, _, result_trims = struct.unpack_from("<HBB", raw, HEADER_BYTES - 4)
    require(kind in KINDS, "the kind of the chat template")
    require(flags & ~KNOWN_FLAGS == 0, "flags of the chat template")
    require(n_rules <= MOST_RULES, "the rules of the chat template")
    require(not_blank >> N_UNITS == 0, "units of the chat template")
    require(is_trim(result_trims), "trims of the chat template")
    for place, (form, indent, depth, style_flags) in enumerate(styles):
        if form in (TAGS, MEMBERS) and place == OF_TOOL:
            require(indent == 0 and depth == 0 and style_flags & ~(4 if form == TAGS else 0) == 0, "a value style of the chat template")
            continue
        require(form < N_FORMS and indent <= MOST_INDENT and depth <= MOST_INDENT and style_flags < 4,
                "a value style of the chat template")
    require(all(size <= (MOST_JOINTS if i == JOINTS else MOST_STRING) for i, size in enumerate(sizes)),
            "a string of the chat template is too long")
    at = HEADER_BYTES + n_rules * RULE_BYTES
    require(at + sum(sizes) == len(raw), "the strings do not end the chat template section")
    rules = [Rule(raw[HEADER_BYTES + i * RULE_BYTES:][:RULE_BYTES]) for i in range(n_rules)]
    strings = []
    for size in sizes:
        strings.append(raw[at:at + size])
        at += size
    for rule in rules:
        check_rule(rule, strings[JOINTS], flags)
    date, date_format = strings[DATE], strings[DATE_FORMAT]
    require(len(date) <= MOST_DATE and 0 not in date + date_format, "the date of the chat template")
    require(bool(date) == bool(date_format), "the date of the chat template and its format")
    of_joints = (b"d" if date else b"") + (b"t" if strings[TOOL] else b"")
    joints = [strings[JOINTS][rule.begin:rule.begin + rule.n_bytes] for rule in rules]
    for joint in joints:
        check_slots(joint, of_joints, "a joint of the chat template")
    for which in PATTERNS:
        is_function = which == TOOL and styles[OF_TOOL][0] in (TAGS, MEMBERS)
        check_slots(strings[which], b"f" if is_function else SLOTS[which], "a pattern of the chat template")
    require(all(not texts or texts[-1] == 0 for texts in strings[LISTS]), "a list of texts does not end")
    if strings[CALL_FORM]:
        check_call_form(strings[CALL_FORM])
    behind = [joint for rule, joint in zip(rules, joints) if rule.left >> TEXT & 1 and rule.right >> USER & 1]
    return Chat(joints + [strings[which] for which in PATTERNS], behind[0] if behind else b"")
