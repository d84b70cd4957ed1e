// A hostile chat template, imported as cria-convert does, and a conversation by what came of it
// (tests/fuzz/folder_input.h). Parts: template, bos, eos; system, user, assistant (messages in this
// order, any number). A part named stored is the section itself instead of a template.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "converter/chat_template_import.h"
#include "converter/tokenizer_tables.h"
#include "quant/memory_plan.h"
#include "runtime/text/tokenizer.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/noted_models.h"
#include "tests/fuzz/time_limit.h"
#include "tests/fuzz/tokenizer_promises.h"

namespace cria::fuzz {
namespace {

using Tokens = std::vector<uint32_t>;

constexpr const char* kControls[] = {"<|begin_of_text|>",
                                     "<|eot_id|>",
                                     "<|start_header_id|>",
                                     "<|end_header_id|>",
                                     "<|im_start|>",
                                     "<|im_end|>",
                                     "<|start_of_role|>",
                                     "<|end_of_role|>",
                                     "<|end_of_text|>",
                                     "<s>",
                                     "</s>",
                                     "[INST]",
                                     "[/INST]",
                                     "<<SYS>>",
                                     "<|user|>"};

// Every byte a token, and the control strings of all templates that are known.
std::vector<uint8_t> tokenizer_with(const std::string& bos, const std::string& eos) {
  converter::TokenizerModel model;
  for (uint32_t byte = 0; byte < model.byte_tokens.size(); ++byte) {
    model.at(byte).text = std::string(1, static_cast<char>(byte));
    model.byte_tokens[byte] = byte;
  }
  std::vector<std::string> texts(std::begin(kControls), std::end(kControls));
  for (const std::string& text : {bos, eos}) {
    const bool known = std::find(texts.begin(), texts.end(), text) != texts.end();
    // Longer ones the format refuses, two that begin alike and differ in length sooner.
    const bool fits = text.size() > 1 && text.size() <= format::kMaxAddedLengths / 4;
    if (!known && fits) texts.push_back(text);
  }
  for (const std::string& text : texts) {
    converter::AddedToken added;
    added.id = static_cast<uint32_t>(model.tokens.size());
    added.text = text;
    added.special = true;
    converter::add_token(added, &model);
  }
  return converter::build_tokenizer_section(model);
}

class Conversation {
 public:
  // Room for the longest prompt of the messages is made here, not in every `encode`: megabytes that
  // the sanitizers touch, and no part of what a time limit is about.
  Conversation(const Tokenizer& tokenizer, const ChatTemplate& chat,
               const std::vector<ChatMessage>& messages)
      : tokenizer_(tokenizer),
        chat_(chat),
        workspace_(workspace_bytes(most_tokens(messages))),
        tokens_(most_tokens(messages)) {}
  [[nodiscard]] bool takes(const std::vector<ChatMessage>& messages, ChatEnd end) const {
    return chat_refusal(chat_, {messages, end, {}}) == nullptr;
  }
  [[nodiscard]] Tokens encode(const std::vector<ChatMessage>& messages, size_t first, ChatEnd end) {
    // At the end of what there is, where a sanitizer sees a write behind it.
    const std::span<uint32_t> tokens = std::span(tokens_).last(most_tokens(messages));
    const std::span<uint8_t> workspace = std::span(workspace_).last(workspace_bytes(tokens.size()));
    size_t n = 0;
    expect(chat_encode(tokenizer_, chat_, {messages, end, {}}, first, workspace, tokens, &n) ==
                   Status::kOk &&
               n <= tokens.size(),
           "every conversation can be encoded where there is room");
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  [[nodiscard]] Tokens controls_of(const Tokens& tokens) const {
    Tokens controls;
    std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(controls), [&](uint32_t token) {
      return (tokenizer_.token_flags[token] & format::kTokenSpecial) != 0;
    });
    return controls;
  }

 private:
  static size_t most_tokens(const std::vector<ChatMessage>& messages) {
    constexpr size_t kStringsOfAMessage = 4;
    size_t n_bytes = (messages.size() + 2) * kStringsOfAMessage * format::kMaxChatStringBytes;
    for (const ChatMessage& message : messages) n_bytes += message.content.size();
    return 3 * n_bytes;
  }
  // Whole blocks, so that the last so many of them are aligned as all of them are.
  static size_t workspace_bytes(size_t n_tokens) {
    constexpr size_t kBlockBytes = alignof(std::max_align_t);
    const size_t n_bytes = (n_tokens + 1) * (kEncodeBytesPerSymbol + 1);
    return (n_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  std::vector<uint8_t> workspace_;
  Tokens tokens_;
};

void converse(const std::vector<ChatMessage>& messages, Conversation* conversation) {
  const Tokens all = conversation->encode(messages, 0, ChatEnd::kOpened);
  const std::string_view harmless = "x";
  std::vector<ChatMessage> others = messages;
  for (ChatMessage& message : others) {
    if (!message.content.empty()) message.content = harmless;
  }
  if (conversation->takes(others, ChatEnd::kOpened)) {
    expect(conversation->controls_of(all) ==
               conversation->controls_of(conversation->encode(others, 0, ChatEnd::kOpened)),
           "what a message says changes no control token of a conversation");
  }
  // Said one after the other, the messages give the tokens that they give at once.
  Tokens pieces;
  for (size_t n = 1; n <= messages.size(); ++n) {
    const std::vector<ChatMessage> so_far(messages.begin(),
                                          messages.begin() + static_cast<std::ptrdiff_t>(n));
    const ChatEnd end = n == messages.size() ? ChatEnd::kOpened : ChatEnd::kGoesOn;
    if (!conversation->takes(so_far, end)) return;
    const Tokens piece = conversation->encode(so_far, n - 1, end);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  expect(messages.empty() || pieces == all,
         "a conversation that is continued has the tokens of a whole one");
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr size_t kMostMessages = 6;
  const std::vector<InputPart> parts = split_parts({reinterpret_cast<const char*>(data), size});
  const std::string bos(part_named(parts, "bos"));
  const std::string eos(part_named(parts, "eos"));
  std::vector<uint8_t> chat_section;
  const std::string_view stored = part_named(parts, "stored");
  if (!stored.empty()) {
    chat_section.assign(stored.begin(), stored.end());
  } else {
    // What no time limit holds for is done in a process with one.
    chat_section = converter::import_chat_template({std::string(part_named(parts, "template")),
                                                    {{"bos_token", bos}, {"eos_token", eos}},
                                                    {std::begin(kControls), std::end(kControls)}})
                       .section;
  }
  if (chat_section.empty()) return 0;
  const std::vector<uint8_t> section = tokenizer_with(bos, eos);
  Tokenizer tokenizer = {};
  expect(tokenizer_open(section, format::kMaxVocab, &tokenizer) == Status::kOk,
         "the runtime takes the target's own tokenizer");
  ChatTemplate chat = {};
  const bool opens = chat_template_open(chat_section, &chat) == Status::kOk;
  expect(opens || !stored.empty(),
         "the runtime takes every chat template that the converter makes");
  if (!opens) return 0;
  note_sections(section, chat_section);
  std::vector<ChatMessage> messages;
  for (const InputPart& part : parts) {
    constexpr const char* kRoles[] = {"system", "user", "assistant"};
    const auto* const role = std::find(std::begin(kRoles), std::end(kRoles), part.name);
    if (role == std::end(kRoles) || messages.size() == kMostMessages) continue;
    messages.push_back({static_cast<ChatRole>(role - std::begin(kRoles)), part.bytes});
  }
  if (chat_refusal(chat, {messages, ChatEnd::kOpened, {}}) != nullptr) return 0;
  Conversation conversation(tokenizer, chat, messages);
  const TimeLimit limit(size + section.size() + chat_section.size());
  converse(messages, &conversation);
  return 0;
}

}  // namespace cria::fuzz
