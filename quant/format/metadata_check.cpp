#include "quant/format/metadata_check.h"

#include "quant/format/format.h"

namespace cria {
namespace {

constexpr uint8_t kFirstPrintable = 0x20;
constexpr uint8_t kLeastContinuation = 0x80;
constexpr uint8_t kMostContinuation = 0xbf;
constexpr uint8_t kHexDigits = 4;

static_assert(format::kMaxMetadataNesting <= 32);

bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

bool is_hex_digit(uint8_t c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

void MetadataCheck::add(const uint8_t* text, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes && state_ != State::kFailed; ++i) step(text[i]);
}

bool MetadataCheck::holds() const {
  switch (state_) {
    case State::kAfterValue:
    case State::kZero:
    case State::kInteger:
    case State::kFraction:
    case State::kExponentDigits:
      return depth_ == 0;
    default:
      return false;
  }
}

void MetadataCheck::step(uint8_t byte) {
  switch (state_) {
    case State::kFailed:
      return;
    case State::kValue:
      if (!is_space(byte)) state_ = value(byte);
      return;
    case State::kFirstValue:
      if (!is_space(byte)) state_ = byte == ']' ? close(false) : value(byte);
      return;
    case State::kFirstName:
      if (byte == '}') {
        state_ = close(true);
        return;
      }
      [[fallthrough]];
    case State::kName:
      if (is_space(byte)) return;
      is_name_ = true;
      state_ = byte == '"' ? State::kText : State::kFailed;
      return;
    case State::kColon:
      if (!is_space(byte)) state_ = byte == ':' ? State::kValue : State::kFailed;
      return;
    case State::kAfterValue:
      state_ = after_value(byte);
      return;
    case State::kText:
      state_ = text(byte);
      return;
    case State::kEscape:
      state_ = escape(byte);
      return;
    case State::kHexDigits:
      state_ = hex_digit(byte);
      return;
    case State::kLiteral:
      state_ = literal(byte);
      return;
    default:
      state_ = number(byte);
      return;
  }
}

MetadataCheck::State MetadataCheck::value(uint8_t byte) {
  switch (byte) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      is_name_ = false;
      return State::kText;
    case '-':
      return State::kMinus;
    case '0':
      return State::kZero;
    case 't':
      rest_ = "rue";
      return State::kLiteral;
    case 'f':
      rest_ = "alse";
      return State::kLiteral;
    case 'n':
      rest_ = "ull";
      return State::kLiteral;
    default:
      return is_digit(byte) ? State::kInteger : State::kFailed;
  }
}

MetadataCheck::State MetadataCheck::open(bool is_object) {
  if (depth_ == format::kMaxMetadataNesting) return State::kFailed;
  const uint32_t bit = uint32_t{1} << depth_;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  ++depth_;
  return is_object ? State::kFirstName : State::kFirstValue;
}

MetadataCheck::State MetadataCheck::close(bool is_object) {
  if (depth_ == 0 || (objects_ >> (depth_ - 1) & 1) != (is_object ? 1u : 0u)) return State::kFailed;
  --depth_;
  return State::kAfterValue;
}

MetadataCheck::State MetadataCheck::after_value(uint8_t byte) {
  if (is_space(byte)) return State::kAfterValue;
  if (byte == ']') return close(false);
  if (byte == '}') return close(true);
  if (byte != ',' || depth_ == 0) return State::kFailed;
  return (objects_ >> (depth_ - 1) & 1) != 0 ? State::kName : State::kValue;
}

MetadataCheck::State MetadataCheck::text(uint8_t byte) {
  if (n_continuations_ != 0) {
    if (byte < least_ || byte > most_) return State::kFailed;
    --n_continuations_;
    least_ = kLeastContinuation;
    most_ = kMostContinuation;
    return State::kText;
  }
  if (byte == '"') return is_name_ ? State::kColon : State::kAfterValue;
  if (byte == '\\') return State::kEscape;
  if (byte < kFirstPrintable) return State::kFailed;
  return byte < kLeastContinuation ? State::kText : lead_byte(byte);
}

// First bytes of characters of two to four bytes, and what may follow them: no longer form than
// needed, no surrogates, nothing past U+10FFFF.
MetadataCheck::State MetadataCheck::lead_byte(uint8_t byte) {
  least_ = kLeastContinuation;
  most_ = kMostContinuation;
  if (byte >= 0xc2 && byte <= 0xdf) {
    n_continuations_ = 1;
  } else if (byte >= 0xe0 && byte <= 0xef) {
    n_continuations_ = 2;
    if (byte == 0xe0) least_ = 0xa0;
    if (byte == 0xed) most_ = 0x9f;
  } else if (byte >= 0xf0 && byte <= 0xf4) {
    n_continuations_ = 3;
    if (byte == 0xf0) least_ = 0x90;
    if (byte == 0xf4) most_ = 0x8f;
  } else {
    return State::kFailed;
  }
  return State::kText;
}

MetadataCheck::State MetadataCheck::escape(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      return State::kText;
    case 'u':
      n_hex_digits_ = 0;
      return State::kHexDigits;
    default:
      return State::kFailed;
  }
}

MetadataCheck::State MetadataCheck::hex_digit(uint8_t byte) {
  if (!is_hex_digit(byte)) return State::kFailed;
  return ++n_hex_digits_ < kHexDigits ? State::kHexDigits : State::kText;
}

// A number ends where something else begins.
MetadataCheck::State MetadataCheck::number(uint8_t byte) {
  const bool digit = is_digit(byte);
  const bool exponent = byte == 'e' || byte == 'E';
  switch (state_) {
    case State::kMinus:
      return byte == '0' ? State::kZero : digit ? State::kInteger : State::kFailed;
    case State::kZero:
    case State::kInteger:
      if (digit) return state_ == State::kZero ? State::kFailed : State::kInteger;
      if (byte == '.') return State::kPoint;
      return exponent ? State::kExponent : after_value(byte);
    case State::kPoint:
      return digit ? State::kFraction : State::kFailed;
    case State::kFraction:
      if (digit) return State::kFraction;
      return exponent ? State::kExponent : after_value(byte);
    case State::kExponent:
      if (byte == '+' || byte == '-') return State::kExponentSign;
      return digit ? State::kExponentDigits : State::kFailed;
    case State::kExponentSign:
      return digit ? State::kExponentDigits : State::kFailed;
    default:
      return digit ? State::kExponentDigits : after_value(byte);
  }
}

MetadataCheck::State MetadataCheck::literal(uint8_t byte) {
  if (byte != static_cast<uint8_t>(*rest_)) return State::kFailed;
  ++rest_;
  return *rest_ == 0 ? State::kAfterValue : State::kLiteral;
}

}  // namespace cria
