// A conversation in fixed memory, through cria.h alone: remembers the messages, and forgets the
// oldest exchange when the context or this memory is full.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cria.h>

namespace cria::cortex_m {

class Dialogue {
 public:
  static constexpr size_t kMostTokens = 2048;  // of the context that is used
  static constexpr size_t kMostMessages = 32;
  static constexpr size_t kMostTextBytes = 8192;
  static constexpr size_t kMostQuestionBytes = 512;

  void start(const cria_instance& cria);
  // Forgets every message.
  void clear();
  // Adds a question, and the answer, which is printed while it is made. Text that gives the model
  // no token is not said; a notice is printed instead.
  [[nodiscard]] cria_status answer(std::string_view question, const cria_sampling& sampling);
  // Tokens made for the last answer.
  [[nodiscard]] size_t n_answered() const { return n_answered_; }

 private:
  void add(cria_role role, std::string_view text);
  void append_to_last(std::string_view text);
  void forget_exchange();
  void make_room();
  [[nodiscard]] bool newest_has_no_tokens();
  [[nodiscard]] cria_status feed_messages();
  [[nodiscard]] cria_status feed(std::span<const uint32_t> tokens);
  [[nodiscard]] cria_status speak(const cria_sampling& sampling);
  void say(uint32_t token, cria_text_state* state);
  [[nodiscard]] size_t context() const;

  // For the life of the program.
  cria_instance cria_;
  // The messages: their texts stand one after the other in text_.
  std::array<cria_message, kMostMessages> messages_;
  size_t n_messages_;
  std::array<char, kMostTextBytes> text_;
  size_t n_text_;
  // What the KV cache holds, and what it is to hold.
  std::array<uint32_t, kMostTokens> fed_;
  size_t n_fed_;
  std::array<uint32_t, kMostTokens> wanted_;
  size_t n_answered_;
};

}  // namespace cria::cortex_m
