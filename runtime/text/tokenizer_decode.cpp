// Tokens to text: bytes are put together to whole characters before they leave.
#include <algorithm>
#include <cstring>

#include "quant/text/utf8.h"
#include "runtime/text/tokenizer.h"

namespace cria {
namespace {

using format::TokenizerKind;

struct Output {
  std::span<char> out;
  size_t n_bytes;

  void put(const char* text, size_t count) {
    if (count > out.size() - n_bytes) return;
    std::memcpy(out.data() + n_bytes, text, count);
    n_bytes += count;
  }
};

void put_replacement(Output* output) { output->put(kReplacementText, kReplacementBytes); }

void end_pending(DecodeState* state, Output* output) {
  if (state->n_pending > 0) put_replacement(output);
  state->n_pending = 0;
}

// Adds one byte to the character being put together.
void put_byte(char byte, DecodeState* state, Output* output) {
  char bytes[sizeof(state->pending)];
  for (;;) {
    std::memcpy(bytes, state->pending, state->n_pending);
    bytes[state->n_pending] = byte;
    const size_t n_bytes = state->n_pending + size_t{1};
    const Utf8Char c = decode_utf8(bytes, n_bytes);
    if (!c.complete) {
      state->pending[state->n_pending++] = static_cast<uint8_t>(byte);
      return;
    }
    if (c.n_bytes < n_bytes) {
      // What waited is no character; the byte may start one.
      end_pending(state, output);
      continue;
    }
    if (c.code == kReplacementCharacter) {
      put_replacement(output);
    } else {
      output->put(bytes, n_bytes);
    }
    state->n_pending = 0;
    return;
  }
}

bool starts_with_space_mark(std::span<const char> text) {
  return text.size() >= kSpaceMarkBytes &&
         std::memcmp(text.data(), kSpaceMarkText, kSpaceMarkBytes) == 0;
}

std::span<const char> without_leading_space(std::span<const char> text, bool marks_spaces) {
  if (marks_spaces && starts_with_space_mark(text)) return text.subspan(kSpaceMarkBytes);
  return text[0] == ' ' ? text.subspan(1) : text;
}

}  // namespace

size_t tokenizer_decode(const Tokenizer& tokenizer, uint32_t token, bool show_special,
                        DecodeState* state, std::span<char> out) {
  Output output = {out, 0};
  state->n_pending = std::min<uint8_t>(state->n_pending, sizeof(state->pending) - 1);
  if (token >= tokenizer.header.n_tokens) return 0;
  const uint8_t flags = tokenizer.token_flags[token];
  if ((flags & format::kTokenSpecial) != 0 && !show_special) return 0;
  std::span<const char> text = token_text(tokenizer, token);
  if (text.empty()) return 0;
  const bool marks_spaces =
      tokenizer.header.kind == static_cast<uint32_t>(TokenizerKind::kSentencePieceBpe);
  const bool is_byte = (flags & format::kTokenByte) != 0;
  if (marks_spaces && !is_byte) end_pending(state, &output);
  const bool strips = state->started == 0 && (tokenizer.header.flags & format::kStripSpace) != 0;
  if ((flags & format::kTokenAfterSpace) != 0) {
    if (!strips) output.put(" ", 1);
  } else if (strips) {
    text = without_leading_space(text, marks_spaces);
  }
  state->started = 1;
  while (!text.empty()) {
    if (marks_spaces && starts_with_space_mark(text)) {
      end_pending(state, &output);
      output.put(" ", 1);
      text = text.subspan(kSpaceMarkBytes);
      continue;
    }
    put_byte(text[0], state, &output);
    text = text.subspan(1);
  }
  return output.n_bytes;
}

size_t tokenizer_decode_end(DecodeState* state, std::span<char> out) {
  Output output = {out, 0};
  end_pending(state, &output);
  return output.n_bytes;
}

}  // namespace cria
