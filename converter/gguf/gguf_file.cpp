#include "converter/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "converter/error.h"
#include "converter/memory_size.h"

namespace cria::converter {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kFirstVersion = 2;
constexpr uint32_t kLastVersion = 3;

// Several times what published files have: a thousand tensors, fifty values, of which the lists of
// a tokenizer hold half a million items.
constexpr uint64_t kMaxTensors = 1 << 16;
constexpr uint64_t kMaxValues = 1 << 12;
constexpr uint64_t kMaxItems = 1 << 22;      // of all lists together
constexpr uint64_t kMaxTextBytes = 1 << 20;  // of one text
constexpr uint64_t kMaxNameBytes = 256;      // of a value's or tensor's name
constexpr uint64_t kMaxHeaderBytes = 1 << 27;
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 16;
constexpr size_t kBufferBytes = 1 << 16;

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kList = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Reads a header from its beginning to its end.
class HeaderReader {
 public:
  HeaderReader(const InputFile& file, std::string where)
      : file_(file), where_(std::move(where)), end_(std::min(file.size_bytes(), kMaxHeaderBytes)) {}

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ProgramError(ExitCode::kInvalidInput, where_ + ": " + problem);
  }
  [[nodiscard]] uint64_t position() const { return start_ + used_; }

  template <typename T>
  [[nodiscard]] T take() {
    T value;
    take_bytes(reinterpret_cast<uint8_t*>(&value), sizeof value);
    return value;
  }

  [[nodiscard]] std::string take_text(uint64_t max_bytes, const char* what) {
    const uint64_t n = take<uint64_t>();
    if (n > max_bytes) {
      refuse(std::string(what) + " of " + std::to_string(n) + " bytes; at most " +
             std::to_string(max_bytes) + " are read");
    }
    if (n > end_ - position()) refuse_end();
    std::string text(memory_size(n), '\0');
    take_bytes(reinterpret_cast<uint8_t*>(text.data()), text.size());
    return text;
  }

  // A count of things that take at least item_bytes each.
  [[nodiscard]] uint64_t take_count(uint64_t most, uint64_t item_bytes, const char* what) {
    const uint64_t n = take<uint64_t>();
    if (n > most) {
      refuse("it has " + std::to_string(n) + " " + what + "; at most " + std::to_string(most) +
             " are read");
    }
    if (n * item_bytes > end_ - position()) refuse_end();
    return n;
  }

 private:
  [[noreturn]] void refuse_end() const {
    if (end_ == kMaxHeaderBytes) {
      refuse("its header has more than " + std::to_string(kMaxHeaderBytes) + " bytes");
    }
    refuse("truncated inside its header, download it again");
  }

  void take_bytes(uint8_t* out, size_t n) {
    while (n > 0) {
      if (used_ == filled_) fill();
      const size_t part = std::min(n, filled_ - used_);
      std::memcpy(out, buffer_.data() + used_, part);
      used_ += part;
      out += part;
      n -= part;
    }
  }

  void fill() {
    start_ += filled_;
    used_ = 0;
    filled_ = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), end_ - start_));
    if (filled_ == 0) refuse_end();
    file_.read(start_, std::span(buffer_).first(filled_));
  }

  const InputFile& file_;
  std::string where_;
  uint64_t end_;
  uint64_t start_ = 0;  // of the buffer, in the file
  size_t filled_ = 0;
  size_t used_ = 0;
  std::array<uint8_t, kBufferBytes> buffer_;
};

// One that is not negative is such a number to JSON as well, whatever type it had.
Json whole_number(int64_t value) {
  return value < 0 ? Json(value) : Json(static_cast<uint64_t>(value));
}

// Bytes of a value; of a text, the least.
uint64_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kText:
    case ValueType::kList:
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      break;
  }
  return 8;
}

class MetadataReader {
 public:
  explicit MetadataReader(HeaderReader* in) : in_(in) {}

  [[nodiscard]] Json read(uint64_t n_values) {
    Json metadata = Json::object();
    for (uint64_t i = 0; i < n_values; ++i) {
      std::string key = in_->take_text(kMaxNameBytes, "a key");
      if (metadata.contains(key)) in_->refuse("key " + shown(key) + " appears twice");
      Json value = read_value(key);
      metadata.emplace(std::move(key), std::move(value));
    }
    return metadata;
  }

 private:
  ValueType read_type(const std::string& key) {
    const uint32_t type = in_->take<uint32_t>();
    if (type > static_cast<uint32_t>(ValueType::kF64)) {
      in_->refuse("key " + shown(key) + " has unknown value type " + std::to_string(type));
    }
    return static_cast<ValueType>(type);
  }

  Json read_value(const std::string& key) {
    const ValueType type = read_type(key);
    if (type != ValueType::kList) return read_single(type, key);
    const ValueType item_type = read_type(key);
    if (item_type == ValueType::kList) in_->refuse("key " + shown(key) + " is a list of lists");
    const uint64_t n = in_->take_count(kMaxItems - n_items_, least_bytes(item_type), "list items");
    n_items_ += n;
    Json::array_t items;
    items.reserve(memory_size(n));
    for (uint64_t i = 0; i < n; ++i) items.push_back(read_single(item_type, key));
    return items;
  }

  Json read_single(ValueType type, const std::string& key) {
    switch (type) {
      case ValueType::kU8:
        return in_->take<uint8_t>();
      case ValueType::kI8:
        return whole_number(in_->take<int8_t>());
      case ValueType::kU16:
        return in_->take<uint16_t>();
      case ValueType::kI16:
        return whole_number(in_->take<int16_t>());
      case ValueType::kU32:
        return in_->take<uint32_t>();
      case ValueType::kI32:
        return whole_number(in_->take<int32_t>());
      case ValueType::kF32:
        return in_->take<float>();
      case ValueType::kBool:
        return in_->take<uint8_t>() != 0;
      case ValueType::kU64:
        return in_->take<uint64_t>();
      case ValueType::kI64:
        return whole_number(in_->take<int64_t>());
      case ValueType::kF64:
        return in_->take<double>();
      case ValueType::kText:
      case ValueType::kList:
        break;
    }
    return in_->take_text(kMaxTextBytes, ("key " + shown(key) + " has a text").c_str());
  }

  HeaderReader* in_;
  uint64_t n_items_ = 0;
};

uint32_t read_version(HeaderReader* in) {
  std::array<char, kMagic.size()> magic;
  for (char& c : magic) c = in->take<char>();
  if (std::string_view(magic.data(), magic.size()) != kMagic) in->refuse("is not a GGUF file");
  const auto version = in->take<uint32_t>();
  constexpr uint32_t kLowHalf = 0xffff;
  if ((version & kLowHalf) == 0) {
    in->refuse("is a big-endian GGUF file, which is not read; use the little-endian one");
  }
  if (version < kFirstVersion || version > kLastVersion) {
    in->refuse("is GGUF version " + std::to_string(version) +
               "; versions 2 and 3 are read, convert it again with a current program");
  }
  return version;
}

uint64_t read_alignment(const Json& metadata, const std::string& where) {
  constexpr const char* kKey = "general.alignment";
  const JsonObject object(metadata, where);
  const uint64_t alignment = object.count(kKey).value_or(kDefaultAlignment);
  if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    object.refuse(kKey, "must be a power of two up to " + std::to_string(kMaxAlignment));
  }
  return alignment;
}

GgufEntry read_entry(HeaderReader* in) {
  GgufEntry entry = {};
  entry.name = in->take_text(kMaxNameBytes, "a tensor's name");
  const auto rank = in->take<uint32_t>();
  if (rank == 0 || rank > kMaxRank) {
    in->refuse("tensor " + shown(entry.name) + " has " + std::to_string(rank) + " dimensions");
  }
  entry.shape.resize(rank);
  for (uint32_t i = rank; i-- > 0;) entry.shape[i] = in->take<uint64_t>();
  entry.type_id = in->take<uint32_t>();
  entry.type = find_gguf_type(entry.type_id);
  entry.offset = in->take<uint64_t>();
  return entry;
}

// Where the tensors' data begins, and how it is aligned.
struct DataPlace {
  uint64_t offset;
  uint64_t alignment;
  uint64_t file_bytes;
};

void place_entry(const HeaderReader& in, const DataPlace& data, GgufEntry* entry) {
  const auto refuse = [&](const std::string& problem) {
    in.refuse("tensor " + shown(entry->name) + " " + problem);
  };
  if (entry->offset % data.alignment != 0) refuse("is not aligned");
  const uint64_t room = data.file_bytes - std::min(data.file_bytes, data.offset);
  if (entry->offset > room) refuse("begins after the end of the file, download it again");
  const uint64_t available = room - entry->offset;
  entry->offset += data.offset;
  if (entry->type == nullptr) return;
  const GgufType& type = *entry->type;
  uint64_t n_values = 1;
  for (const uint64_t side : entry->shape) {
    if (side == 0) refuse("has no values");
    if (__builtin_mul_overflow(n_values, side, &n_values)) refuse("has a huge shape");
  }
  if (entry->shape.back() % type.block_values != 0) {
    refuse("has rows of " + std::to_string(entry->shape.back()) +
           " values, which do not divide into blocks of " + type.name);
  }
  if (__builtin_mul_overflow(n_values / type.block_values, uint64_t{type.block_bytes},
                             &entry->bytes)) {
    refuse("has a huge shape");
  }
  if (entry->bytes > available) {
    refuse("ends after the end of the file: it is truncated, download it again");
  }
}

// Whether tensors of Q2_0 have blocks of 128 values: those of 64 would take more bytes than lie
// between one of them and the next tensor, or the end of the file, and those of 128 fill that room
// for each. So a file whose end is missing is read as it was written, and refused for that. No
// entry has been placed.
bool has_wide_q2_0(const std::vector<GgufEntry>& tensors, const DataPlace& data) {
  std::vector<uint64_t> ends;
  for (const GgufEntry& entry : tensors) ends.push_back(entry.offset);
  ends.push_back(data.file_bytes - std::min(data.file_bytes, data.offset));
  std::sort(ends.begin(), ends.end());
  bool is_narrow_too_long = false;
  for (const GgufEntry& entry : tensors) {
    if (entry.type_id != kGgufQ2_0) continue;
    const auto end = std::upper_bound(ends.begin(), ends.end(), entry.offset);
    if (end == ends.end()) return false;  // refused for where it begins
    const uint64_t room = *end - entry.offset;
    uint64_t n_values = 1;
    for (const uint64_t side : entry.shape) {
      if (__builtin_mul_overflow(n_values, side, &n_values)) return false;  // refused as huge
    }
    const uint64_t n_wide = n_values / kGgufWideQ2_0.block_values;
    if (n_wide > data.file_bytes) return false;  // so that no product is too large
    const uint64_t wide_bytes = n_wide * kGgufWideQ2_0.block_bytes;
    if (wide_bytes > room && *end == ends.back()) continue;  // truncated in any case
    if (wide_bytes > room || room - wide_bytes >= data.alignment) return false;
    const uint64_t n_narrow = n_values / entry.type->block_values;
    is_narrow_too_long = is_narrow_too_long || n_narrow * entry.type->block_bytes > room;
  }
  return is_narrow_too_long;
}

// Tensors that share bytes or a name are a sign of a forged or broken header.
void check_apart(const HeaderReader& in, const std::vector<GgufEntry>& tensors) {
  std::set<std::string_view> names;
  std::vector<const GgufEntry*> places;
  for (const GgufEntry& entry : tensors) {
    if (!names.insert(entry.name).second) {
      in.refuse("tensor " + shown(entry.name) + " appears twice");
    }
    if (entry.bytes > 0) places.push_back(&entry);
  }
  std::sort(places.begin(), places.end(),
            [](const GgufEntry* a, const GgufEntry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i]->offset < places[i - 1]->offset + places[i - 1]->bytes) {
      in.refuse("tensor " + shown(places[i]->name) + " overlaps tensor " +
                shown(places[i - 1]->name));
    }
  }
}

// Writers may give a list with a number for each layer where all have the same.
void join_layers(Json* metadata) {
  constexpr std::string_view kByLayer[] = {".attention.head_count", ".attention.head_count_kv",
                                           ".feed_forward_length"};
  for (auto& [key, value] : metadata->items()) {
    const bool is_by_layer =
        std::any_of(std::begin(kByLayer), std::end(kByLayer),
                    [&whole = key](std::string_view end) { return whole.ends_with(end); });
    if (!is_by_layer || !value.is_array() || value.empty()) continue;
    const Json first = value.front();
    if (std::all_of(value.begin(), value.end(), [&](const Json& v) { return v == first; })) {
      value = first;
    }
  }
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
  const std::string where = path.string();
  HeaderReader in(file_, where);
  version_ = read_version(&in);
  // A tensor takes a name's length, a rank, a side, a type and an offset.
  constexpr uint64_t kLeastEntryBytes = 8 + 4 + 8 + 4 + 8;
  constexpr uint64_t kLeastValueBytes = 8 + 4 + 1;
  const uint64_t n_tensors = in.take_count(kMaxTensors, kLeastEntryBytes, "tensors");
  const uint64_t n_values = in.take_count(kMaxValues, kLeastValueBytes, "metadata values");
  Json values = MetadataReader(&in).read(n_values);
  join_layers(&values);
  metadata_ = std::make_shared<const Json>(std::move(values));
  const uint64_t alignment = read_alignment(*metadata_, where);
  tensors_.reserve(memory_size(n_tensors));
  for (uint64_t i = 0; i < n_tensors; ++i) tensors_.push_back(read_entry(&in));
  const uint64_t data_offset = (in.position() + alignment - 1) / alignment * alignment;
  const DataPlace data = {data_offset, alignment, file_.size_bytes()};
  const bool is_wide = has_wide_q2_0(tensors_, data);
  for (GgufEntry& entry : tensors_) {
    if (is_wide && entry.type_id == kGgufQ2_0) entry.type = &kGgufWideQ2_0;
    place_entry(in, data, &entry);
  }
  check_apart(in, tensors_);
}

bool is_gguf(const InputFile& file) {
  std::array<uint8_t, kMagic.size()> magic;
  if (file.size_bytes() < magic.size()) return false;
  file.read(0, magic);
  return std::memcmp(magic.data(), kMagic.data(), magic.size()) == 0;
}

}  // namespace cria::converter
