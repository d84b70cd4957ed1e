// A hostile chat template, imported as cria-convert does, and a conversation by what came of it
// (tests/fuzz/folder_input.h). Parts: template, bos, eos; system, user, assistant, tool (messages
// in this order, any number); thinking and call (its arguments) of the message before them;
// function (a tool). A part named stored is the section itself instead of a template.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "converter/chat_template/form_import.h"
#include "converter/tokenizer_tables.h"
#include "quant/model/memory_plan.h"
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

// Messages whose parts stay where they are.
struct Talk {
  std::vector<ChatMessage> messages;
  std::vector<std::vector<ChatCall>> calls;
  std::vector<ChatParts> parts;
  std::vector<std::span<const char>> tools;

  [[nodiscard]] Conversation first(size_t n, ChatEnd end) const {
    return {std::span(messages).first(n), end, {}, tools};
  }
};

class CountingSink : public ChatSink {
 public:
  void put(std::span<const char> text, bool) override { n_bytes += text.size(); }
  size_t n_bytes = 0;
};

class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, const ChatTemplate& chat)
      : tokenizer_(tokenizer), chat_(chat) {}
  [[nodiscard]] bool takes(const Conversation& conversation) const {
    return chat_refusal(chat_, conversation) == nullptr;
  }
  [[nodiscard]] Tokens encode(const Conversation& conversation, size_t first) const {
    Tokens tokens(most_tokens(conversation));
    std::vector<uint8_t> workspace((tokens.size() + 1) * (kEncodeBytesPerSymbol + 1));
    size_t n = 0;
    expect(
        chat_encode(tokenizer_, chat_, conversation, first, workspace, tokens, &n) == Status::kOk &&
            n <= tokens.size(),
        "every conversation can be encoded where there is room");
    tokens.resize(n);
    return tokens;
  }
  [[nodiscard]] Tokens controls_of(const Tokens& tokens) const {
    Tokens controls;
    std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(controls), [&](uint32_t token) {
      return (tokenizer_.token_flags[token] & format::kTokenSpecial) != 0;
    });
    return controls;
  }

 private:
  [[nodiscard]] size_t most_tokens(const Conversation& conversation) const {
    CountingSink text;
    put_chat_text(chat_, conversation, &text);
    // What all continuations begin with is written too.
    CountingSink tools;
    constexpr char kSlot[] = {'\0', format::kChatSlotTools};
    put_joint(chat_, conversation, kSlot, &tools);
    const size_t n_joint = chat_.header.string_bytes[0] + format::kMaxChatSlots * tools.n_bytes;
    return 3 * (text.n_bytes + n_joint + 1);
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
};

void converse(const Talk& talk, const Encoder& encoder) {
  const size_t n_messages = talk.messages.size();
  const Tokens all = encoder.encode(talk.first(n_messages, ChatEnd::kOpened), 0);
  const std::string_view harmless = "x";
  Talk other = talk;
  for (ChatMessage& message : other.messages) {
    if (!message.content.empty()) message.content = harmless;
  }
  const Conversation others = other.first(n_messages, ChatEnd::kOpened);
  if (encoder.takes(others)) {
    expect(encoder.controls_of(all) == encoder.controls_of(encoder.encode(others, 0)),
           "what a message says changes no control token of a conversation");
  }
  // Said one after the other, the messages give the tokens that they give at once, where a question
  // is the last of them: more than one would have to follow what goes on.
  if (n_messages == 0 || talk.messages.back().role != ChatRole::kUser) return;
  Tokens pieces;
  for (size_t n = 1; n <= n_messages; ++n) {
    const ChatEnd end = n == n_messages ? ChatEnd::kOpened : ChatEnd::kGoesOn;
    const Conversation so_far = talk.first(n, end);
    if (!encoder.takes(so_far)) return;
    const Tokens piece = encoder.encode(so_far, n - 1);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  expect(pieces == all, "a conversation that is continued has the tokens of a whole one");
}

Talk talk_of(const std::vector<InputPart>& parts) {
  constexpr size_t kMostMessages = 6;
  constexpr std::string_view kName = "f";
  Talk talk;
  talk.calls.resize(kMostMessages);
  talk.parts.resize(kMostMessages);
  for (const InputPart& part : parts) {
    const size_t n = talk.messages.size();
    const auto* const role =
        std::find(std::begin(kChatRoleNames), std::end(kChatRoleNames), part.name);
    if (part.name == "function") {
      talk.tools.push_back(part.bytes);
    } else if (role != std::end(kChatRoleNames) && n < kMostMessages) {
      talk.messages.push_back(
          {static_cast<ChatRole>(role - std::begin(kChatRoleNames)), part.bytes, &talk.parts[n]});
      talk.parts[n].name = kName;
    } else if (part.name == "thinking" && n > 0) {
      talk.parts[n - 1].thinking = part.bytes;
    } else if (part.name == "call" && n > 0) {
      talk.calls[n - 1].push_back({kName, part.bytes, {}});
      talk.parts[n - 1].calls = talk.calls[n - 1];
    }
  }
  return talk;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
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
                                                    {{"bos_token", bos}, {"eos_token", eos}}})
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
  const Talk talk = talk_of(parts);
  const Encoder encoder(tokenizer, chat);
  if (!encoder.takes(talk.first(talk.messages.size(), ChatEnd::kOpened))) return 0;
  const TimeLimit limit(size + section.size() + chat_section.size());
  converse(talk, encoder);
  return 0;
}

}  // namespace cria::fuzz
