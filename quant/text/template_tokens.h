// The added tokens that a chat template's own text gives.
#pragma once

#include <cstdint>

#include "quant/text/added_tokens.h"

namespace cria {

// Calls visit(token) for each added token that encoding text finds, in order. text stands alone and
// is trusted; with has_prefix each part between tokens without kTokenNormalized gets the space in
// front that a tokenizer may put there.
template <typename Visit>
void visit_added(const AddedTokens& added, std::span<const char> text, bool has_prefix,
                 const Visit& visit) {
  const size_t prefix = has_prefix ? 1 : 0;
  const PrefixedText whole = {text.data(), text.size(), false};
  for (size_t place = 0; place < whole.n_bytes;) {
    const AddedMatch match = added.find({whole, AddedStage::kRaw, 0, {}, false}, place);
    const PrefixedText part = {text.data() + place, match.begin - place + prefix, has_prefix};
    for (size_t at = 0; at < part.n_bytes && match.begin > place;) {
      const AddedMatch inner = added.find({part, AddedStage::kNormalized, place, {}, false}, at);
      if (inner.token != format::kNone) visit(inner.token);
      at = inner.end;
    }
    if (match.token != format::kNone) visit(match.token);
    place = match.end;
  }
}

// Whether a token of the template controls the conversation: not one of white space alone, which is
// text like any other.
[[nodiscard]] bool is_control_text(const Tokenizer& tokenizer, uint32_t token);

// Calls visit(token) for each added token in the template's strings that must be a control token:
// with and without a space in front, in all strings in which such tokens are recognised.
template <typename Visit>
void visit_template_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat,
                           const Visit& visit) {
  const AddedTokens added(tokenizer);
  const auto visit_string = [&](std::span<const char> text) {
    for (const bool has_prefix : {false, true}) {
      visit_added(added, text, has_prefix, [&](uint32_t token) {
        if (is_control_text(tokenizer, token)) visit(token);
      });
    }
  };
  for (size_t i = 0; i < chat.header.n_rules; ++i) {
    visit_string(chat_joint(chat, chat_rule(chat, i)));
  }
  for (size_t i = 1; i < format::kChatTexts; ++i) {
    visit_string(chat_string(chat, static_cast<format::ChatString>(i)));
  }
}

// The control token with which the template ends an answer that a question follows: of the first
// rule for them; kNone where it has none.
[[nodiscard]] uint32_t template_end_token(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace cria
