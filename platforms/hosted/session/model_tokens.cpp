#include "platforms/hosted/session/model_tokens.h"

#include <algorithm>
#include <cstddef>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {

cria_status encode_into(cria_workspace* workspace, std::string_view text, uint32_t flags,
                        std::vector<uint32_t>* tokens) {
  // BOS, EOS and a space in front come on top of a token for each byte.
  constexpr size_t kExtra = 16;
  // Of U+2581 and U+FFFD, where a vocabulary has no token for what a space or an invalid byte is.
  constexpr size_t kTokensOfAByte = 3;
  tokens->resize(text.size() + kExtra);
  size_t n_tokens = 0;
  const auto encode = [&] {
    return cria_encode(workspace, text.data(), text.size(), flags, tokens->data(), tokens->size(),
                       &n_tokens);
  };
  cria_status status = encode();
  if (status == CRIA_BUFFER_TOO_SMALL) {
    tokens->resize(kTokensOfAByte * text.size() + kExtra);
    status = encode();
  }
  tokens->resize(status == CRIA_OK ? n_tokens : 0);
  return status;
}

std::vector<uint32_t> encode_text(const ModelSession& model, const std::string& text,
                                  uint32_t flags) {
  std::vector<uint32_t> tokens;
  model.check(encode_into(model.workspace(), text, flags, &tokens));
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

size_t token_text_capacity(const cria_model* model) {
  return std::max<size_t>(CRIA_TEXT_BYTES, 3 * cria_longest_token_bytes(model) + 8);
}

std::string token_text(const ModelSession& model, uint32_t token) {
  std::string text(token_text_capacity(model.model()), '\0');
  cria_text_state state = {};
  state.show_special = 1;
  state.started = 1;
  size_t n_bytes = 0;
  model.check(cria_decode_token(model.model(), &state, token, text.data(), text.size(), &n_bytes));
  text.resize(n_bytes);
  return text;
}

}  // namespace cria::hosted
