#include "runtime/calls/grammar_tokens.h"

#include <algorithm>

#include "quant/format/align.h"
#include "runtime/calls/grammar_rules.h"
#include "runtime/calls/marker.h"
#include "runtime/json/text_part.h"

namespace cria::calls {
namespace {

using format::CallString;
using json::TokenEntry;

// Whether bytes may contain the beginning of a call that no marker starts.
bool contains_bare(const CallFormat& form, std::string_view bytes) {
  if (!form.has(format::kCallsBare)) return false;
  constexpr char kParenthesis = '(';
  const bool is_python = form.kind == format::CallKind::kPython;
  if (is_python && bytes.find(kParenthesis) != std::string_view::npos) return true;
  // A name and its quotes, after a brace.
  const size_t brace = bytes.find('{');
  if (brace == std::string_view::npos) return false;
  const std::string_view rest = json::part_of(bytes, brace);
  return std::count(rest.begin(), rest.end(), '"') > 1;
}

// Whether bytes contain a marker that ends free text.
bool contains_marker(const CallFormat& form, std::string_view bytes) {
  for (const CallString list :
       {CallString::kStart, CallString::kThinkingEnd, CallString::kAnswerBegin}) {
    for (std::string_view rest = form.text(list); !rest.empty();) {
      const std::string_view marker = without_blanks(next_call_text(&rest));
      size_t at = bytes.find(marker.front());
      for (; at != std::string_view::npos; at = bytes.find(marker.front(), at + 1)) {
        size_t n_bytes = 0;
        const Match match = match_marker(marker, json::part_of(bytes, at), &n_bytes);
        if (match == Match::kWhole) return true;
      }
    }
  }
  return false;
}

bool is_part(const CallFormat& form, std::string_view bytes) {
  return std::any_of(form.strings.begin(), form.strings.end(), [&](std::string_view text) {
    return text.find(bytes) != std::string_view::npos;
  });
}

// Calls visit(token, text) for special tokens that are parts of markers.
template <typename Visit>
void for_each_special(const CallFormat& form, const cria_json_vocabulary& vocabulary,
                      const Visit& visit) {
  const Tokenizer& tokenizer = json::tokenizer_of(vocabulary);
  for (uint32_t token = 0; token < tokenizer.header.n_tokens; ++token) {
    if (!is_special(tokenizer, token)) continue;
    const std::span<const char> text = token_text(tokenizer, token);
    const std::string_view bytes(text.data(), text.size());
    const bool is_fit = !bytes.empty() && bytes.size() <= json::kMostTokenBytes;
    if (is_fit && is_part(form, bytes)) visit(token, bytes);
  }
}

template <typename Visit>
void for_each_entry(const cria_json_vocabulary& v, const json::TokenGroup& group,
                    const Visit& visit) {
  const TokenEntry* const end = group.entries + group.first[json::kFirstBytes];
  for (const TokenEntry* e = group.entries; e != end; ++e) {
    visit(e->token, std::string_view(v.text + e->offset, e->n_bytes));
  }
}

template <typename Visit>
void for_each_in_text(const CallFormat& form, const cria_json_vocabulary& v, const Visit& visit) {
  const auto look = [&](uint32_t token, std::string_view bytes) {
    if (contains_marker(form, bytes) || contains_bare(form, bytes)) visit(token);
  };
  for_each_entry(v, v.plain, look);
  for_each_entry(v, v.others, look);
}

template <typename Visit>
void for_each_in_values(const CallFormat& form, const cria_json_vocabulary& v, const Visit& visit) {
  const std::string_view mark = value_mark(form);
  if (mark.empty()) return;
  for_each_entry(v, v.plain, [&](uint32_t token, std::string_view bytes) {
    if (bytes.find(mark.front()) != std::string_view::npos) visit(token);
  });
}

}  // namespace

MarkedCounts count_marked(const CallFormat& form, const cria_json_vocabulary& vocabulary) {
  MarkedCounts counts = {};
  counts.longest = vocabulary.longest;
  for_each_special(form, vocabulary, [&](uint32_t, std::string_view text) {
    ++counts.n_specials;
    const auto n_bytes = static_cast<uint32_t>(text.size());
    counts.special_bytes += n_bytes;
    counts.longest = std::max(counts.longest, n_bytes);
  });
  for_each_in_text(form, vocabulary, [&](uint32_t) { ++counts.n_in_text; });
  for_each_in_values(form, vocabulary, [&](uint32_t) { ++counts.n_in_values; });
  return counts;
}

uint64_t marked_bytes(const MarkedCounts& counts) {
  return aligned(uint64_t{counts.n_specials} * sizeof(TokenEntry)) + aligned(counts.special_bytes) +
         aligned(uint64_t{counts.n_in_text} * sizeof(uint32_t)) +
         aligned(uint64_t{counts.n_in_values} * sizeof(uint32_t));
}

Status take_marked(const CallFormat& form, const cria_json_vocabulary& vocabulary,
                   const MarkedCounts& counts, Arena* arena, json::MarkedTokens* marked) {
  char* text = nullptr;
  *marked = {};
  CRIA_TRY(take(arena, uint64_t{counts.n_specials} * sizeof(TokenEntry), &marked->specials));
  CRIA_TRY(take(arena, counts.special_bytes, &text));
  CRIA_TRY(take(arena, uint64_t{counts.n_in_text} * sizeof(uint32_t), &marked->in_text));
  CRIA_TRY(take(arena, uint64_t{counts.n_in_values} * sizeof(uint32_t), &marked->in_values));
  marked->text = text;
  uint32_t n_text = 0;
  for_each_special(form, vocabulary, [&](uint32_t token, std::string_view bytes) {
    const auto n_bytes = static_cast<uint8_t>(bytes.size());
    marked->specials[marked->n_specials++] = {token, n_text, n_bytes, 0, 0, 0};
    std::copy(bytes.begin(), bytes.end(), text + n_text);
    n_text += n_bytes;
  });
  // The longest first: one that stands for more of a marker goes before one that does for less.
  std::sort(marked->specials, marked->specials + marked->n_specials,
            [](const TokenEntry& a, const TokenEntry& b) {
              return a.n_bytes != b.n_bytes ? a.n_bytes > b.n_bytes : a.token < b.token;
            });
  for_each_in_text(form, vocabulary,
                   [&](uint32_t token) { marked->in_text[marked->n_in_text++] = token; });
  for_each_in_values(form, vocabulary,
                     [&](uint32_t token) { marked->in_values[marked->n_in_values++] = token; });
  return Status::kOk;
}

}  // namespace cria::calls
