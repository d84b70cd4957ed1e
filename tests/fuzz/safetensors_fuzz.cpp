// Hostile safetensors headers. The input is the header; its length is put before it, and as many
// bytes after it as its last tensor may want, up to a limit.
#include <algorithm>
#include <string>

#include "converter/safetensors.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
namespace {

constexpr size_t kDataBytes = 64;

void check_entries(const converter::SafetensorsFile& file, uint64_t header_end) {
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto& [name, entry] : file.tensors()) {
    expect(entry.offset >= header_end && entry.offset <= file.file().size_bytes() &&
               entry.bytes <= file.file().size_bytes() - entry.offset,
           "every tensor lies inside the file, behind its header");
    if (entry.type) {
      uint64_t wanted = bytes_per_value(*entry.type);
      for (const uint64_t dimension : entry.shape) wanted *= dimension;
      expect(wanted == entry.bytes, "a tensor has the bytes that its shape asks for");
    }
    if (entry.bytes != 0) places.emplace_back(entry.offset, entry.bytes);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    expect(places[i - 1].first + places[i - 1].second <= places[i].first,
           "no two tensors share bytes");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::filesystem::path path = memory_folder() / "model.safetensors";
  std::string bytes;
  for (uint64_t i = 0, n = size; i < sizeof n; ++i) {
    bytes += static_cast<char>(n >> (8 * i));
  }
  bytes.append(reinterpret_cast<const char*>(data), size);
  bytes.append(kDataBytes, '\0');
  write_bytes(path, bytes);
  const TimeLimit limit(size);
  refuses_or([&] { check_entries(converter::SafetensorsFile(path), sizeof(uint64_t) + size); });
  return 0;
}

}  // namespace cria::fuzz
