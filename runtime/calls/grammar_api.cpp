// The functions of cria_call_grammar.h.
#include <algorithm>
#include <cstring>

#include <cria_call_grammar.h>
#include "quant/format/align.h"
#include "quant/format/checksum.h"
#include "quant/text/call_format.h"
#include "quant/text/utf8.h"
#include "runtime/base/arena.h"
#include "runtime/calls/grammar_rules.h"
#include "runtime/calls/grammar_tokens.h"
#include "runtime/calls/grammar_tools.h"
#include "runtime/calls/marker.h"
#include "runtime/json/masks.h"
#include "runtime/json/problem.h"
#include "runtime/json/text_part.h"

struct cria_call_grammar {
  cria::json::Masks masks;
  cria::json::MarkedTokens marked;
  cria::json::Rules rules;
  cria::calls::Beginnings beginnings;
  cria::CallFormat form;  // of the grammar's own copy
  bool must_call;
};

namespace cria::calls {
namespace {

using format::CallString;
using json::Masks;
using json::Walk;

static_assert(sizeof(cria_call_state) == json::kStateWords * sizeof(uint64_t));

// Of bytes that are forced.
constexpr size_t kMostForced = 256;

struct Order {
  std::span<const uint8_t> stored;
  CallFormat form;
  std::string_view tools;
  std::string_view name;
  const std::string_view* only;
  GrammarDemands demands;
};

struct Sizes {
  uint64_t tables;
  uint64_t entries;
  MarkedCounts marked;
  uint64_t total;
};

bool is_text(const char* text, size_t n_bytes) { return text != nullptr || n_bytes == 0; }

// False for a null that stands for bytes, and a choice that there is not.
bool is_order(const cria_call_order* order) {
  return order != nullptr && order->format != nullptr && is_text(order->tools, order->n_tools) &&
         is_text(order->name, order->n_name) && order->choice >= CRIA_TOOLS_AUTO &&
         order->choice <= CRIA_TOOLS_NAMED;
}

Status read_order(const cria_call_order& given, Order* order, ToolRefusal* refusal) {
  *order = {};
  order->stored = {static_cast<const uint8_t*>(given.format), given.n_format};
  order->tools = {given.tools, given.n_tools};
  if (order->tools.empty()) order->tools = "[]";
  order->name = {given.name, given.n_name};
  order->only = given.choice == CRIA_TOOLS_NAMED ? &order->name : nullptr;
  order->demands = {given.choice != CRIA_TOOLS_NONE, given.choice >= CRIA_TOOLS_REQUIRED,
                    given.one_call != 0, given.thinks != 0};
  if (check_call_format(order->stored, &order->form) != nullptr) return Status::kCorrupt;
  const char* const reason = check_grammar_form(order->form, order->demands.must_call);
  if (reason == nullptr) return Status::kOk;
  refusal->refusal.reason = reason;
  return Status::kUnsupported;
}

Status need_bytes(const cria_json_vocabulary& vocabulary, const Order& order, Sizes* sizes,
                  ToolRefusal* refusal) {
  json::SchemaCounts counts = {};
  CRIA_TRY(json::schema_bytes(order.tools, &sizes->tables, &refusal->refusal));
  CRIA_TRY(json::read_schema_text(order.tools, nullptr, &counts, &refusal->refusal));
  sizes->entries = uint64_t{counts.n_schemas} * sizeof(json::ToolEntry);
  sizes->marked = count_marked(order.form, vocabulary);
  sizes->total = aligned(sizeof(cria_call_grammar)) + sizes->tables + aligned(sizes->entries) +
                 aligned(order.stored.size()) + marked_bytes(sizes->marked) +
                 json::masks_bytes(vocabulary, sizes->marked.longest);
  return sizes->total <= SIZE_MAX ? Status::kOk : Status::kUnsupported;
}

uint32_t id_of(const Order& order) {
  Xxh64 hash;
  hash.update(order.stored.data(), order.stored.size());
  hash.update(order.tools.data(), order.tools.size());
  hash.update(order.name.data(), order.name.size());
  const uint8_t demands[] = {order.demands.may_call, order.demands.must_call,
                             order.demands.one_call, order.demands.may_think,
                             order.only != nullptr};
  hash.update(demands, sizeof demands);
  return static_cast<uint32_t>(hash.digest());
}

Status compile(const Order& order, std::span<uint8_t> memory, json::ToolEntry* entries,
               cria_call_grammar* grammar, ToolRefusal* refusal) {
  json::SchemaTables tables = {};
  CRIA_TRY(json::open_tables(order.tools, memory, &tables, &refusal->refusal));
  uint32_t n_tools = 0;
  const bool has_calls = order.demands.may_call && order.form.kind != format::CallKind::kNoCalls;
  CRIA_TRY(
      compile_tools({&order.form, order.only, has_calls}, &tables, entries, &n_tools, refusal));
  if (n_tools == 0 && order.demands.must_call) {
    const bool is_named = order.only != nullptr;
    refusal->refusal = {0, is_named ? "has no tool of that name" : "has no tools", {}};
    return Status::kUnsupported;
  }
  GrammarDemands demands = order.demands;
  demands.may_call = demands.may_call && n_tools > 0;
  json::Rules& rules = grammar->rules;
  CRIA_TRY(make_rules(grammar->form, demands, &rules, &grammar->beginnings));
  rules.tools = entries;
  rules.n_tools = n_tools;
  grammar->masks.schema = tables.schema;
  grammar->masks.schema.rules = &rules;
  return Status::kOk;
}

Status make(std::span<uint8_t> memory, const cria_json_vocabulary& vocabulary, const Order& order,
            cria_call_grammar** grammar, ToolRefusal* refusal) {
  Sizes sizes = {};
  CRIA_TRY(need_bytes(vocabulary, order, &sizes, refusal));
  if (memory.size() < sizes.total) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), memory.size());
  cria_call_grammar* g = nullptr;
  uint8_t* tables = nullptr;
  json::ToolEntry* entries = nullptr;
  uint8_t* stored = nullptr;
  CRIA_TRY(take(&arena, sizeof *g, &g));
  std::memset(static_cast<void*>(g), 0, sizeof *g);
  CRIA_TRY(take(&arena, sizes.tables, &tables));
  CRIA_TRY(take(&arena, sizes.entries, &entries));
  CRIA_TRY(take(&arena, order.stored.size(), &stored));
  std::copy(order.stored.begin(), order.stored.end(), stored);
  if (check_call_format({stored, order.stored.size()}, &g->form) != nullptr) {
    return Status::kCorrupt;
  }
  CRIA_TRY(compile(order, {tables, static_cast<size_t>(sizes.tables)}, entries, g, refusal));
  g->must_call = order.demands.must_call;
  CRIA_TRY(take_marked(order.form, vocabulary, sizes.marked, &arena, &g->marked));
  CRIA_TRY(json::take_masks(vocabulary, sizes.marked.longest, &arena, &g->masks));
  g->masks.marked = &g->marked;
  g->masks.id = id_of(order);
  *grammar = g;
  return Status::kOk;
}

void say_problem(Status status, const ToolRefusal& refusal, cria_call_problem* problem) {
  if (problem == nullptr) return;
  *problem = {};
  json::say_problem(status, refusal.refusal, &problem->schema);
  if (problem->schema.reason == nullptr) return;
  const std::string_view tool = json::part_of(refusal.tool, 0, sizeof problem->tool - 1);
  std::copy(tool.begin(), tool.end(), problem->tool);
}

// As a reader of answers finds it.
bool is_thinking_behind(const CallFormat& form, std::string_view opened) {
  struct Part {
    CallString list;
    bool is_thinking;
  };
  constexpr Part kParts[] = {{CallString::kThinkingBegin, true},
                             {CallString::kThinkingEnd, false},
                             {CallString::kAnswerBegin, false}};
  bool is_thinking = false;
  while (!opened.empty()) {
    size_t n_longest = 0;
    bool then = is_thinking;
    for (const Part& part : kParts) {
      if (part.list == CallString::kThinkingEnd && !is_thinking) continue;
      if (part.list == CallString::kThinkingBegin && is_thinking) continue;
      for (std::string_view rest = form.text(part.list); !rest.empty();) {
        size_t n_bytes = 0;
        const std::string_view marker = without_blanks(next_call_text(&rest));
        if (match_marker(marker, opened, &n_bytes) != Match::kWhole || n_bytes <= n_longest) {
          continue;
        }
        n_longest = n_bytes;
        then = part.is_thinking;
      }
    }
    is_thinking = then;
    opened.remove_prefix(std::max<size_t>(n_longest, 1));
  }
  return is_thinking;
}

// A byte further.
Status step_state(const Masks& masks, char byte, uint64_t* state) {
  Walk walk = json::walk_of(masks);
  CRIA_TRY(json::resume(masks, state, &walk));
  if (!walk.step(0, byte)) return Status::kInvalidArgument;
  json::keep(masks, walk, 1, state);
  return Status::kOk;
}

Status begin(const cria_call_grammar& g, std::string_view opened, uint64_t* state) {
  const auto begin_at = [&](uint8_t rule) {
    Walk walk = json::walk_of(g.masks);
    walk.begin_rule(rule);
    json::keep(g.masks, walk, 0, state);
  };
  begin_at(g.beginnings.any);
  for (const char c : opened) CRIA_TRY(step_state(g.masks, c, state));
  Walk walk = json::walk_of(g.masks);
  CRIA_TRY(json::resume(g.masks, state, &walk));
  uint32_t rule = 0;
  if (!walk.is_in_text(&rule)) return Status::kOk;
  const bool is_thinking = is_thinking_behind(g.form, opened);
  const uint8_t beginning = is_thinking ? g.beginnings.thinking : g.beginnings.closed;
  if (beginning != g.beginnings.any) begin_at(beginning);
  return Status::kOk;
}

// The one byte that can come at the front of a walk; false when there are none or several.
bool only_byte(Walk* walk, char* byte) {
  bool is_found = false;
  for (uint32_t b = 0; b < json::kFirstBytes; ++b) {
    const auto c = static_cast<char>(static_cast<uint8_t>(b));
    if (!walk->step(0, c)) continue;
    if (is_found) return false;
    is_found = true;
    *byte = c;
  }
  return is_found;
}

// state: receives what is after.
Status find_forced(const Masks& masks, std::span<char> text, uint64_t* state, size_t* n_bytes) {
  *n_bytes = 0;
  for (;;) {
    Walk walk = json::walk_of(masks);
    CRIA_TRY(json::resume(masks, state, &walk));
    char byte = 0;
    const bool is_forced = *n_bytes < text.size() && !walk.may_end(0) && only_byte(&walk, &byte);
    if (!is_forced) return Status::kOk;
    text[(*n_bytes)++] = byte;
    CRIA_TRY(step_state(masks, byte, state));
  }
}

bool can_go_on(const Masks& masks, const uint64_t* state) {
  Walk walk = json::walk_of(masks);
  return json::resume(masks, state, &walk) == Status::kOk && json::can_go_on(&walk);
}

// Without the beginning of a character at the end.
size_t whole_characters(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = decode_utf8(text.data() + at, text.size() - at);
    if (!c.complete) return at;
    at += c.n_bytes;
  }
  return at;
}

// Forced text as tokens.
class ForcedTokens {
 public:
  // written: the state before them, which moves on.
  ForcedTokens(const cria_call_grammar& grammar, cria_workspace* workspace, uint32_t* tokens,
               size_t capacity, cria_call_state* written)
      : grammar_(grammar),
        workspace_(workspace),
        tokens_(tokens),
        capacity_(capacity),
        written_(written) {}

  cria_status write(std::string_view text, bool is_last);
  [[nodiscard]] size_t n_tokens() const { return n_tokens_; }

 private:
  cria_status write_piece(std::string_view piece, size_t n_left_out, bool* is_whole);
  [[nodiscard]] const json::TokenEntry* special_at(std::string_view text,
                                                   const cria_call_state& here) const;

  const cria_call_grammar& grammar_;
  cria_workspace* workspace_;
  uint32_t* tokens_;
  size_t capacity_;
  size_t n_tokens_ = 0;
  cria_call_state* written_;
};

const json::TokenEntry* ForcedTokens::special_at(std::string_view text,
                                                 const cria_call_state& here) const {
  const json::MarkedTokens& marked = grammar_.marked;
  for (uint32_t i = 0; i < marked.n_specials; ++i) {
    const json::TokenEntry& e = marked.specials[i];
    if (!text.starts_with({marked.text + e.offset, e.n_bytes})) continue;
    if (json::can_take_special(grammar_.masks, here.bytes, e)) return &e;
  }
  return nullptr;
}

// Tokens of a piece but for the last ones; whole: all of them could be taken.
cria_status ForcedTokens::write_piece(std::string_view piece, size_t n_left_out, bool* is_whole) {
  *is_whole = true;
  if (piece.empty()) return CRIA_OK;
  size_t n = 0;
  const cria_status status =
      cria_encode(workspace_, piece.data(), piece.size(), CRIA_ENCODE_CONTINUES,
                  tokens_ + n_tokens_, capacity_ - n_tokens_, &n);
  if (status != CRIA_OK) return status;
  n -= std::min(n, n_left_out);
  for (size_t i = 0; i < n && *is_whole; ++i) {
    const uint32_t token = tokens_[n_tokens_];
    *is_whole = json::accept_token(grammar_.masks, written_->bytes, token) == Status::kOk;
    if (*is_whole) ++n_tokens_;
  }
  return CRIA_OK;
}

cria_status ForcedTokens::write(std::string_view text, bool is_last) {
  cria_call_state here = *written_;
  size_t begin = 0;  // of the piece
  bool is_whole = true;
  for (size_t at = 0; at < text.size();) {
    const json::TokenEntry* const special = special_at(json::part_of(text, at), here);
    if (special == nullptr) {
      const Status status = step_state(grammar_.masks, text[at], here.bytes);
      if (status != Status::kOk) return to_public(status);
      ++at;
      continue;
    }
    const cria_status status = write_piece(json::part_of(text, begin, at - begin), 0, &is_whole);
    if (status != CRIA_OK || !is_whole || n_tokens_ == capacity_) return status;
    tokens_[n_tokens_++] = special->token;
    const Status taken = json::accept_token(grammar_.masks, written_->bytes, special->token);
    if (taken != Status::kOk) return to_public(taken);
    here = *written_;
    at += special->n_bytes;
    begin = at;
  }
  return write_piece(json::part_of(text, begin), is_last ? 0 : 1, &is_whole);
}

cria_status write_forced(const cria_call_grammar& g, const cria_call_state& state,
                         cria_workspace* workspace, uint32_t* tokens, size_t capacity,
                         size_t* n_tokens) {
  char text[kMostForced];
  size_t n_bytes = 0;
  cria_call_state behind = state;
  // A token has a byte at least.
  const Status status =
      find_forced(g.masks, {text, std::min(capacity, sizeof text)}, behind.bytes, &n_bytes);
  if (status != Status::kOk) return to_public(status);
  const size_t n_whole = whole_characters({text, n_bytes});
  const bool is_last = n_whole == n_bytes && !can_go_on(g.masks, behind.bytes);
  behind = state;
  ForcedTokens forced(g, workspace, tokens, capacity, &behind);
  const cria_status written = forced.write({text, n_whole}, is_last);
  *n_tokens = written == CRIA_OK ? forced.n_tokens() : 0;
  return written;
}

cria_call_progress progress_of(const cria_call_grammar& g, const uint64_t* state) {
  Walk walk = json::walk_of(g.masks);
  if (json::resume(g.masks, state, &walk) != Status::kOk || !walk.may_end(0)) {
    return CRIA_CALL_OPEN;
  }
  uint32_t rule = 0;
  if (walk.is_in_text(&rule)) return CRIA_CALL_TEXT;
  return json::can_go_on(&walk) ? CRIA_CALL_WHOLE : CRIA_CALL_CLOSED;
}

}  // namespace
}  // namespace cria::calls

using cria::to_public;

extern "C" {

cria_status cria_call_grammar_required(const cria_json_vocabulary* vocabulary,
                                       const cria_call_order* order, size_t* n_bytes,
                                       cria_call_problem* problem) {
  if (vocabulary == nullptr || n_bytes == nullptr || !cria::calls::is_order(order)) {
    return CRIA_INVALID_ARGUMENT;
  }
  cria::calls::ToolRefusal refusal = {};
  cria::calls::Order read = {};
  cria::calls::Sizes sizes = {};
  cria::Status status = cria::calls::read_order(*order, &read, &refusal);
  if (status == cria::Status::kOk) {
    status = cria::calls::need_bytes(*vocabulary, read, &sizes, &refusal);
  }
  cria::calls::say_problem(status, refusal, problem);
  if (status == cria::Status::kOk) *n_bytes = static_cast<size_t>(sizes.total);
  return to_public(status);
}

cria_status cria_call_grammar_make(void* memory, size_t n_bytes,
                                   const cria_json_vocabulary* vocabulary,
                                   const cria_call_order* order, cria_call_grammar** grammar,
                                   cria_call_problem* problem) {
  if (memory == nullptr || vocabulary == nullptr || grammar == nullptr ||
      !cria::calls::is_order(order)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *grammar = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  cria::calls::ToolRefusal refusal = {};
  cria::calls::Order read = {};
  cria::Status status = cria::calls::read_order(*order, &read, &refusal);
  if (status == cria::Status::kOk) {
    status = cria::calls::make({static_cast<uint8_t*>(memory), n_bytes}, *vocabulary, read, grammar,
                               &refusal);
  }
  cria::calls::say_problem(status, refusal, problem);
  return to_public(status);
}

cria_status cria_call_grammar_begin(cria_call_grammar* grammar, const char* opened, size_t n_opened,
                                    cria_call_state* state) {
  if (grammar == nullptr || state == nullptr || !cria::calls::is_text(opened, n_opened)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::calls::begin(*grammar, {opened, n_opened}, state->bytes));
}

cria_status cria_call_grammar_mask(cria_call_grammar* grammar, const cria_call_state* state,
                                   float* logits, size_t n_logits) {
  if (grammar == nullptr || state == nullptr || logits == nullptr ||
      n_logits != cria_vocab_size(grammar->masks.vocabulary->model)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::json::apply_mask(&grammar->masks, state->bytes, logits));
}

void cria_call_grammar_watch(cria_call_grammar* grammar, cria_json_stop_fn wants_stop,
                             void* context) {
  if (grammar == nullptr) return;
  grammar->masks.wants_stop = wants_stop;
  grammar->masks.stop_context = context;
}

cria_status cria_call_grammar_accept(cria_call_grammar* grammar, cria_call_state* state,
                                     uint32_t token) {
  if (grammar == nullptr || state == nullptr) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::json::accept_token(grammar->masks, state->bytes, token));
}

cria_status cria_call_grammar_forced(cria_call_grammar* grammar, const cria_call_state* state,
                                     char* text, size_t capacity, size_t* n_bytes) {
  if (grammar == nullptr || state == nullptr || n_bytes == nullptr ||
      !cria::calls::is_text(text, capacity)) {
    return CRIA_INVALID_ARGUMENT;
  }
  cria_call_state behind = *state;
  return to_public(
      cria::calls::find_forced(grammar->masks, {text, capacity}, behind.bytes, n_bytes));
}

cria_status cria_call_grammar_forced_tokens(cria_call_grammar* grammar,
                                            const cria_call_state* state, cria_workspace* workspace,
                                            uint32_t* tokens, size_t capacity, size_t* n_tokens) {
  if (grammar == nullptr || state == nullptr || workspace == nullptr || n_tokens == nullptr ||
      (tokens == nullptr && capacity != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *n_tokens = 0;
  return cria::calls::write_forced(*grammar, *state, workspace, tokens, capacity, n_tokens);
}

cria_call_progress cria_call_grammar_progress_of(cria_call_grammar* grammar,
                                                 const cria_call_state* state) {
  if (grammar == nullptr || state == nullptr) return CRIA_CALL_OPEN;
  return cria::calls::progress_of(*grammar, state->bytes);
}

}  // extern "C"
