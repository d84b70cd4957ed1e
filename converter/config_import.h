// A checkpoint's config.json and generation_config.json as the model file's config. Refuses by name
// every architecture and setting that would silently change results.
#pragma once

#include <string>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/config_parts.h"

namespace cria::converter {

struct ImportedConfig {
  // Within the format's limits, and complete but for planned_context, counts and compression, which
  // the command line decides, and for kTiedEmbedding, where the checkpoint's tensors have a say.
  ConfigParts config;
  std::vector<float> rope;   // the tensor kRope
  std::string architecture;  // "LlamaForCausalLM"
  // What the config says; none of the ids is checked against the vocabulary yet.
  bool tied_embedding;
  bool has_bos;         // neither file names one: the tokenizer may
  bool has_end_tokens;  // likewise
};

// Throws ProgramError; the line names file and key.
[[nodiscard]] ImportedConfig import_config(const ConfigFiles& files);

// Puts token ids into the config. Throws when there are more than the format holds.
void set_end_tokens(const std::vector<uint32_t>& ids, const std::string& where,
                    format::ModelScalars* model);

}  // namespace cria::converter
