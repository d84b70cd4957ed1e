// An answer, read piece by piece: its text, thinking and calls. cria_calls.h has the contract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cria_calls.h>
#include "quant/text/call_format.h"
#include "runtime/calls/call_reader.h"
#include "runtime/calls/tools.h"

namespace cria::calls {

class AnswerReader {
 public:
  // hold: at least CRIA_CALLS_LEAST_HOLD; outlives the reader.
  void make(const CallFormat& form, const Tools& tools, std::span<char> hold);

  // Of the answers that follow: whether any of it is a call.
  void take_calls(bool is_on) { takes_calls_ = is_on; }
  void begin(std::string_view opened);
  void read(std::string_view text, cria_calls_tell_fn tell, void* context);
  // Whether the answer ended inside something.
  [[nodiscard]] bool finish(bool was_cut, cria_calls_tell_fn tell, void* context);
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  enum class Role : uint8_t {
    kThinkingBegin,
    kThinkingEnd,
    kAnswerBegin,
    kAnswerEnd,
    kStart,
    kCallBegin,
    kCallEnd,
    kEnd,
  };
  struct Marker {
    std::string_view text;
    Role role;
  };
  // Blanks around text and thinking are not told, those inside are.
  struct Blanks {
    bool has_text;
    uint8_t n_held;
    char held[64];
  };

  void add_markers(format::CallString string, Role role);
  [[nodiscard]] bool is_active(Role role) const;
  void append(std::string_view text);
  void advance();
  bool look();
  void take(Role role, size_t n_bytes);
  [[nodiscard]] bool begins_call(char c) const;
  void begin_call(size_t n_bytes, CallPlace place);
  void tell_beginning();
  [[nodiscard]] Writer to_arguments();
  void tell_arguments(bool is_all);
  void finish_call();
  void break_call();
  void make_text(size_t n_bytes);
  void make_room();
  void drop(size_t n_bytes);

  void put_text(char c);
  void put_piece(cria_calls_kind kind, char c);
  void tell_piece(bool is_all);
  void tell_event(cria_calls_kind kind, std::string_view text, std::string_view id);

  [[nodiscard]] std::string_view held() const { return {hold_.data() + head_, tail_ - head_}; }
  [[nodiscard]] bool does_objects() const {
    return form_.kind == format::CallKind::kJson || form_.kind == format::CallKind::kPython;
  }

  static constexpr size_t kMostMarkers = 5 * format::kMostCallTexts + 3;

  // For all answers.
  CallFormat form_;
  Tools tools_;
  std::span<char> hold_;
  std::array<Marker, kMostMarkers> markers_;
  size_t n_markers_;
  std::array<uint32_t, 8> first_bytes_;  // a bit for each byte that begins a marker
  bool takes_calls_;

  // Of an answer. Held are bytes that nobody has told: the beginning of what may be a marker, or
  // of a call, of which scan_ has read n_scanned_ and tell_ has written n_told_.
  size_t head_, tail_;
  size_t n_scanned_, n_told_;
  size_t n_opened_;        // of those held: part of the prompt
  uint64_t n_read_again_;  // bytes that may be
  CallReader scan_, tell_;
  Blanks blanks_[2];         // of text, thinking
  uint8_t n_blanks_before_;  // of text held, before the last call
  uint32_t n_calls_;
  bool is_open_;
  bool is_thinking_;
  bool is_in_call_;
  bool is_call_told_;
  bool is_behind_call_;  // nothing but blanks and markers since
  bool is_in_list_;
  bool is_last_;  // no byte will follow
  bool was_cut_;
  bool is_cut_;

  // Of a call of the API.
  cria_calls_tell_fn tell_fn_;
  void* context_;
  cria_calls_kind piece_kind_;
  size_t n_piece_;
  std::array<char, 256> piece_;
};

}  // namespace cria::calls
