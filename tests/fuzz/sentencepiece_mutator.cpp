// Changes tokenizer.model field by field: pieces are doubled, moved, taken away, renamed; the
// lengths of messages stay right.
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/random_choice.h"

namespace cria::fuzz {
namespace {

constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;

struct Field {
  uint64_t key;
  uint64_t number;    // varints
  std::string bytes;  // the rest
};

bool take_varint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

void put_varint(uint64_t value, std::string* out) {
  for (; value > 0x7f; value >>= 7) *out += static_cast<char>(value | 0x80);
  *out += static_cast<char>(value);
}

// As far as the bytes are a message.
std::vector<Field> split(std::string_view in) {
  std::vector<Field> fields;
  Field field = {};
  while (take_varint(&in, &field.key)) {
    uint64_t n = 0;
    const uint32_t type = field.key & 7;
    if (type == kVarint) {
      if (!take_varint(&in, &field.number)) break;
    } else if (type == kBytes) {
      if (!take_varint(&in, &n) || n > in.size()) break;
    } else {
      n = type == kFixed64 ? 8 : type == kFixed32 ? 4 : in.size() + 1;
      if (n > in.size()) break;
    }
    field.bytes = std::string(in.substr(0, static_cast<size_t>(n)));
    in.remove_prefix(static_cast<size_t>(n));
    fields.push_back(field);
  }
  return fields;
}

std::string join(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    put_varint(field.key, &out);
    const uint32_t type = field.key & 7;
    if (type == kVarint) put_varint(field.number, &out);
    if (type == kBytes) put_varint(field.bytes.size(), &out);
    out += type == kVarint ? "" : field.bytes;
  }
  return out;
}

void change(RandomChoice* random, uint32_t depth, std::string* message) {
  static constexpr const char* kTexts[] = {
      "a",     "b", "ab", "abc", "aa",   "\xE2\x96\x81",     "<0x0A>",   "<0x41>",  "</s>",
      "<unk>", "",  " ",  "\n",  "\xFF", "\xF0\x9F\xA6\x99", "nmt_nfkc", "identity"};
  std::vector<Field> fields = split(*message);
  if (fields.empty()) {
    *message += random->of(kTexts);
    return;
  }
  const size_t which = random->below(fields.size());
  const size_t other = random->below(fields.size());
  Field* const field = &fields[which];
  switch (random->below(7)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(which));
      break;
    case 1: {
      const Field copy = *field;
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(other), copy);
      break;
    }
    case 2:
      std::swap(*field, fields[other]);
      break;
    case 3:
      field->key =
          random->one_in(4) ? random->bits() : (1 + random->below(45)) * 8 + (field->key & 7);
      break;
    default:
      if ((field->key & 7) == kVarint) {
        field->number = random->one_in(4) ? ~uint64_t{0} - random->below(3) : random->interesting();
      } else if ((field->key & 7) != kBytes) {
        const uint32_t value = random->interesting();
        std::memcpy(field->bytes.data(), &value, sizeof value);
      } else if (depth == 0 && !random->one_in(8)) {
        change(random, depth + 1, &field->bytes);
      } else if (random->one_in(2)) {
        field->bytes = random->of(kTexts);
      } else {
        field->bytes += random->of(kTexts);
      }
  }
  *message = join(fields);
}

}  // namespace
}  // namespace cria::fuzz

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  cria::fuzz::RandomChoice random(seed);
  if (random.one_in(6)) return LLVMFuzzerMutate(data, size, max_size);
  std::string message(reinterpret_cast<char*>(data), size);
  for (uint32_t n = 1 + random.below(3); n > 0; --n) cria::fuzz::change(&random, 0, &message);
  if (message.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, message.data(), message.size());
  return message.size();
}
