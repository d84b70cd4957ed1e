// One call, read byte by byte from after the marker that starts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/text/call_format.h"
#include "runtime/calls/tools.h"
#include "runtime/calls/value_reader.h"

namespace cria::calls {

inline constexpr size_t kMostNameBytes = 128;
inline constexpr size_t kMostIdBytes = 64;
inline constexpr size_t kMostHeaderBytes = 256;  // of a header, or a key

// What a call stands after.
enum class CallPlace : uint8_t {
  kStart,  // kStart of the form
  kBegin,  // kCallBegin of the form
  kCall,   // another call
  kBare,   // nothing: only tools that there are count
};

// Plain bytes: a copy goes on by itself.
class CallReader {
 public:
  void begin(const CallFormat* form, const Tools* tools, CallPlace place);

  // What comes after a byte, as far as it is there. is_all: nothing else will be known.
  struct Ahead {
    std::string_view text;
    bool is_all;
  };

  // kMore, kWhole or kFail. With out, the arguments are written, and kUndecided is left to say
  // that the type of a value hangs on bytes that are missing.
  //   ahead  c and what comes after it; of use only with out
  Step step(char c, const Ahead& ahead, const Writer* out);

  // Whether the call is whole where the model ends its answer here; then end writes what is left.
  [[nodiscard]] bool may_end() const;
  void end(const Writer* out);

  // Empty: not known yet.
  [[nodiscard]] std::string_view name() const { return {name_, n_name_}; }
  [[nodiscard]] std::string_view id() const { return {id_, n_id_}; }
  // Whether it is more than text that may become one: a marker starts it, or a key or name is read.
  [[nodiscard]] bool has_begun() const;
  // Stands in [].
  [[nodiscard]] bool is_in_list() const { return is_in_list_; }

 private:
  enum class State : uint8_t;
  enum class Role : uint8_t;

  Step once(char c, const Ahead& ahead, const Writer* out);
  Step item(char c);
  Step function(char c, const Writer* out);
  Step object(char c, const Writer* out);
  Step begin_entry(char c);
  Step finish_entry();
  Step finish_object(const Writer* out);
  Step mark(char c, std::string_view marker, State next);
  Step header(char c);
  Step finish_header(Step step);
  Step parameters(char c, const Writer* out);
  Step parameter_key(char c, const Writer* out);
  Step begin_value(const Ahead& ahead, const Writer* out);
  void value_byte(char c, const Writer* out);
  [[nodiscard]] Role role_of(std::string_view key) const;

  void append(char c);
  [[nodiscard]] std::string_view text() const { return {text_, n_text_}; }
  [[nodiscard]] Writer to_text();
  bool set_name(std::string_view name);
  void set_id(std::string_view id);
  [[nodiscard]] std::string_view marker(format::CallString string) const {
    return without_blanks(form_->text(string));
  }

  const CallFormat* form_;
  const Tools* tools_;
  ValueReader values_;
  TextWriter writer_;  // of a value in tags
  Finder finder_;
  std::string_view mark_;  // of the states kMark and kValueMark
  State state_;
  Role role_;
  CallPlace place_;
  ParameterKind kind_;
  bool is_in_list_;
  bool has_separator_;
  bool has_members_;
  bool has_arguments_;
  bool is_literal_;   // the value in tags is JSON, and is written
  bool is_first_;     // no byte of the value in tags has come
  bool has_newline_;  // which is part of the value if it goes on
  bool is_text_full_;
  uint16_t n_text_;
  uint8_t n_name_;
  uint8_t n_id_;
  char text_[kMostHeaderBytes];
  char name_[kMostNameBytes];
  char id_[kMostIdBytes];
};

}  // namespace cria::calls
