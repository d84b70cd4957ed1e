#include "platforms/hosted/session/model_tokens.h"

#include <cstddef>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {

std::vector<uint32_t> encode_text(const ModelSession& model, const std::string& text,
                                  uint32_t flags) {
  // BOS, EOS and a space in front come on top of a token for each byte.
  constexpr size_t kExtra = 16;
  // Of U+2581 and U+FFFD, where a vocabulary has no token for what a space or an invalid byte is.
  constexpr size_t kTokensOfAByte = 3;
  std::vector<uint32_t> tokens(text.size() + kExtra);
  size_t n_tokens = 0;
  const auto encode = [&] {
    return cria_encode(model.workspace(), text.data(), text.size(), flags, tokens.data(),
                       tokens.size(), &n_tokens);
  };
  cria_status status = encode();
  if (status == CRIA_BUFFER_TOO_SMALL) {
    tokens.resize(kTokensOfAByte * text.size() + kExtra);
    status = encode();
  }
  model.check(status);
  tokens.resize(n_tokens);
  return tokens;
}

void check_ids(const ModelSession& model, const std::vector<uint32_t>& ids) {
  for (const uint32_t id : ids) {
    if (id < model.info().vocab_size) continue;
    throw ProgramError(ExitCode::kUsage,
                       text_of("%s: token id %u is not below %u, the size of the "
                               "vocabulary",
                               model.path().c_str(), id, model.info().vocab_size));
  }
}

std::string token_text(const ModelSession& model, uint32_t token) {
  constexpr size_t kMostBytes = 3 * 4096 + 64;
  std::string text(kMostBytes, '\0');
  cria_text_state state = {};
  state.show_special = 1;
  state.started = 1;
  size_t n_bytes = 0;
  model.check(cria_decode_token(model.model(), &state, token, text.data(), text.size(), &n_bytes));
  text.resize(n_bytes);
  return text;
}

}  // namespace cria::hosted
