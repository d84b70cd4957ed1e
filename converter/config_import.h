// A checkpoint's config.json and generation_config.json as the model file's config. Refuses by name
// every architecture and setting that would silently change results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/rope.h"
#include "quant/format.h"

namespace cria::converter {

struct ImportedConfig {
  // Complete but for planned_context, matrix_format and compression, which the command line
  // decides, and for kTiedEmbedding, where the checkpoint's tensors have a say.
  format::ModelConfig model;
  Rope rope;
  std::string architecture;  // "LlamaForCausalLM"
  // What the config says; none of the ids is checked against the vocabulary yet.
  bool tied_embedding;
  bool has_bos;         // neither file names one: the tokenizer may
  bool has_end_tokens;  // likewise
};

// Throws ProgramError; the line names file and key.
[[nodiscard]] ImportedConfig import_config(const ConfigFiles& files);

// What a config must say for the field that check_config (quant/model_layout.h) found at fault, by
// the names of ConfigFiles: "num_hidden_layers must be from 1 to 1024".
[[nodiscard]] std::string describe_config_field(std::string_view field, const KeyNames& names);

// Puts token ids into the config. Throws when there are more than the format holds.
void set_end_tokens(const std::vector<uint32_t>& ids, const std::string& where,
                    format::ModelConfig* model);

}  // namespace cria::converter
