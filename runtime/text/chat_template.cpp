// A conversation as the model was trained to see it. The text between two special tokens of the
// template is put together in the workspace, so that merges cross the borders of messages as they
// do when the template is applied to text; the ranges of the contents are remembered as not
// trusted.
#include <algorithm>
#include <cstring>

#include "runtime/text/text_encoder.h"

namespace cria {
namespace {

using format::ChatString;

constexpr size_t kWordBytes = alignof(uint32_t);

bool has_flag(const ChatTemplate& chat, uint32_t flag) { return (chat.header.flags & flag) != 0; }

// Where the text of a conversation can be cut, so that what stands before and behind is encoded
// apart: behind a special token of the template, and between two messages where whatever may begin
// the next one begins with such a token.
class ChatCuts {
 public:
  ChatCuts(const Tokenizer& tokenizer, const AddedTokens& added, const ChatTemplate& chat)
      : tokenizer_(tokenizer), added_(added), chat_(chat), begins_apart_(all_begin_apart()) {}

  // How many bytes of a piece stand before its last cut; 0: it has none.
  [[nodiscard]] size_t last(const ChatPiece& piece) const {
    if (piece.is_content) return 0;
    return piece.is_end && begins_apart_ ? piece.text.size() : behind_token(piece.text);
  }
  // What of a message's last string waits for the next message.
  [[nodiscard]] std::span<const char> left_of(std::span<const char> text) const {
    return text.subspan(last({text, false, true}));
  }
  [[nodiscard]] bool begins_apart() const { return begins_apart_; }

 private:
  [[nodiscard]] AddedMatch find(std::span<const char> text, size_t place) const {
    return added_.find({{text.data(), text.size(), false}, AddedStage::kRaw, 0, {}, false}, place);
  }
  // One that takes white space beside it would take that of other text.
  [[nodiscard]] bool is_special_without(uint8_t strip, uint32_t token) const {
    const uint8_t flags = tokenizer_.token_flags[token];
    return (flags & format::kTokenSpecial) != 0 && (flags & strip) == 0;
  }
  [[nodiscard]] size_t behind_token(std::span<const char> text) const {
    size_t cut = 0;
    for (size_t place = 0; place < text.size();) {
      const AddedMatch match = find(text, place);
      if (match.token == format::kNone) break;
      if (is_special_without(format::kTokenStripRight, match.token)) cut = match.end;
      place = match.end;
    }
    return cut;
  }
  [[nodiscard]] bool begins_with_token(std::span<const char> text) const {
    if (text.empty()) return false;
    const AddedMatch match = find(text, 0);
    return match.token != format::kNone && match.begin == 0 &&
           is_special_without(format::kTokenStripLeft, match.token);
  }
  [[nodiscard]] bool all_begin_apart() const {
    const bool is_inside = has_flag(chat_, format::kChatSystemInUser | format::kChatSystemInLast);
    const auto is_apart = [this](ChatString which) {
      return begins_with_token(chat_string(chat_, which));
    };
    const auto is_apart_if_any = [&](ChatString which) {
      return chat_string(chat_, which).empty() || is_apart(which);
    };
    return is_apart(ChatString::kUserPrefix) && is_apart(ChatString::kAssistantPrefix) &&
           (has_flag(chat_, format::kChatNotLastAssistant) ||
            is_apart(ChatString::kLastAssistantPrefix)) &&
           (has_flag(chat_, format::kChatNoSystem | format::kChatOnlyFirstSystem) ||
            is_apart(ChatString::kLaterSystemPrefix)) &&
           (is_inside || has_flag(chat_, format::kChatNoSystem) ||
            is_apart(ChatString::kSystemPrefix)) &&
           is_apart_if_any(ChatString::kTurn) && is_apart_if_any(ChatString::kTurnAfterAssistant) &&
           is_apart_if_any(ChatString::kEnd);
  }

  const Tokenizer& tokenizer_;
  const AddedTokens& added_;
  const ChatTemplate& chat_;
  const bool begins_apart_;
};

// A conversation being encoded. Text gathers in the workspace and is encoded up to each special
// token of the template.
class ChatEncoder {
 public:
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat,
              const Conversation& conversation, std::span<uint8_t> workspace,
              std::span<uint32_t> tokens)
      : tokenizer_(tokenizer),
        added_(tokenizer),
        cuts_(tokenizer, added_, chat),
        chat_(chat),
        conversation_(conversation),
        workspace_(workspace),
        output_{tokens, 0, false} {}

  Status run(size_t first, size_t* n_tokens) {
    const size_t from = last_cut_before(first);
    CRIA_TRY(take_ranges(conversation_.messages.size() - from));
    // What was encoded already is gone through again for the text that was left.
    output_.discards = first > 0;
    if (from == 0) CRIA_TRY(add(beginning_pieces(chat_, conversation_)));
    for (size_t i = from; i < conversation_.messages.size(); ++i) {
      if (i == first) output_.discards = false;
      CRIA_TRY(add(message_pieces(chat_, conversation_, i)));
    }
    output_.discards = false;
    CRIA_TRY(add(ending_pieces(chat_, conversation_)));
    if (conversation_.end != ChatEnd::kGoesOn) CRIA_TRY(encode_text_so_far());
    *n_tokens = output_.n_tokens;
    return Status::kOk;
  }

 private:
  // The nearest message before first in which text is encoded; 0 where there is none.
  [[nodiscard]] size_t last_cut_before(size_t first) const {
    for (size_t i = first; i-- > 0;) {
      const ChatPieces pieces = message_pieces(chat_, conversation_, i);
      for (size_t k = 0; k < pieces.n_pieces; ++k) {
        if (cuts_.last(pieces.pieces[k]) > 0) return i;
      }
    }
    return 0;
  }

  // A message has at most its own content, a system text and dates.
  Status take_ranges(size_t n_messages) {
    constexpr size_t kPerMessage = 2;
    constexpr size_t kMore = 8;
    n_ranges_ = n_messages * kPerMessage + kMore;
    const size_t n_bytes = n_ranges_ * sizeof(TextRange);
    if (n_bytes > workspace_.size()) return Status::kTextTooLong;
    ranges_ = reinterpret_cast<TextRange*>(workspace_.data());
    workspace_ = workspace_.subspan(n_bytes);
    return Status::kOk;
  }

  Status add(const ChatPieces& pieces) {
    for (size_t i = 0; i < pieces.n_pieces; ++i) {
      Status status = Status::kOk;
      visit_dated(chat_, conversation_, pieces.pieces[i], [&](const ChatPiece& part) {
        if (status == Status::kOk) status = add(part);
      });
      CRIA_TRY(status);
    }
    return Status::kOk;
  }

  Status add(const ChatPiece& piece) {
    const size_t begin = n_bytes_;
    if (piece.is_content) {
      CRIA_TRY(append(piece.text));
      if (n_contents_ == n_ranges_) return Status::kTextTooLong;
      ranges_[n_contents_++] = {begin, n_bytes_};
      return Status::kOk;
    }
    const size_t cut = cuts_.last(piece);
    if (cut == 0) return append(piece.text);
    CRIA_TRY(append(piece.text.first(cut)));
    CRIA_TRY(encode_text_so_far());
    return append(piece.text.subspan(cut));
  }

  Status append(std::span<const char> text) {
    if (text.size() > workspace_.size() - n_bytes_) return Status::kTextTooLong;
    if (!text.empty()) std::memcpy(workspace_.data() + n_bytes_, text.data(), text.size());
    n_bytes_ += text.size();
    return Status::kOk;
  }

  Status encode_text_so_far() {
    if (output_.discards) {
      start_ = TextStart::kAddedToken;
      n_bytes_ = 0;
      n_contents_ = 0;
      return Status::kOk;
    }
    const size_t aligned = (n_bytes_ + kWordBytes - 1) / kWordBytes * kWordBytes;
    const TextToEncode input = {{reinterpret_cast<const char*>(workspace_.data()), n_bytes_},
                                {ranges_, n_contents_},
                                false,
                                start_};
    bool ends_with_added = start_ == TextStart::kAddedToken;
    CRIA_TRY(encode_text(tokenizer_, added_, input,
                         workspace_.subspan(std::min(aligned, workspace_.size())), &output_,
                         &ends_with_added));
    if (n_bytes_ > 0) start_ = ends_with_added ? TextStart::kAddedToken : TextStart::kText;
    n_bytes_ = 0;
    n_contents_ = 0;
    return Status::kOk;
  }

  const Tokenizer& tokenizer_;
  const AddedTokens added_;
  const ChatCuts cuts_;
  const ChatTemplate& chat_;
  const Conversation& conversation_;
  std::span<uint8_t> workspace_;
  TokenOutput output_;
  TextStart start_ = TextStart::kNothing;
  TextRange* ranges_ = nullptr;
  size_t n_ranges_ = 0;
  size_t n_contents_ = 0;
  size_t n_bytes_ = 0;
};

bool is_same(const ChatTemplate& chat, ChatString a, ChatString b) {
  const std::span<const char> left = chat_string(chat, a);
  const std::span<const char> right = chat_string(chat, b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

bool is_blank(std::span<const char> text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; });
}

}  // namespace

Status chat_encode(const Tokenizer& tokenizer, const ChatTemplate& chat,
                   const Conversation& conversation, size_t first, std::span<uint8_t> workspace,
                   std::span<uint32_t> tokens, size_t* n_tokens) {
  if (first > conversation.messages.size()) return Status::kInvalidArgument;
  if (chat_refusal(chat, conversation) != nullptr) return Status::kRefusedByTemplate;
  return ChatEncoder(tokenizer, chat, conversation, workspace, tokens).run(first, n_tokens);
}

bool chat_keeps_answers(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  // A model writes for itself the space that its template writes before answers.
  const bool same_beginning = is_same(chat, ChatString::kTurn, ChatString::kAssistantPrefix) ||
                              (chat_string(chat, ChatString::kTurn).empty() &&
                               is_blank(chat_string(chat, ChatString::kAssistantPrefix)));
  const AddedTokens added(tokenizer);
  const ChatCuts cuts(tokenizer, added, chat);
  const std::span<const char> suffix = chat_string(chat, ChatString::kAssistantSuffix);
  return same_beginning && !has_flag(chat, format::kChatSystemInLast) &&
         cuts.last({suffix, false, true}) > 0;
}

bool chat_drops_exchanges(const Tokenizer& tokenizer, const ChatTemplate& chat, bool has_system) {
  if (has_flag(chat, format::kChatSystemInUser) &&
      (has_system || !chat_string(chat, ChatString::kNoSystem).empty())) {
    return false;
  }
  const AddedTokens added(tokenizer);
  const ChatCuts cuts(tokenizer, added, chat);
  if (cuts.begins_apart()) return true;
  // What stands before the second exchange then stands before the first.
  const std::span<const char> begin = chat_string(chat, ChatString::kBegin);
  const std::span<const char> none = chat_string(chat, ChatString::kNoSystem);
  const std::span<const char> suffix = chat_string(chat, ChatString::kSystemSuffix);
  const std::span<const char> before = has_system ? suffix : none.empty() ? begin : none;
  if (cuts.last({before, false, true}) == 0) return false;
  const std::span<const char> left = cuts.left_of(before);
  const std::span<const char> after = cuts.left_of(chat_string(chat, ChatString::kAssistantSuffix));
  return std::equal(left.begin(), left.end(), after.begin(), after.end());
}

}  // namespace cria
