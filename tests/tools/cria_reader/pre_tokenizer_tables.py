"""Part 6 of docs/model_format.md: the tables by which byte-level text is cut into words."""
import struct

from cria_reader.refusal import require

HEADER_FORMAT, HEADER_BYTES = "<4I128s", 144
STAGE_FORMAT, STAGE_BYTES = "<IHH", 8
FIRST_RUN, LAST_CODE = 0x80, 0x10FFFF
MOST_CLASSES, MOST_RUNS, MOST_STAGES, MOST_STATES, MOST_TRANSITIONS = 255, 1 << 14, 8, 1 << 10, 1 << 20
LAST_BEHAVIOR = 3


def check_tables(raw):
    require(len(raw) >= HEADER_BYTES, "the size of pre_tokenizer")
    n_classes, n_runs, n_stages, n_transitions, ascii_classes = struct.unpack_from(HEADER_FORMAT, raw)
    require(1 <= n_classes <= MOST_CLASSES and 1 <= n_runs <= MOST_RUNS and 1 <= n_stages <= MOST_STAGES and
            n_transitions <= MOST_TRANSITIONS, "the counts of pre_tokenizer")
    stages_at = HEADER_BYTES + 4 * n_runs
    transitions_at = stages_at + STAGE_BYTES * n_stages
    require(len(raw) == transitions_at + 2 * n_transitions, "the size of pre_tokenizer")
    require(max(ascii_classes) < n_classes, "ascii_classes")
    check_runs([run for run, in struct.iter_unpack("<I", raw[HEADER_BYTES:stages_at])], n_classes)
    entries = [entry for entry, in struct.iter_unpack("<H", raw[transitions_at:])]
    for n_states, behavior, inverted in struct.iter_unpack(STAGE_FORMAT, raw[stages_at:transitions_at]):
        require(2 <= n_states <= MOST_STATES, "n_states")
        require(behavior <= LAST_BEHAVIOR and inverted <= 1, "a stage's behavior")
        size = n_states * (n_classes + 1)
        require(size <= len(entries), "the transitions of a stage")
        check_stage(entries[:size], n_states, n_classes + 1)
        entries = entries[size:]
    require(not entries, "transitions of no stage")


def check_runs(runs, n_classes):
    firsts = [run >> 8 for run in runs]
    require(firsts[0] == FIRST_RUN and firsts[-1] <= LAST_CODE, "the first or last run of characters")
    require(all(a < b for a, b in zip(firsts, firsts[1:])), "the order of runs")
    require(all(run & 0xFF < n_classes for run in runs), "the class of a run")


def check_stage(entries, n_states, n_columns):
    require(all(entry >> 1 < n_states for entry in entries), "the next state")
    require(not any(entries[:n_columns]), "the dead state")
    require(not any(entry & 1 for entry in entries[n_columns:2 * n_columns]), "a word without text")
    require(all(entry >> 1 == 0 for entry in entries[n_columns - 1::n_columns]), "a state behind the text")
