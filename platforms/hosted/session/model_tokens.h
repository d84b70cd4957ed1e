// Texts and tokens of an opened model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// cria_encode into a vector; flags as there. Throws ProgramError.
std::vector<uint32_t> encode_text(const ModelSession& model, const std::string& text,
                                  uint32_t flags);

// Throws ProgramError kUsage when an id is not in the model's vocabulary.
void check_ids(const ModelSession& model, const std::vector<uint32_t>& ids);

// The text of one token alone, special tokens written out.
std::string token_text(const ModelSession& model, uint32_t token);

}  // namespace cria::hosted
