// Texts and tokens of an opened model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// cria_encode into a vector, which is empty where that fails; flags as there.
cria_status encode_into(cria_workspace* workspace, std::string_view text, uint32_t flags,
                        std::vector<uint32_t>* tokens);

// The same with the model's workspace. Throws ProgramError.
std::vector<uint32_t> encode_text(const ModelSession& model, const std::string& text,
                                  uint32_t flags);

// Throws ProgramError kUsage when an id is not in the model's vocabulary.
void check_ids(const ModelSession& model, const std::vector<uint32_t>& ids);

// Bytes that always suffice for cria_decode_token.
size_t token_text_capacity(const cria_model* model);

// The text of one token alone, special tokens written out.
std::string token_text(const ModelSession& model, uint32_t token);

}  // namespace cria::hosted
