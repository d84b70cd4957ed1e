#include "converter/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/memory_size.h"

namespace cria::converter {
namespace {

// Far above what any LLaMA has (a thousand tensors take 150 KB), and small enough to parse.
constexpr uint64_t kMaxHeaderBytes = 1 << 24;
constexpr size_t kMaxHeaderValues = 1 << 20;  // eight a matrix
constexpr uint64_t kLengthBytes = 8;
constexpr size_t kMaxRank = 8;

struct DtypeName {
  std::string_view name;
  uint64_t bytes;  // per value; 0: several values share a byte
  std::optional<SourceType> type;
};

constexpr DtypeName kDtypes[] = {
    {"F32", 4, SourceType::kF32}, {"F16", 2, SourceType::kF16}, {"BF16", 2, SourceType::kBf16},
    {"F64", 8, std::nullopt},     {"I64", 8, std::nullopt},     {"U64", 8, std::nullopt},
    {"I32", 4, std::nullopt},     {"U32", 4, std::nullopt},     {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},     {"I8", 1, std::nullopt},      {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},    {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt}, {"F4", 0, std::nullopt},
};

// Checks one tensor's entry; offsets in the header count from the end of the header.
class EntryReader {
 public:
  EntryReader(std::string where, uint64_t data_offset, uint64_t data_bytes)
      : where_(std::move(where)), data_offset_(data_offset), data_bytes_(data_bytes) {}

  [[nodiscard]] SafetensorsEntry read(const std::string& name, const Json& json) const {
    if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string()) {
      refuse(name, "has no dtype");
    }
    SafetensorsEntry entry;
    entry.dtype = json["dtype"].get<std::string>();
    entry.shape = whole_numbers(name, json, "shape");
    const std::vector<uint64_t> range = whole_numbers(name, json, "data_offsets");
    if (range.size() != 2 || range[0] > range[1]) refuse(name, "has broken data_offsets");
    if (range[1] > data_bytes_) {
      refuse(name, "ends at byte " + std::to_string(range[1]) + " of " +
                       std::to_string(data_bytes_) +
                       " after the header: the file is truncated, download it again");
    }
    entry.offset = data_offset_ + range[0];
    entry.bytes = range[1] - range[0];
    check_size(name, &entry);
    return entry;
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& problem) const {
    throw ProgramError(ExitCode::kInvalidInput, where_ + ": tensor " + shown(name) + " " + problem);
  }

 private:
  [[nodiscard]] std::vector<uint64_t> whole_numbers(const std::string& name, const Json& json,
                                                    const char* key) const {
    const auto list = json.find(key);
    if (list == json.end() || !list->is_array() || list->size() > kMaxRank) {
      refuse(name, std::string("has broken ") + key);
    }
    std::vector<uint64_t> values;
    for (const Json& value : *list) {
      if (!value.is_number_unsigned()) refuse(name, std::string("has broken ") + key);
      values.push_back(value.get<uint64_t>());
    }
    return values;
  }

  void check_size(const std::string& name, SafetensorsEntry* entry) const {
    const auto* dtype = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const DtypeName& d) { return d.name == entry->dtype; });
    if (dtype == std::end(kDtypes)) refuse(name, "has unknown dtype " + shown(entry->dtype));
    entry->type = dtype->type;
    if (dtype->bytes == 0) return;
    uint64_t wanted = dtype->bytes;
    for (const uint64_t dimension : entry->shape) {
      if (__builtin_mul_overflow(wanted, dimension, &wanted)) refuse(name, "has a huge shape");
    }
    if (wanted != entry->bytes) {
      refuse(name, "has " + std::to_string(entry->bytes) + " bytes where its shape asks for " +
                       std::to_string(wanted));
    }
  }

  std::string where_;
  uint64_t data_offset_;
  uint64_t data_bytes_;
};

// Tensors that share bytes are a sign of a forged or broken header.
void check_overlaps(const std::map<std::string, SafetensorsEntry>& tensors,
                    const EntryReader& reader) {
  struct Place {
    uint64_t offset;
    uint64_t bytes;
    const std::string* name;
  };
  std::vector<Place> places;
  for (const auto& [name, entry] : tensors) {
    if (entry.bytes > 0) places.push_back({entry.offset, entry.bytes, &name});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].offset < places[i - 1].offset + places[i - 1].bytes) {
      reader.refuse(*places[i].name, "overlaps tensor " + shown(*places[i - 1].name));
    }
  }
}

std::string read_header(const InputFile& file, const std::string& where) {
  if (file.size_bytes() < kLengthBytes) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": too short to be a safetensors file, download it again");
  }
  std::array<uint8_t, kLengthBytes> length_bytes;
  file.read(0, length_bytes);
  uint64_t length = 0;
  std::memcpy(&length, length_bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": not a safetensors file (its header would have " +
                           std::to_string(length) + " bytes)");
  }
  if (length > file.size_bytes() - kLengthBytes) {
    throw ProgramError(ExitCode::kInvalidInput,
                       where + ": truncated inside its header, download it again");
  }
  std::string header(memory_size(length), '\0');
  file.read(kLengthBytes, {reinterpret_cast<uint8_t*>(header.data()), header.size()});
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string where = path.string();
  const std::string header = read_header(file_, where);
  const Json json = parse_json(header, where + ": header", kMaxHeaderValues);
  if (!json.is_object()) {
    throw ProgramError(ExitCode::kInvalidInput, where + ": header is not a JSON object");
  }
  const uint64_t data_offset = kLengthBytes + header.size();
  const EntryReader reader(where, data_offset, file_.size_bytes() - data_offset);
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") tensors_.emplace(name, reader.read(name, value));
  }
  check_overlaps(tensors_, reader);
}

}  // namespace cria::converter
