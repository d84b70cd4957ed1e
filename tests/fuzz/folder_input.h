// An input that stands for the files of a folder, readable and writable by hand:
//
//   --- tokenizer.json
//   {"model": ...}
//   --- text
//   any bytes
//
// A line "--- name" begins a part, which ends with the newline before the next one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cria::fuzz {

struct InputPart {
  std::string name;
  std::string bytes;
};

[[nodiscard]] std::vector<InputPart> split_parts(std::string_view input);
[[nodiscard]] std::string join_parts(const std::vector<InputPart>& parts);
// The first part with this name; empty when there is none.
[[nodiscard]] std::string_view part_named(const std::vector<InputPart>& parts,
                                          std::string_view name);

// A folder of this process below $TMPDIR, else in memory where the system has such a place. Removed
// at the end.
[[nodiscard]] const std::filesystem::path& memory_folder();
void write_bytes(const std::filesystem::path& path, std::string_view bytes);

}  // namespace cria::fuzz
