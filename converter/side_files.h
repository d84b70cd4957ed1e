// The files of a checkpoint folder besides its weights: their names and how large they may be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "converter/json_input.h"

namespace cria::converter {

enum class SideFile : uint8_t {
  kConfig,
  kGenerationConfig,
  kQuantizeConfig,
  kIndex,
  kTokenizerJson,
  kTokenizerModel,
  kTokenizerConfig,
  kSpecialTokensMap,
  kAddedTokens,
  kChatTemplateJinja,
  kChatTemplateJson,
  kAdapterConfig,
  kModules,
  kPoolingConfig,
};

struct SideFileKind {
  SideFile which;
  const char* name;
  uint64_t max_bytes;
  size_t max_values = kMaxJsonValues;
};

// A chat template of any file.
inline constexpr uint64_t kMaxTemplateBytes = 1 << 18;

// Every file that a conversion may read, in the order of SideFile. The limits are several times
// what published checkpoints have.
inline constexpr SideFileKind kSideFiles[] = {
    {SideFile::kConfig, "config.json", 1 << 20},
    {SideFile::kGenerationConfig, "generation_config.json", 1 << 20},
    {SideFile::kQuantizeConfig, "quantize_config.json", 1 << 20},
    {SideFile::kIndex, "model.safetensors.index.json", 1 << 24, 1 << 19},
    {SideFile::kTokenizerJson, "tokenizer.json", 1 << 27},
    {SideFile::kTokenizerModel, "tokenizer.model", 1 << 26},
    {SideFile::kTokenizerConfig, "tokenizer_config.json", 1 << 24},
    {SideFile::kSpecialTokensMap, "special_tokens_map.json", 1 << 20},
    {SideFile::kAddedTokens, "added_tokens.json", 1 << 24},
    {SideFile::kChatTemplateJinja, "chat_template.jinja", kMaxTemplateBytes},
    {SideFile::kChatTemplateJson, "chat_template.json", 1 << 20},
    {SideFile::kAdapterConfig, "adapter_config.json", 1 << 20},
    {SideFile::kModules, "modules.json", 1 << 16},
    {SideFile::kPoolingConfig, "1_Pooling/config.json", 1 << 16},
};

[[nodiscard]] std::filesystem::path side_file_path(const std::filesystem::path& folder,
                                                   SideFile which);

// Whether path names anything: also what cannot be read (a pipe, a folder, a link to nothing), so
// that reading refuses it and it is not passed over. Throws ProgramError (kIo) when that cannot be
// told.
[[nodiscard]] bool entry_exists(const std::filesystem::path& path);
[[nodiscard]] bool has_side_file(const std::filesystem::path& folder, SideFile which);

// A file that holds a chat template and nothing else. Throws as read_small_file does.
[[nodiscard]] std::string read_template_file(const std::filesystem::path& path);

// The bytes of the file. Throws ProgramError as read_small_file does.
[[nodiscard]] std::string read_side_file(const std::filesystem::path& folder, SideFile which);
// The file as JSON. Throws ProgramError as read_side_file and parse_json do.
[[nodiscard]] Json read_side_json(const std::filesystem::path& folder, SideFile which);

}  // namespace cria::converter
