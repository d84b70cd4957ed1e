// The metadata of a GGUF file in the words of a config.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/gguf/gguf_names.h"

namespace cria::converter {

// What a SentencePiece vocabulary has where its file does not say.
inline constexpr uint32_t kSentencePieceBos = 1;
inline constexpr uint32_t kSentencePieceEos = 2;

// What of the tensors the metadata does not say.
struct GgufTensorFacts {
  std::optional<uint64_t> n_embeddings;  // rows of the embedding
  bool has_output = false;               // a matrix of its own
  std::string_view attention_bias;       // what the file calls one of them; empty: there is none
  std::string_view mlp_bias;
  bool values_are_keys = false;     // there is a layer that has keys without values
  std::vector<float> rope_factors;  // [rotary dimensions / 2] each; empty: none
  std::vector<float> long_factors;
  std::vector<float> short_factors;
};

// Refuses a count that is not what follows from others; the file may be silent.
void check_implied_count(const JsonObject& metadata, const std::string& name, uint64_t value);

// Throws ProgramError for a value that is missing, of another type, or would change results and
// cannot be said.
[[nodiscard]] ConfigFiles gguf_config(const GgufArchitecture& architecture, const Json& metadata,
                                      const GgufTensorFacts& facts, const std::string& where);

}  // namespace cria::converter
