// What the metadata section may hold: JSON (RFC 8259) in UTF-8, nested at most
// format::kMaxMetadataNesting deep, so that whoever prints or parses it needs little stack. Its
// size is limited where the section table is read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

// Takes the text in pieces of any size; keeps nothing of it, calls nothing recursively.
class MetadataCheck {
 public:
  void add(const uint8_t* text, size_t n_bytes);
  // Whether everything added so far is one JSON value, which white space may surround.
  [[nodiscard]] bool holds() const;

 private:
  enum class State : uint8_t {
    kFailed,
    kValue,       // a value must follow
    kFirstValue,  // as kValue, or the end of an empty array
    kFirstName,   // a name or the end of an empty object
    kName,
    kColon,
    kAfterValue,  // a comma, the end of what the value is in, or nothing any more
    kText,        // inside a string
    kEscape,
    kHexDigits,
    kLiteral,
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  void step(uint8_t byte);
  [[nodiscard]] State value(uint8_t byte);
  [[nodiscard]] State open(bool is_object);
  [[nodiscard]] State close(bool is_object);
  [[nodiscard]] State after_value(uint8_t byte);
  [[nodiscard]] State text(uint8_t byte);
  [[nodiscard]] State lead_byte(uint8_t byte);
  [[nodiscard]] State escape(uint8_t byte);
  [[nodiscard]] State hex_digit(uint8_t byte);
  [[nodiscard]] State number(uint8_t byte);
  [[nodiscard]] State literal(uint8_t byte);

  State state_ = State::kValue;
  bool is_name_ = false;        // of the string at hand
  uint8_t depth_ = 0;           // containers open
  uint32_t objects_ = 0;        // bit d: container d is an object
  const char* rest_ = nullptr;  // of the literal at hand
  uint8_t n_hex_digits_ = 0;
  uint8_t n_continuations_ = 0;  // bytes that the UTF-8 character at hand still lacks
  uint8_t least_ = 0;            // its next byte lies in least_..most_
  uint8_t most_ = 0;
};

}  // namespace cria
