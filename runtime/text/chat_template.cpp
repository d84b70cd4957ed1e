// A conversation as the model was trained to see it. The text between two special tokens of the
// template is put together in the workspace, so that merges cross the borders of messages as they
// do when the template is applied to text; the ranges of the contents are remembered as not
// trusted.
#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/text/text_encoder.h"

namespace cria {
namespace {

using format::bit_of;
using format::ChatRule;
using format::ChatUnit;
using Text = std::span<const char>;

constexpr size_t kWordBytes = alignof(uint32_t);

bool is_equal(Text a, Text b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// The first rule for a joint, whatever the places.
std::optional<Text> any_joint(const ChatTemplate& chat, ChatUnit left, ChatUnit right) {
  for (size_t i = 0; i < chat.header.n_rules; ++i) {
    const ChatRule rule = chat_rule(chat, i);
    if ((rule.left & bit_of(left)) != 0 && (rule.right & bit_of(right)) != 0 &&
        rule.leaves_out == 0) {
      return chat_joint(chat, rule);
    }
  }
  return std::nullopt;
}

// Where the text of a conversation can be cut, so that what stands before and after is encoded
// apart: after a special token of the template, and before one.
class ChatCuts {
 public:
  ChatCuts(const Tokenizer& tokenizer, const AddedTokens& added, const ChatTemplate& chat)
      : tokenizer_(tokenizer), added_(added), chat_(chat) {}

  // How many bytes of a joint stand before its last special token's end; 0: it has none.
  [[nodiscard]] size_t behind_token(Text text) const {
    size_t cut = 0;
    visit_tokens(text, [&](const AddedMatch& match) {
      if (is_special_without(format::kTokenStripRight, match.token)) cut = match.end;
    });
    return cut;
  }

  // What is common to all joints that may stand after a unit while a conversation goes on, up to
  // where all of them can be cut.
  struct Common {
    size_t n_bytes;  // 0: nothing
    ChatRule rule;   // one of them
  };
  [[nodiscard]] Common behind(const Conversation& c, ChatUnit left) const {
    Common common = {0, {}};
    bool is_first = true;
    bool is_same = true;
    visit_followers(c, left, [&](const ChatRule& rule) {
      const Text text = chat_joint(chat_, rule);
      if (is_first) {
        common = {text.size(), rule};
        is_first = false;
      }
      const Text other = chat_joint(chat_, common.rule).first(common.n_bytes);
      common.n_bytes = static_cast<size_t>(
          std::mismatch(other.begin(), other.end(), text.begin(), text.end()).first -
          other.begin());
      is_same &= (rule.trims & 0xf) == (common.rule.trims & 0xf);
    });
    if (!is_same) return {0, {}};
    const size_t n = shared_cut(c, left, common.n_bytes);
    const std::optional<size_t> aligned = before_question(c, left, n);
    common.n_bytes = aligned ? *aligned : n;
    return common;
  }

 private:
  template <typename Visit>
  void visit_tokens(Text text, const Visit& visit) const {
    for (size_t place = 0; place < text.size();) {
      const AddedMatch match =
          added_.find({{text.data(), text.size(), false}, AddedStage::kRaw, 0, {}, false}, place);
      if (match.token == format::kNone) break;
      visit(match);
      place = match.end;
    }
  }
  // One that takes white space beside it would take that of other text.
  [[nodiscard]] bool is_special_without(uint8_t strip, uint32_t token) const {
    const uint8_t flags = tokenizer_.token_flags[token];
    return (flags & format::kTokenSpecial) != 0 && (flags & strip) == 0;
  }
  // The last place in a joint's first bytes where it can be cut.
  [[nodiscard]] size_t last_cut(const ChatRule& rule, size_t most) const {
    const Text text = chat_joint(chat_, rule);
    // After the end nothing comes that could be encoded with it.
    if (rule.right == bit_of(ChatUnit::kEnd) && text.size() <= most) return text.size();
    size_t cut = 0;
    visit_tokens(text, [&](const AddedMatch& match) {
      if (match.begin <= most && is_special_without(format::kTokenStripLeft, match.token)) {
        cut = match.begin;
      }
      if (match.end <= most && is_special_without(format::kTokenStripRight, match.token)) {
        cut = match.end;
      }
    });
    return cut;
  }
  template <typename Visit>
  void visit_followers(const Conversation& c, ChatUnit left, const Visit& visit) const {
    for (size_t i = 0; i < chat_.header.n_rules; ++i) {
      const ChatRule rule = chat_rule(chat_, i);
      if (may_follow(c, rule, left)) visit(rule);
    }
  }
  // The last place, at most n, where all joints after a unit can be cut.
  [[nodiscard]] size_t shared_cut(const Conversation& c, ChatUnit left, size_t n) const {
    for (size_t before = n + 1; n != before && n > 0;) {
      before = n;
      visit_followers(c, left, [&](const ChatRule& rule) { n = last_cut(rule, n); });
    }
    return n;
  }
  // What stands before the first question is cut as what stands before a later one is, where it can
  // be: exchanges then leave nothing behind.
  [[nodiscard]] std::optional<size_t> before_question(const Conversation& c, ChatUnit left,
                                                      size_t most) const {
    if (left != ChatUnit::kStart && left != ChatUnit::kSystem) return std::nullopt;
    const auto first = any_joint(chat_, left, ChatUnit::kUser);
    const auto later = any_joint(chat_, ChatUnit::kText, ChatUnit::kUser);
    if (!first || !later) return std::nullopt;
    const size_t n = later->size() - behind(c, ChatUnit::kText).n_bytes;
    if (n > first->size() || !is_equal(first->last(n), later->last(n))) return std::nullopt;
    const size_t cut = first->size() - n;
    return cut <= most && shared_cut(c, left, cut) == cut ? std::optional(cut) : std::nullopt;
  }

  const Tokenizer& tokenizer_;
  const AddedTokens& added_;
  const ChatTemplate& chat_;
};

// A conversation being encoded. Text gathers in the workspace and is encoded up to each special
// token of the template. Where contents lie is kept at the workspace's end.
class ChatEncoder : public ChatSink {
 public:
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat,
              const Conversation& conversation, std::span<uint8_t> workspace,
              std::span<uint32_t> tokens)
      : tokenizer_(tokenizer),
        added_(tokenizer),
        cuts_(tokenizer, added_, chat),
        chat_(chat),
        conversation_(conversation),
        text_(reinterpret_cast<char*>(workspace.data())),
        n_room_(workspace.size() / alignof(TextRange) * alignof(TextRange)),
        ranges_(reinterpret_cast<TextRange*>(workspace.data() + n_room_)),
        output_{tokens, 0, false} {}

  Status run(size_t first, size_t* n_tokens) {
    const size_t from = start_before(first);
    ChatWalk walk(chat_, conversation_, from);
    // What was encoded already is gone through again for the text that was left.
    output_.discards = first > 0;
    bool is_unit_known = from == 0;
    uint8_t trims = 0;
    for (ChatStep step; status_ == Status::kOk && walk.next(&step);) {
      if (step.rule.leaves_out != 0) continue;
      if (is_unit_known) put_unit(chat_, conversation_, step.left, trims, step.rule.trims, this);
      is_unit_known = true;
      trims = step.rule.trims;
      Text joint = chat_joint(chat_, step.rule);
      if (output_.discards && step.right.message >= first) {
        const size_t n = common_behind(step.left.unit, first).n_bytes;
        if (n > 0) put_cut(joint.first(n));
        output_.discards = false;
        joint = joint.subspan(n);
      }
      put_joint(chat_, conversation_, joint, this);
    }
    if (conversation_.end != ChatEnd::kGoesOn) {
      encode_text_so_far();
    } else if (!output_.discards) {
      const auto common = common_behind(walk.left().unit, conversation_.messages.size());
      if (common.n_bytes > 0) {
        put_unit(chat_, conversation_, walk.left(), trims, common.rule.trims, this);
        put_cut(chat_joint(chat_, common.rule).first(common.n_bytes));
      }
    }
    *n_tokens = output_.n_tokens;
    return status_;
  }

  void put(Text text, bool is_content) override {
    if (is_content) return append(text, true);
    const size_t cut = cuts_.behind_token(text);
    append(text.first(cut), false);
    if (cut > 0) encode_text_so_far();
    append(text.subspan(cut), false);
  }

 private:
  // What every continuation of the first messages has after their last unit.
  [[nodiscard]] ChatCuts::Common common_behind(ChatUnit left, size_t n_messages) const {
    Conversation known = conversation_;
    known.messages = known.messages.first(n_messages);
    known.end = ChatEnd::kGoesOn;
    return cuts_.behind(known, left);
  }

  // The nearest message, first at most, before which text is encoded; 0 where there is none.
  [[nodiscard]] size_t start_before(size_t first) const {
    for (size_t i = first; i > 0; --i) {
      ChatStep step;
      if (!ChatWalk::begins_at(conversation_, i)) continue;
      ChatWalk walk(chat_, conversation_, i);
      if (i == first) {
        if (common_behind(walk.left().unit, first).n_bytes > 0) return i;
      } else if (walk.next(&step) && step.rule.leaves_out == 0 &&
                 cuts_.behind_token(chat_joint(chat_, step.rule)) > 0) {
        return i;
      }
    }
    return 0;
  }

  // Text that is encoded for itself, with what stands before it.
  void put_cut(Text text) {
    put_joint(chat_, conversation_, text, this);
    encode_text_so_far();
  }

  void append(Text text, bool is_content) {
    if (text.empty() || status_ != Status::kOk) return;
    if (is_content && (n_contents_ == 0 || ranges_[-n_contents_].end != n_bytes_)) {
      if (room() < sizeof(TextRange)) return fail(Status::kTextTooLong);
      ++n_contents_;
      ranges_[-n_contents_] = {n_bytes_, n_bytes_};
    }
    if (text.size() > room()) return fail(Status::kTextTooLong);
    std::memcpy(text_ + n_bytes_, text.data(), text.size());
    n_bytes_ += text.size();
    if (is_content) ranges_[-n_contents_].end = n_bytes_;
  }

  [[nodiscard]] size_t room() const {
    const size_t n_taken = n_bytes_ + static_cast<size_t>(n_contents_) * sizeof(TextRange);
    return n_taken < n_room_ ? n_room_ - n_taken : 0;
  }

  void fail(Status status) {
    if (status_ == Status::kOk) status_ = status;
  }

  void encode_text_so_far() {
    if (status_ != Status::kOk) return;
    if (output_.discards) {
      start_ = TextStart::kAddedToken;
    } else {
      const size_t aligned =
          std::min((n_bytes_ + kWordBytes - 1) / kWordBytes * kWordBytes, n_bytes_ + room());
      const std::span<uint8_t> rest(reinterpret_cast<uint8_t*>(text_) + aligned,
                                    n_bytes_ + room() - aligned);
      TextRange* const first = ranges_ - n_contents_;
      std::reverse(first, ranges_);
      const TextToEncode input = {
          {text_, n_bytes_}, {first, static_cast<size_t>(n_contents_)}, false, start_};
      bool ends_with_added = start_ == TextStart::kAddedToken;
      fail(encode_text(tokenizer_, added_, input, rest, &output_, &ends_with_added));
      if (n_bytes_ > 0) start_ = ends_with_added ? TextStart::kAddedToken : TextStart::kText;
    }
    n_bytes_ = 0;
    n_contents_ = 0;
  }

  const Tokenizer& tokenizer_;
  const AddedTokens added_;
  const ChatCuts cuts_;
  const ChatTemplate& chat_;
  const Conversation& conversation_;
  char* const text_;
  const size_t n_room_;
  TextRange* const ranges_;  // they lie before this, the first one last
  TokenOutput output_;
  TextStart start_ = TextStart::kNothing;
  ptrdiff_t n_contents_ = 0;
  size_t n_bytes_ = 0;
  Status status_ = Status::kOk;
};

bool is_blank(Text text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; });
}

// Goes through two conversations side by side, from the first message of each on: whether they have
// the same units and joints as long as the shorter one goes. Of the first joint only what is after
// its first bytes counts. A model writes for itself the space that its template writes before
// answers, where nothing opens a turn.
struct Side {
  Conversation conversation;
  size_t from;     // the message
  size_t n_bytes;  // of the first joint
};
bool go_together(const ChatTemplate& chat, const Side& shorter, const Side& longer) {
  ChatWalk a(chat, shorter.conversation, shorter.from);
  ChatWalk b(chat, longer.conversation, longer.from);
  ChatStep one;
  ChatStep other;
  for (bool is_first = true; a.next(&one); is_first = false) {
    if (!b.next(&other)) return false;
    const Text left = chat_joint(chat, one.rule).subspan(is_first ? shorter.n_bytes : 0);
    const Text right = chat_joint(chat, other.rule).subspan(is_first ? longer.n_bytes : 0);
    const bool is_open = one.right.unit == ChatUnit::kOpen && other.right.unit == ChatUnit::kText;
    if (one.right.unit != other.right.unit && !is_open) return false;
    if (!is_equal(left, right) && !(is_open && left.empty() && is_blank(right))) return false;
    // Of the text to the left, and of that to the right. What is before the first joint stays.
    const uint32_t compared = (is_first ? 0 : 0xfU) | (is_open ? 0 : 0xf0U);
    if (((one.rule.trims ^ other.rule.trims) & compared) != 0) return false;
  }
  return true;
}

// System, user, assistant, user, ...
constexpr char kMarkText[] = {'x'};
constexpr ChatMessage kTalk[] = {
    {ChatRole::kSystem, kMarkText, nullptr},    {ChatRole::kUser, kMarkText, nullptr},
    {ChatRole::kAssistant, kMarkText, nullptr}, {ChatRole::kUser, kMarkText, nullptr},
    {ChatRole::kAssistant, kMarkText, nullptr}, {ChatRole::kUser, kMarkText, nullptr}};

Conversation talk(ChatThinking thinking, bool has_system, size_t n_questions) {
  const std::span<const ChatMessage> all(kTalk, 2 * n_questions);
  return {has_system ? all : all.subspan(1), ChatEnd::kOpened, {}, {}, thinking};
}

}  // namespace

Status chat_encode(const Tokenizer& tokenizer, const ChatTemplate& chat,
                   const Conversation& conversation, size_t first, std::span<uint8_t> workspace,
                   std::span<uint32_t> tokens, size_t* n_tokens) {
  if (first > conversation.messages.size()) return Status::kInvalidArgument;
  if (chat_refusal(chat, conversation) != nullptr) return Status::kRefusedByTemplate;
  return ChatEncoder(tokenizer, chat, conversation, workspace, tokens).run(first, n_tokens);
}

bool chat_keeps_answers(const Tokenizer& tokenizer, const ChatTemplate& chat,
                        ChatThinking thinking) {
  for (const bool has_system : {false, true}) {
    for (const size_t n_questions : {size_t{1}, size_t{2}}) {
      const Conversation now = talk(thinking, has_system, n_questions);
      const Conversation later = talk(thinking, has_system, n_questions + 1);
      if (has_system && chat_refusal(chat, now) != nullptr) continue;
      if (!go_together(chat, {now, 0, 0}, {later, 0, 0})) return false;
    }
  }
  const AddedTokens added(tokenizer);
  return ChatCuts(tokenizer, added, chat)
             .behind(talk(thinking, false, 1), ChatUnit::kText)
             .n_bytes > 0;
}

bool chat_drops_exchanges(const Tokenizer& tokenizer, const ChatTemplate& chat,
                          ChatThinking thinking, bool has_system) {
  const AddedTokens added(tokenizer);
  const ChatCuts cuts(tokenizer, added, chat);
  const size_t first = has_system ? 1 : 0;
  const Conversation shorter = talk(thinking, has_system, 2);
  const Conversation longer = talk(thinking, has_system, 3);
  if (chat_refusal(chat, longer) != nullptr) return false;
  Conversation none = longer;
  none.messages = none.messages.first(first);
  none.end = ChatEnd::kGoesOn;
  const ChatUnit before = has_system ? ChatUnit::kSystem : ChatUnit::kStart;
  const size_t n_before = cuts.behind(none, before).n_bytes;
  const size_t n_after = cuts.behind(longer, ChatUnit::kText).n_bytes;
  return n_after > 0 && go_together(chat, {shorter, first, n_before}, {longer, first + 2, n_after});
}

}  // namespace cria
