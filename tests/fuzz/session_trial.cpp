#include "tests/fuzz/session_trial.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/decode/session.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/plain_chat.h"

namespace cria::fuzz {
namespace {

constexpr size_t kMostTokens = 512;
using Tokens = std::vector<uint32_t>;

// The unknown token stands for characters without one of their own: it is no text's to forge.
bool is_control(const cria_model& model, uint32_t token) {
  return token < model.tokenizer.header.n_tokens && token != model.tokenizer.header.unknown_token &&
         (model.tokenizer.token_flags[token] & format::kTokenSpecial) != 0;
}

bool is_known(cria_status status, std::initializer_list<cria_status> allowed) {
  return status == CRIA_OK || std::find(allowed.begin(), allowed.end(), status) != allowed.end();
}

// Empty when the text is refused.
Tokens encode(const cria_instance& cria, std::string_view text, uint32_t flags) {
  Tokens tokens(kMostTokens, format::kNone);
  size_t n = 0;
  const cria_status status = cria_encode(cria.workspace, text.data(), text.size(), flags,
                                         tokens.data(), tokens.size(), &n);
  expect(is_known(status, {CRIA_NO_TOKENIZER, CRIA_TEXT_TOO_LONG, CRIA_BUFFER_TOO_SMALL}),
         "cria_encode gives a status that its header names");
  if (status != CRIA_OK) return {};
  expect(n <= tokens.size(), "cria_encode writes no more tokens than there is room for");
  tokens.resize(n);
  for (const uint32_t token : tokens) {
    expect(token < cria.model->scalars().vocab_size, "an encoded token is of the vocabulary");
    if ((flags & (CRIA_ENCODE_PARSE | CRIA_ENCODE_SPECIAL)) != 0) continue;
    expect(!is_control(*cria.model, token),
           "no text becomes a control token unless that was asked for");
    expect(cria_is_end_token(cria.model, token) == 0 || (flags & CRIA_ENCODE_PARSE) != 0,
           "no text becomes an end token unless that was asked for");
  }
  return tokens;
}

Tokens encode_chat(const cria_instance& cria, std::string_view text, uint8_t choice) {
  const std::string_view half = text.substr(0, text.size() / 2);
  const cria_message messages[] = {{CRIA_SYSTEM, half.data(), half.size()},
                                   {CRIA_USER, text.data(), text.size()},
                                   {CRIA_ASSISTANT, half.data(), half.size()},
                                   {CRIA_USER, text.data(), text.size()}};
  const size_t begin = choice % 2;
  const size_t n_messages = 1 + choice / 2 % 3;
  const size_t first = choice / 8 % (n_messages + 1);
  Tokens tokens(kMostTokens);
  size_t n = 0;
  const cria_status status = test::encode_chat(cria.workspace, messages + begin, n_messages, first,
                                               choice / 32 % 2, tokens.data(), tokens.size(), &n);
  expect(is_known(status, {CRIA_NO_TOKENIZER, CRIA_NO_CHAT_TEMPLATE, CRIA_TEXT_TOO_LONG,
                           CRIA_BUFFER_TOO_SMALL, CRIA_REFUSED_BY_TEMPLATE}),
         "cria_encode_chat gives a status that its header names");
  tokens.resize(status == CRIA_OK ? n : 0);
  for (const uint32_t token : tokens) {
    expect(token < cria.model->scalars().vocab_size, "a token of a chat is of the vocabulary");
  }
  return tokens;
}

bool feed(const cria_instance& cria, std::span<const uint32_t> tokens) {
  const uint32_t before = cria_position(cria.session);
  const cria_status status =
      cria_prefill(cria.workspace, cria.session, tokens.data(), tokens.size());
  expect(is_known(status, {CRIA_CONTEXT_FULL, CRIA_BACKEND_FAILED}),
         "cria_prefill gives a status that its header names");
  expect(cria_position(cria.session) == (status == CRIA_OK ? before + tokens.size() : before),
         "cria_prefill moves the position by what it fed");
  return status == CRIA_OK;
}

void decode(const cria_instance& cria, const Tokens& tokens, uint8_t show_special) {
  cria_text_state state = {};
  state.show_special = show_special;
  std::vector<char> out(CRIA_TEXT_BYTES + 3 * format::kMaxTokenBytes + 8);
  std::string text;
  for (size_t i = 0; i <= tokens.size(); ++i) {
    const uint32_t token = i < tokens.size() ? tokens[i] : format::kNone;
    size_t n = 0;
    const cria_status status =
        cria_decode_token(cria.model, &state, token, out.data(), out.size(), &n);
    if (status == CRIA_NO_TOKENIZER) return;
    expect(status == CRIA_OK && n <= out.size(), "a token decodes to at most its bound");
    text.append(out.data(), n);
  }
  expect(is_utf8(text), "decoded text is UTF-8");
}

void continue_text(const cria_instance& cria, std::span<const uint8_t> settings) {
  constexpr float kStep = 1.0f / 64.0f;
  cria_sampling sampling = {};
  sampling.temperature = static_cast<float>(settings[3] % 128) * kStep;
  sampling.top_p = static_cast<float>(settings[4] % 65) * kStep;
  sampling.min_p = static_cast<float>(settings[4] / 65) * 0.25f;
  sampling.repeat_penalty = 1.0f + static_cast<float>(settings[3] / 128);
  sampling.top_k = settings[5] % 8;
  Tokens tokens;
  for (int i = 0; i < 3; ++i) {
    uint32_t token = format::kNone;
    const cria_status status = cria_sample(cria.workspace, cria.session, &sampling, &token);
    expect(is_known(status, {CRIA_UNSUPPORTED}), "what has logits can be sampled");
    if (status != CRIA_OK) return;
    expect(token < cria.model->scalars().vocab_size, "a sampled token is of the vocabulary");
    tokens.push_back(token);
    if (!feed(cria, {&token, 1})) break;
  }
  decode(cria, tokens, settings[5] / 8 % 2);
}

// Saved, forgotten and loaded, a session is what it was.
void save_and_load(cria_session* s) {
  std::vector<uint8_t> state(cria_state_size(s));
  expect(cria_state_save(s, state.data(), state.size()) == CRIA_OK, "a state can be saved");
  expect(cria_reset(s, 0) == CRIA_OK, "a session can be reset");
  expect(cria_state_load(s, state.data(), state.size()) == CRIA_OK, "a saved state can be loaded");
  std::vector<uint8_t> again(cria_state_size(s));
  expect(again.size() == state.size() &&
             cria_state_save(s, again.data(), again.size()) == CRIA_OK && again == state,
         "a loaded state is the saved one");
}

}  // namespace

void try_session(const cria_instance& cria, std::string_view text,
                 std::span<const uint8_t> settings) {
  Tokens tokens = encode(cria, text, settings[5] / 16 % 8);
  static_cast<void>(encode(cria, text, settings[5] / 16 % 2 != 0 ? CRIA_ENCODE_CONTINUES : 0));
  const Tokens chat = encode_chat(cria, text, settings[4]);
  tokens.insert(tokens.end(), chat.begin(), chat.end());
  if (tokens.empty()) tokens.push_back(0);
  decode(cria, tokens, 1);
  if (cria.session == nullptr) return;
  const size_t context = cria_context(cria.session);
  if (tokens.size() + 1 > context) tokens.resize(std::max<size_t>(context, 2) - 1);
  const std::span<const uint32_t> all(tokens);
  const size_t half = (tokens.size() + 1) / 2;
  if (!feed(cria, all.first(half))) return;
  if (half < tokens.size() && !feed(cria, all.subspan(half))) return;
  save_and_load(cria.session);
  continue_text(cria, settings);
  if (settings[5] / 64 % 2 != 0) {
    const cria_status reset = cria_reset(cria.session, cria_position(cria.session) / 2);
    const std::span<const format::LayerKind> kinds = cria.model->config.kinds;
    const bool has_window =
        std::any_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.window != 0; });
    expect(reset == CRIA_OK || (reset == CRIA_FORGOTTEN && has_window),
           "a session can be reset to what it still holds");
    if (reset != CRIA_OK) return;
    std::vector<float> logits(cria.model->scalars().vocab_size);
    const uint32_t token = 0;
    const cria_batch_entry entry = {cria.session, &token, 1, logits.data(), {}};
    expect(is_known(cria_step(cria.workspace, &entry, 1), {CRIA_BACKEND_FAILED}),
           "there is room behind a reset");
  }
}

void try_step(const cria_instance& cria, cria_session* other, std::string_view text) {
  expect(cria_reset(cria.session, 0) == CRIA_OK && cria_reset(other, 0) == CRIA_OK,
         "a session can be reset");
  // Tokens of any kind; few, so that an input takes no longer than before.
  constexpr size_t kMost = 12;
  const uint32_t vocab_size = cria.model->scalars().vocab_size;
  const size_t n = std::min<size_t>({kMost, cria_context(cria.session), text.size() + 1});
  Tokens tokens(n, 0);
  for (size_t i = 0; i + 1 < n; ++i) tokens[i] = static_cast<uint8_t>(text[i]) % vocab_size;
  if (!feed(cria, tokens)) return;
  const float* logits = cria_logits(cria.session);
  const std::vector<float> alone(logits, logits + vocab_size);
  expect(cria_reset(cria.session, 0) == CRIA_OK, "a session can be reset");
  std::vector<float> of_other(n * vocab_size);
  const cria_batch_entry entries[] = {{other, tokens.data(), n, of_other.data(), {}},
                                      {cria.session, tokens.data(), n, nullptr, {}}};
  const cria_status status = cria_step(cria.workspace, entries, std::size(entries));
  expect(is_known(status, {CRIA_BACKEND_FAILED}), "what can be fed alone can be fed together");
  if (status != CRIA_OK) return;
  expect(cria_position(cria.session) == n && cria_position(other) == n,
         "a step moves every session by what it fed");
  if (cria.model->backend != &kExactBackend) return;
  logits = cria_logits(cria.session);
  const float* last = of_other.data() + (n - 1) * vocab_size;
  // Which NaN comes of two is not promised.
  const auto is_same = [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
  };
  expect(std::equal(alone.begin(), alone.end(), logits, is_same) &&
             std::equal(alone.begin(), alone.end(), last, is_same),
         "a session gets the bits that it gets alone");
  // The same session twice, or one that does not exist, changes nothing.
  const cria_batch_entry wrong[][2] = {{entries[0], entries[0]},
                                       {entries[1], {nullptr, tokens.data(), 1, {}, {}}}};
  for (const auto& two : wrong) {
    const cria_status refused = cria_step(cria.workspace, two, std::size(two));
    // The first entry may find its context full.
    expect((refused == CRIA_INVALID_ARGUMENT || refused == CRIA_CONTEXT_FULL) &&
               cria_position(cria.session) == n && cria_position(other) == n,
           "entries that cannot be are refused before anything runs");
  }
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[i + k]); };
    const size_t n = byte(0) < 0x80   ? 1
                     : byte(0) < 0xc2 ? 0
                     : byte(0) < 0xe0 ? 2
                     : byte(0) < 0xf0 ? 3
                     : byte(0) < 0xf5 ? 4
                                      : 0;
    if (n == 0 || n > text.size() - i) return false;
    uint32_t code = n == 1 ? byte(0) : byte(0) & (0x7fu >> n);
    for (size_t k = 1; k < n; ++k) {
      if ((byte(k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(k) & 0x3f);
    }
    if ((n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0xd800 && code <= 0xdfff)) {
      return false;
    }
    i += n;
  }
  return true;
}

}  // namespace cria::fuzz
