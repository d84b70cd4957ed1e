// Folders that tests read. None of them is compiled in, so that objects of two clones are alike
// and a compiler cache serves both.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cria::test {

// The repository: $CRIA_SOURCE_DIR as ctest sets it, else the folder above this program that holds
// models/demo.
[[nodiscard]] std::filesystem::path source_folder();
// The repository's own small checkpoints: tests/data/golden/<name>, models/demo.
[[nodiscard]] std::filesystem::path golden_folder(const std::string& name);
[[nodiscard]] std::filesystem::path demo_folder();
// The same of what the build makes: $CRIA_TEST_DATA/golden/<name>, as ctest sets it, else in the
// build folder of this program.
[[nodiscard]] std::filesystem::path made_golden_folder(const std::string& name);
// $CRIA_SHARED/reference, when it is there.
[[nodiscard]] std::optional<std::filesystem::path> reference_folder();

// The folders of the reference's checkpoints/ and architectures/ that cria reads.
inline constexpr const char* kReferenceCheckpoints[] = {
    "bias",     "gqa-llama3-bf16-sharded", "granite",   "mha-tied-f32",
    "mqa-f16",  "mistral-sliding-window",  "odd-sizes", "rope-linear",
    "rope-yarn"};
inline constexpr const char* kReferenceArchitectures[] = {
    "bitnet",      "deepseek-v2",   "deepseek-v2-lite",
    "deepseek-v3", "ernie4.5",      "exaone4",
    "gemma2",      "gemma3",        "gemma3-vl",
    "gemma4-e",    "gemma4-moe",    "gemma4-vl",
    "gpt2",        "granite-moe",   "granite4",
    "ministral3",  "ministral3-vl", "mixtral",
    "mixtral-swa", "olmo2",         "olmo3",
    "olmoe",       "phi3",          "qwen2",
    "qwen2-moe",   "qwen3",         "qwen3-moe",
    "smollm3",     "qwen3.5",       "qwen3.5-moe",
    "qwen3.5-vl",  "granite4-h",    "granite4-h-moe",
    "lfm2",        "lfm2-moe"};

}  // namespace cria::test
