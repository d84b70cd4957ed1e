"""How an answer is made, token by token: of a conversation, or of a text that goes on."""
from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any, Generator, Optional, Union

from . import _structs as s
from ._calls import Memory, check
from ._documents import Guide
from ._engine import Engine
from ._errors import CriaError
from ._native import lib
from ._requests import token_array
from ._results import Ending, StopStrings
from ._tools import CallGuide, CallReader

_END_NAMES = {s.ChatEnd.ANSWERED: "stop", s.ChatEnd.LIMIT: "length", s.ChatEnd.STOPPED: "closed", s.ChatEnd.FULL: "context"}


@dataclasses.dataclass
class Order:
    """What an answer is to be, and what is noted of it."""

    sampling: s.Sampling
    seed: int
    limit: int  # tokens; 0: none
    stops: StopStrings
    guide: Union[Guide, CallGuide, None]
    ending: Ending
    reader: Optional[CallReader] = None  # takes the text apart
    markers: frozenset[int] = frozenset()  # special tokens that are text for it


class Forbidden:
    """Whether a token can be drawn. Where none can, the library gives one all the same."""

    def __init__(self, engine: Engine, order: Order) -> None:
        self._engine = engine
        self._is_needed = order.guide is not None or order.sampling.n_biases > 0
        self._biases: dict[int, float] = {each.token: each.bias for each in order.sampling.biases[:order.sampling.n_biases]}
        self._ends: Optional[list[int]] = None
        self._logits: Any = None

    def look(self) -> None:
        """Before a token is drawn: that may make room in the context, after which there are no logits to be had."""
        self._logits = lib.cria_logits(self._engine.host.session)

    def _has(self, token: int) -> bool:
        logit = float(self._logits[token])
        return logit + self._biases.get(token, 0.0) == -math.inf

    def check(self, token: int) -> None:
        """Raises where a token that was just drawn is one that cannot be; NO_TOKEN: some end token."""
        if not self._is_needed:
            return
        if token == s.NO_TOKEN and self._ends is None:
            is_end, model = lib.cria_is_end_token, self._engine.host.model
            self._ends = [each for each in range(self._engine.vocab_size) if is_end(model, each)]
        if all(map(self._has, [token] if token != s.NO_TOKEN else self._ends or [])):
            raise CriaError("logit_bias, with a schema or tools if there are any, forbids every token",
                            s.Status.CRIA_NOTHING_TO_SAMPLE.name, s.Status.CRIA_NOTHING_TO_SAMPLE)


class Conversation:
    """Chats of a model's session, whose memory is taken for the first of them."""

    def __init__(self, engine: Engine, exact_context: bool) -> None:
        self._engine = engine
        self._exact_context = exact_context
        self._chat: Optional[ctypes.c_void_p] = None
        self._memory: Optional[Memory] = None
        self._is_shifted = False  # the session may hold what was computed with forgotten text in sight

    def forget(self) -> None:
        self._chat = self._memory = None

    @property
    def n_bytes(self) -> int:
        return self._memory.n_bytes if self._memory is not None else 0

    def unshift(self) -> None:
        """The same request gives the same answer, whatever went before."""
        if self._is_shifted:
            lib.cria_chat_stop(self._chat)
            check(lib.cria_reset(self._engine.host.session, 0))
            self._is_shifted = False

    def _made(self) -> ctypes.c_void_p:
        if self._chat is None:
            config = s.ChatConfig(exact_context=self._exact_context)
            n_bytes = ctypes.c_size_t()
            host, path = self._engine.host, self._engine.path
            check(lib.cria_chat_required(host.session, ctypes.byref(config), ctypes.byref(n_bytes)), path)
            memory, chat = Memory(n_bytes.value), ctypes.c_void_p()
            check(lib.cria_chat_make(memory.address, n_bytes.value, host.workspace, host.session, ctypes.byref(config),
                                     ctypes.byref(chat)), path)
            self._memory, self._chat = memory, chat
        return self._chat

    def _check_template(self, status: int, said: list[tuple[s.Role, bytes]]) -> None:
        """Says why the chat template refused a conversation."""
        path = self._engine.path
        if status == s.Status.CRIA_REFUSED_BY_TEMPLATE:
            messages = (s.MessageStruct * len(said))(*(s.MessageStruct(role, text, len(text)) for role, text in said))
            conversation = s.ConversationStruct(messages=messages, n_messages=len(said), ending=s.TURN_OPENED)
            refusal = lib.cria_chat_refusal(self._engine.host.workspace, ctypes.byref(conversation))
            if refusal:
                raise CriaError(f"{path}: the chat template {refusal.decode()}", s.Status(status).name, s.Status(status))
        check(status, path)

    def _ask(self, chat: ctypes.c_void_p, said: list[tuple[s.Role, bytes]], limit: int, entry: s.BatchEntry) -> None:
        """Says a conversation anew; what the session holds of it is not read again."""
        has_system = said[0][0] == s.Role.SYSTEM
        system = said[0][1] if has_system else b""
        self._check_template(lib.cria_chat_begin(chat, system, len(system)), said)
        for role, text in said[1 if has_system else 0:-1]:
            self._check_template(lib.cria_chat_add(chat, role, text, len(text)), said)
        question = said[-1][1]
        self._check_template(
            lib.cria_chat_ask(chat, self._engine.host.workspace, question, len(question), limit, ctypes.byref(entry)), said)

    def pieces(self, said: list[tuple[s.Role, bytes]], order: Order) -> Generator[str, None, None]:
        """The answer to a conversation's last message."""
        engine, guide, stops, ending = self._engine, order.guide, order.stops, order.ending
        lib.cria_seed(engine.host.session, order.seed)
        chat, forbidden = self._made(), Forbidden(engine, order)
        n_dropped = lib.cria_chat_n_dropped(chat)
        entry, piece = s.BatchEntry(), s.ChatPiece()
        self._is_shifted = True  # whatever ends this, the next one begins with a session that is known
        try:
            self._ask(chat, said, order.limit, entry)
            ending.n_read = entry.n_tokens
            engine.read(entry)
            while True:
                if guide is not None:
                    guide.mask()
                forbidden.look()
                check(lib.cria_chat_next(chat, engine.host.workspace, ctypes.byref(order.sampling), ctypes.byref(piece),
                                         ctypes.byref(entry)), engine.path)
                forbidden.check(piece.token)
                if piece.token != s.NO_TOKEN:
                    ending.n_tokens += 1
                    if guide is not None:
                        guide.accept(piece.token)
                text = stops.feed(ctypes.string_at(piece.text, piece.n_bytes).decode() if piece.n_bytes else "")
                is_whole = stops.is_met or (guide is not None and guide.is_closed())
                if is_whole or piece.is_last:
                    ending.finish_reason = "stop" if is_whole else _END_NAMES[s.ChatEnd(piece.end)]
                    text += stops.rest()
                if text:
                    yield text
                if is_whole or piece.is_last:
                    return
                engine.read(entry)
        finally:
            if engine.is_open:
                engine.settle()
                lib.cria_chat_stop(chat)
                ending.n_dropped = lib.cria_chat_n_dropped(chat) - n_dropped
                self._is_shifted = ending.n_dropped > 0 and not self._exact_context


def prompt_tokens(engine: Engine, prompt: str, parse_special: bool) -> list[int]:
    """A prompt's tokens, its BOS once."""
    tokens = engine.encode(prompt, s.ENCODE_SPECIAL | (s.ENCODE_PARSE if parse_special else 0))
    bos = engine.host.info.bos_token
    if len(tokens) > 1 and bos != s.NO_TOKEN and tokens[:2] == [bos, bos]:
        del tokens[0]  # a prompt that writes its BOS out does not want a second one
    if not tokens:
        raise ValueError("the prompt is empty")
    return tokens


def _keep_common(engine: Engine, tokens: list[int]) -> list[int]:
    """Keeps of the session what tokens begin with, and gives the others, at least one."""
    session = engine.host.session
    held = lib.cria_tokens(session)[:min(lib.cria_position(session), len(tokens) - 1)]
    n_kept = next((i for i, token in enumerate(held) if token != tokens[i]), len(held))
    if lib.cria_reset(session, n_kept) != s.Status.CRIA_OK:  # a sliding window's ring has gone on
        check(lib.cria_reset(session, 0))
    # The same prompt again reads only its last token; of layers' state a snapshot is needed there.
    lib.cria_keep_snapshot(session, len(tokens) - 1)
    return tokens[lib.cria_position(session):]


def completion_pieces(engine: Engine, tokens: list[int], state: s.TextState, order: Order) -> Generator[str, None, None]:
    """The text that goes on from a prompt's tokens."""
    host, guide, stops, ending = engine.host, order.guide, order.stops, order.ending
    forbidden = Forbidden(engine, order)
    lib.cria_seed(host.session, order.seed)
    context = lib.cria_context(host.session)
    if len(tokens) > context:
        check(s.Status.CRIA_CONTEXT_FULL, f"the prompt has {len(tokens)} tokens, the context {context} positions")
    token = ctypes.c_uint32()
    unread = _keep_common(engine, tokens)
    ending.n_read = len(unread)
    made: list[int] = []  # tokens that are known before anything is drawn
    while True:
        engine.read(s.BatchEntry(host.session, token_array(unread, engine.vocab_size), len(unread), None))
        is_drawn = not made
        if is_drawn:
            if guide is not None:
                guide.mask()
            forbidden.look()
            check(lib.cria_sample(host.workspace, host.session, ctypes.byref(order.sampling), ctypes.byref(token)))
            forbidden.check(token.value)
            made = [] if lib.cria_is_end_token(host.model, token) else [token.value]
        why = "" if made else "stop"
        text = ""
        for i, each in enumerate(made):
            if guide is not None:
                guide.accept(each)
                if is_drawn and i == 0 and not guide.is_closed():
                    made += guide.forced()
            ending.n_tokens += 1
            state.show_special = each in order.markers
            text += stops.feed(engine.decode(state, each))
            if stops.is_met or (guide is not None and guide.is_closed()):
                why = "stop"
            elif ending.n_tokens == order.limit:
                why = "length"
            elif lib.cria_position(host.session) + i >= context:
                why = "context"
            if why:
                break
        if why:
            ending.finish_reason = why
            if not stops.is_met:
                # Half a character of an answer that is cut may be one of a marker.
                is_left_out = order.reader is not None and why != "stop"
                text += ("" if is_left_out else stops.feed(engine.decode(state, s.NO_TOKEN))) + stops.rest()
        if order.reader is not None:
            text = order.reader.feed(text) + (order.reader.finish(why != "stop" or stops.is_met) if why else "")
            ending.thinking, ending.calls = order.reader.thinking, tuple(order.reader.calls)
            if why == "stop" and ending.calls:
                ending.finish_reason = "tool_calls"
        if text:
            yield text
        if why:
            return
        # Nothing is forced after a token that was drawn and stands alone.
        may_go_on = guide is not None and (not is_drawn or len(made) > 1)
        unread, made = made, guide.forced() if may_go_on else []
