// Changes a hostile model by fields: the edits of open_fuzz and verify_fuzz
// (tests/fuzz/hostile_input.h), by the tables of quant/format/format.h.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "quant/format/format.h"
#include "quant/text/call_format.h"
#include "quant/text/chat_template_format.h"
#include "quant/text/tokenizer_format.h"
#include "tests/fuzz/hostile_input.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/random_choice.h"

namespace cria::fuzz {
namespace {

using format::SectionKind;

constexpr uint8_t target_of(SectionKind kind) { return static_cast<uint8_t>(kind); }
constexpr uint8_t target_of(EditTarget target) { return static_cast<uint8_t>(target); }

// A struct, or an array of them: where its fields are.
struct Struct {
  uint8_t target;
  uint32_t begin;
  uint32_t bytes;
  uint32_t most;  // how many in a row
};

constexpr uint32_t kKindBytes = sizeof(format::LayerKind);

constexpr Struct kStructs[] = {
    {target_of(EditTarget::kHeader), 0, sizeof(format::FileHeader), 1},
    {target_of(EditTarget::kHeader), sizeof(format::FileHeader), sizeof(format::SectionEntry), 7},
    {target_of(SectionKind::kConfig), 0, offsetof(format::ModelScalars, end_tokens), 1},
    {target_of(SectionKind::kConfig), 0, offsetof(format::ModelScalars, end_tokens), 1},
    {target_of(SectionKind::kConfig), 0, sizeof(format::ModelScalars), 1},
    {target_of(SectionKind::kConfig), sizeof(format::ModelScalars), kKindBytes, 3},
    {target_of(SectionKind::kConfig), sizeof(format::ModelScalars), kKindBytes, 1},
    // Kinds, layers and counts: where these begin depends on their number.
    {target_of(SectionKind::kConfig), sizeof(format::ModelScalars) + kKindBytes,
     sizeof(format::MatrixCount), 64},
    {target_of(SectionKind::kTokenizer), 0, sizeof(format::TokenizerHeader), 1},
    {target_of(SectionKind::kTokenizer), sizeof(format::TokenizerHeader), 4, 3000},
    {target_of(SectionKind::kTokenizer), sizeof(format::TokenizerHeader) + 300 * 4, 4, 75},
    {target_of(SectionKind::kChatTemplate), 0, sizeof(format::ChatTemplateHeader), 1},
    {target_of(SectionKind::kChatTemplate), sizeof(format::ChatTemplateHeader),
     sizeof(format::ChatRule), 16},
    {target_of(SectionKind::kTensorDirectory), 0, sizeof(format::TensorEntry), 24},
    {target_of(SectionKind::kChunkTable), 0, sizeof(format::ChunkEntry), 48},
    {target_of(SectionKind::kMetadata), 0, 64, 1},
    {target_of(SectionKind::kData), 0, 4, 16384}};

constexpr std::string_view kTexts[] = {"<|eot_id|>",
                                       "<|begin_of_text|>",
                                       "<|start_header_id|>",
                                       "<|pad|>",
                                       "<s>",
                                       "</s>",
                                       "<unk>",
                                       "[INST]",
                                       "<<SYS>>",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\t",
                                       "the llama",
                                       "\xE2\x96\x81",
                                       "\xC2\xA0",
                                       "\xE3\x80\x80",
                                       "\xF0\x9F\xA6\x99",
                                       "\xFF",
                                       "\xE2\x96",
                                       "123456",
                                       "'s 're",
                                       "\r\n\r\n"};
constexpr std::string_view kMetadata[] = {
    "[", "[[[[[[[[", "{\"a\":", "\"\\u0000\"", "\x1b]0;x\x07", "1e999", "\xFF", "null", "{}"};

void put_edit(EditKind kind, uint8_t target, uint32_t offset, std::span<const uint8_t> payload,
              Bytes* out) {
  constexpr uint32_t kByteBits = 8;
  out->push_back(static_cast<uint8_t>(kind));
  out->push_back(target);
  for (uint32_t i = 0; i < 3; ++i) out->push_back(static_cast<uint8_t>(offset >> (kByteBits * i)));
  out->push_back(static_cast<uint8_t>(payload.size()));
  out->insert(out->end(), payload.begin(), payload.end());
}

void put_number(EditKind kind, uint8_t target, uint32_t offset, uint32_t value, size_t n_bytes,
                Bytes* out) {
  uint8_t payload[4];
  std::memcpy(payload, &value, sizeof payload);
  put_edit(kind, target, offset, {payload, n_bytes}, out);
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void put_derive(RandomChoice* random, Bytes* out) {
  uint8_t fill[4];
  const uint32_t value = random->interesting();
  std::memcpy(fill, &value, sizeof fill);
  put_edit(EditKind::kDerive, 0, 0, {fill, random->below(5)}, out);
}

void put_field(RandomChoice* random, Bytes* out) {
  const Struct& s = random->of(kStructs);
  const bool is_kind = s.bytes == kKindBytes;  // whose numbers have one, two or four bytes
  const uint32_t width = random->one_in(is_kind ? 3 : 8)    ? 1
                         : random->one_in(is_kind ? 2 : 16) ? 2
                                                            : 4;
  const uint32_t offset =
      s.begin + random->below(s.most) * s.bytes + random->below(s.bytes / width) * width;
  const bool adds = width == 4 && random->one_in(3);
  const uint32_t change =
      random->one_in(2) ? 1 + random->below(64) : UINT32_MAX - random->below(64);
  put_number(adds ? EditKind::kAdd : EditKind::kWrite, s.target, offset,
             adds ? change : random->interesting(), width, out);
  if (s.target == target_of(SectionKind::kConfig) && !random->one_in(4)) put_derive(random, out);
}

void put_text(RandomChoice* random, Bytes* out) {
  put_edit(EditKind::kInsert, target_of(EditTarget::kText), random->below(64),
           bytes_of(random->of(kTexts)), out);
}

// A form of calls after the chat template's strings, with a number of it changed.
void put_calls(RandomChoice* random, Bytes* out) {
  constexpr std::string_view kStrings("<tool_call>\0name\0arguments\0</tool_call>", 39);
  format::CallFormatHeader header = {1, 0, {}};
  header.string_bytes[static_cast<size_t>(format::CallString::kStart)] = 12;
  header.string_bytes[static_cast<size_t>(format::CallString::kNameKeys)] = 5;
  header.string_bytes[static_cast<size_t>(format::CallString::kArgumentsKeys)] = 10;
  header.string_bytes[static_cast<size_t>(format::CallString::kEnd)] = 12;
  Bytes form(sizeof header + kStrings.size());
  std::memcpy(form.data(), &header, sizeof header);
  std::memcpy(form.data() + sizeof header, kStrings.data(), kStrings.size());
  if (!random->one_in(4)) form[random->below(form.size())] = static_cast<uint8_t>(random->bits());
  constexpr auto kBytes = static_cast<uint32_t>(
      offsetof(format::ChatTemplateHeader, string_bytes) +
      sizeof(uint32_t) * static_cast<size_t>(format::ChatString::kCallFormat));
  const uint8_t target = target_of(SectionKind::kChatTemplate);
  put_edit(EditKind::kInsert, target, 0xffffff, form, out);
  put_number(EditKind::kWrite, target, kBytes, static_cast<uint32_t>(form.size()), 4, out);
}

void put_shape(RandomChoice* random, Bytes* out) {
  const auto target = static_cast<uint8_t>(1 + random->below(7));
  const uint32_t offset = random->one_in(2) ? random->below(256) : random->interesting() & 0xffffff;
  switch (random->below(6)) {
    case 0:
      return put_number(EditKind::kResize, target, 0, random->interesting(), 4, out);
    case 1:
      return put_number(EditKind::kErase, target, offset, random->interesting(), 2, out);
    case 2:
      return put_number(EditKind::kRepeat, target, offset, random->bits(), 3, out);
    case 3:
      return put_edit(EditKind::kMoveLast, target, 0, {}, out);
    case 4:
      return put_number(EditKind::kWrite, target_of(EditTarget::kSourceBytes), 0,
                        random->interesting(), 4, out);
    default:
      return put_edit(random->one_in(2) ? EditKind::kInsert : EditKind::kWrite,
                      target_of(SectionKind::kMetadata), random->below(8),
                      bytes_of(random->of(kMetadata)), out);
  }
}

// Where each edit of an input begins, and its end.
std::vector<size_t> edit_places(std::span<const uint8_t> input) {
  std::vector<size_t> places;
  size_t at = std::min(kInputHeaderBytes, input.size());
  while (at + kEditHeaderBytes <= input.size()) {
    places.push_back(at);
    at += kEditHeaderBytes + input[at + kEditHeaderBytes - 1];
  }
  places.push_back(std::min(at, input.size()));
  return places;
}

// Takes an edit away, or puts another one before it.
void change_edits(RandomChoice* random, Bytes* input) {
  const std::vector<size_t> places = edit_places(*input);
  const size_t which = random->below(places.size());
  const auto begin = input->begin() + static_cast<std::ptrdiff_t>(places[which]);
  if (which + 1 < places.size() && random->one_in(3)) {
    input->erase(begin, input->begin() + static_cast<std::ptrdiff_t>(places[which + 1]));
    return;
  }
  Bytes added;
  const uint32_t choice = random->below(8);
  if (random->one_in(16)) {
    put_calls(random, &added);
  } else if (choice < 5) {
    put_field(random, &added);
  } else if (choice < 7) {
    put_shape(random, &added);
  } else {
    put_text(random, &added);
  }
  // At the end in most cases: what comes earlier may be undone by what is derived.
  const size_t place = random->one_in(4) ? places[which] : places.back();
  input->insert(input->begin() + static_cast<std::ptrdiff_t>(place), added.begin(), added.end());
}

}  // namespace
}  // namespace cria::fuzz

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace cria::fuzz;
  RandomChoice random(seed);
  if (random.one_in(6)) return LLVMFuzzerMutate(data, size, max_size);
  Bytes input(data, data + size);
  input.resize(std::max(input.size(), kInputHeaderBytes));
  if (random.one_in(6))
    input[random.below(kInputHeaderBytes)] = static_cast<uint8_t>(random.bits());
  for (uint32_t n = 1 + random.below(3); n > 0; --n) change_edits(&random, &input);
  if (input.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
