// A conversation in memory of exactly what is required, for tests.
#pragma once

#include <cria_chat.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/plain_chat.h"
#include "tests/support/test_session.h"

namespace cria::test {

inline cria_config config_with(uint32_t context, cria_progress step_progress = nullptr) {
  cria_config config = {};
  config.step_progress = step_progress;
  config.backend = CRIA_BACKEND_EXACT;
  config.context = context;
  config.max_text_bytes = 1 << 14;
  config.isa_mask = test::runnable_isas().back().mask;
  return config;
}

// The demo's way of writing, but answers lose their thinking later and begin with an open one.
inline constexpr const char* kThinkingTemplate =
    "{{- bos_token }}{%- for message in messages %}{%- set content = message['content'] %}"
    "{%- if message['role'] == 'assistant' and '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1] %}{%- endif %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + content | trim "
    "+ '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n<think>\n' }}{%- endif %}";

// A chat over these bytes, which answers with the likeliest tokens.
class Chat {
 public:
  Chat(const Bytes& file, uint32_t max_tokens, uint32_t context = 0,
       const cria_chat_config& config = {}, cria_progress step_progress = nullptr)
      : Chat(file, max_tokens, config, config_with(context, step_progress)) {}
  Chat(const Bytes& file, uint32_t max_tokens, const cria_chat_config& config,
       const cria_config& session)
      : source_(file), session_(source_, session), max_tokens_(max_tokens) {
    size_t n_bytes = 0;
    EXPECT_EQ(cria_chat_required(session_.session(), &config, &n_bytes), CRIA_OK);
    memory_ = std::make_unique<test::AlignedMemory>(n_bytes);
    EXPECT_EQ(cria_chat_make(memory_->data(), n_bytes - 1, session_.workspace(), session_.session(),
                             &config, &chat_),
              CRIA_MEMORY_TOO_SMALL);
    EXPECT_EQ(cria_chat_make(memory_->data(), n_bytes, session_.workspace(), session_.session(),
                             &config, &chat_),
              CRIA_OK);
  }

  cria_status say(std::string_view text) {
    answer_.clear();
    cria_chat_options options = {};
    options.max_tokens = max_tokens_;
    options.context = &answer_;
    options.on_text = [](void* context, uint32_t /*token*/, const char* piece, size_t n_bytes) {
      static_cast<std::string*>(context)->append(piece, n_bytes);
      return 0;
    };
    return cria_chat_answer(chat_, session_.workspace(), text.data(), text.size(), &options,
                            &result_);
  }
  void begin(std::string_view system) {
    EXPECT_EQ(cria_chat_begin(chat_, system.data(), system.size()), CRIA_OK);
  }
  std::vector<uint8_t> saved() const {
    std::vector<uint8_t> bytes(cria_chat_save_size(chat_));
    EXPECT_EQ(cria_chat_save(chat_, bytes.data(), bytes.size()), CRIA_OK);
    return bytes;
  }
  std::vector<cria_message> messages() const {
    std::vector<cria_message> all;
    for (size_t i = 0; i < cria_chat_n_messages(chat_); ++i) {
      all.push_back(cria_chat_message(chat_, i));
    }
    return all;
  }
  std::string text() const {
    std::string all;
    for (const cria_message& m : messages()) all.append(m.text, m.n_bytes);
    return all;
  }
  // Tokens of the context.
  std::vector<uint32_t> tokens() {
    const uint32_t* first = cria_tokens(session_.session());
    return {first, first + cria_position(session_.session())};
  }
  // The conversation encoded at once, from its texts, and the next turn opened.
  std::vector<uint32_t> encoded_afresh(const std::vector<cria_message>& all, int open_turn) {
    std::vector<uint32_t> tokens(1 << 14);
    size_t n_tokens = 0;
    EXPECT_EQ(test::encode_chat(session_.workspace(), all.data(), all.size(), 0, open_turn,
                                tokens.data(), tokens.size(), &n_tokens),
              CRIA_OK);
    tokens.resize(n_tokens);
    return tokens;
  }
  cria_chat* get() { return chat_; }
  TestSession& session() { return session_; }
  const cria_chat_result& result() const { return result_; }
  const std::string& answer() const { return answer_; }

 private:
  MemorySource source_;
  TestSession session_;
  uint32_t max_tokens_;
  std::unique_ptr<test::AlignedMemory> memory_;
  cria_chat* chat_ = nullptr;
  cria_chat_result result_ = {};
  std::string answer_;
};

}  // namespace cria::test
