#include "tests/fuzz/model_draft.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quant/format/align.h"
#include "quant/format/checksum.h"
#include "quant/model/model_layout.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_configs.h"

namespace cria::fuzz {
namespace {

using format::SectionKind;

// No part of a draft grows past this, so that an input cannot ask for more than it is worth.
constexpr size_t kMostBytes = size_t{1} << 20;

template <typename Value>
Value value_at(std::span<const uint8_t> bytes, size_t offset) {
  Value value = {};
  std::memcpy(&value, bytes.data() + offset, std::min(sizeof value, bytes.size() - offset));
  return value;
}

uint32_t number_of(std::span<const uint8_t> payload) {
  return payload.empty() ? 0 : value_at<uint32_t>(payload, 0);
}

void repeat(std::span<const uint8_t> payload, size_t offset, Bytes* bytes) {
  ByteFeed feed(payload.data(), payload.size());
  const size_t n = std::min<size_t>(feed.number(2), bytes->size() - offset);
  const size_t times = feed.byte();
  const Bytes piece(bytes->begin() + static_cast<std::ptrdiff_t>(offset),
                    bytes->begin() + static_cast<std::ptrdiff_t>(offset + n));
  for (size_t i = 0; i < times && bytes->size() + n <= kMostBytes; ++i) {
    bytes->insert(bytes->begin() + static_cast<std::ptrdiff_t>(offset), piece.begin(), piece.end());
  }
}

void change(EditKind kind, uint32_t edit_offset, std::span<const uint8_t> payload, Bytes* bytes) {
  const size_t offset = std::min<size_t>(edit_offset, bytes->size());
  const auto place = bytes->begin() + static_cast<std::ptrdiff_t>(offset);
  const size_t left = bytes->size() - offset;
  switch (kind) {
    case EditKind::kWrite:
      std::copy_n(payload.begin(), std::min(payload.size(), left), place);
      break;
    case EditKind::kAdd:
      if (left >= sizeof(uint32_t)) {
        const uint32_t sum = value_at<uint32_t>(*bytes, offset) + number_of(payload);
        std::memcpy(bytes->data() + offset, &sum, sizeof sum);
      }
      break;
    case EditKind::kInsert:
      if (bytes->size() + payload.size() <= kMostBytes) {
        bytes->insert(place, payload.begin(), payload.end());
      }
      break;
    case EditKind::kErase: {
      const size_t n = std::min<size_t>(number_of(payload) & 0xffff, left);
      bytes->erase(place, place + static_cast<std::ptrdiff_t>(n));
      break;
    }
    case EditKind::kRepeat:
      repeat(payload, offset, bytes);
      break;
    case EditKind::kResize:
      bytes->resize(std::min<size_t>(number_of(payload), kMostBytes));
      break;
    case EditKind::kDerive:
    case EditKind::kMoveLast:
      break;
  }
}

// Bytes of one tensor: pattern again and again, or for vectors and where there is no pattern,
// values that a model may have.
Bytes tensor_content(const TensorSpec& spec, std::span<const uint8_t> fill) {
  Bytes bytes(static_cast<size_t>(tensor_bytes(spec)));
  const size_t codes = static_cast<size_t>(tensor_code_bytes(spec));
  const bool has_float_codes = spec.shape.number_format == format::NumberFormat::kF32;
  for (size_t i = 0; i < bytes.size(); ++i) {
    // As f32, as bf16 and as f16: a number near one half, which is small enough anywhere.
    constexpr uint8_t kHalf[4] = {0x00, 0x38, 0x00, 0x3f};
    constexpr uint8_t kBf16Half[2] = {0x00, 0x3f};
    const bool is_code = i < codes;
    if (!fill.empty() && is_code && spec.is_matrix()) {
      bytes[i] = fill[i % fill.size()];
    } else if (is_code ? has_float_codes
                       : spec.shape.number_format == format::NumberFormat::kInt8) {
      bytes[i] = kHalf[i % 4];
    } else {
      bytes[i] = kBf16Half[i % 2];
    }
  }
  return bytes;
}

// The first n of values that lie one after the other; where these end, the last one once more.
template <typename Value>
std::vector<Value> first_values(std::span<const uint8_t> bytes, size_t begin, size_t there,
                                size_t n) {
  std::vector<Value> values;
  for (size_t i = 0; i < n; ++i) {
    const size_t at = begin + i * sizeof(Value);
    const bool is_there = i < there && at + sizeof(Value) <= bytes.size();
    if (!is_there && values.empty()) break;
    values.push_back(is_there ? value_at<Value>(bytes, at) : values.back());
  }
  return values;
}

// Lets each kind appear, in the order of their numbers: those that do not are the last layers'.
void put_in_order(size_t n_kinds, std::vector<uint8_t>* layers) {
  if (layers->size() < n_kinds) layers->resize(n_kinds);
  size_t n_seen = 0;
  for (size_t i = 0; i < layers->size(); ++i) {
    uint8_t& kind = (*layers)[i];
    const bool is_needed = layers->size() - i <= n_kinds - n_seen;
    if (is_needed || kind > n_seen || kind >= n_kinds) {
      kind = static_cast<uint8_t>(std::min(n_seen, n_kinds - 1));
    }
    if (kind == n_seen) ++n_seen;
  }
}

template <typename Value>
void append(const Value& value, Bytes* bytes) {
  const auto* const p = reinterpret_cast<const uint8_t*>(&value);
  bytes->insert(bytes->end(), p, p + sizeof value);
}

}  // namespace

Edit take_edit(ByteFeed* feed) {
  Edit edit = {};
  edit.kind = static_cast<EditKind>(feed->below(kEditKinds));
  edit.target = static_cast<uint8_t>(feed->below(kEditTargets));
  edit.offset = static_cast<uint32_t>(feed->number(3));
  edit.payload = feed->take(feed->byte());
  return edit;
}

void apply_edit(const Edit& edit, Bytes* bytes) {
  change(edit.kind, edit.offset, edit.payload, bytes);
}

ModelDraft::ModelDraft(std::span<const uint8_t> file) {
  format::FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  uint64_t data_offset = 0;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const auto e =
        value_at<format::SectionEntry>(file, sizeof header + i * sizeof(format::SectionEntry));
    const auto bytes = file.subspan(static_cast<size_t>(e.offset), static_cast<size_t>(e.bytes));
    sections_[e.kind].assign(bytes.begin(), bytes.end());
    order_.push_back(e.kind);
    if (e.kind == static_cast<uint32_t>(SectionKind::kData)) data_offset = e.offset;
  }
  laid_out_ = value_at<format::ModelScalars>(*section(SectionKind::kConfig), 0);
  Bytes& table = *section(SectionKind::kChunkTable);
  for (size_t at = 0; at < table.size(); at += sizeof(format::ChunkEntry)) {
    const uint64_t offset = value_at<uint64_t>(table, at) - data_offset;
    std::memcpy(table.data() + at, &offset, sizeof offset);
  }
}

Bytes* ModelDraft::section(SectionKind kind) { return &sections_[static_cast<size_t>(kind)]; }

void ModelDraft::apply(const Edit& edit) {
  if (edit.kind == EditKind::kDerive) return derive(edit.payload);
  switch (static_cast<EditTarget>(edit.target)) {
    case EditTarget::kHeader:
      header_edits_.push_back({edit.kind, edit.offset, {edit.payload.begin(), edit.payload.end()}});
      return;
    case EditTarget::kWholeFile:
      file_edits_.push_back({edit.kind, edit.offset, {edit.payload.begin(), edit.payload.end()}});
      return;
    case EditTarget::kText:
      return change(edit.kind, edit.offset, edit.payload, &text_);
    case EditTarget::kSourceBytes:
      missing_bytes_ = number_of(edit.payload);
      return;
  }
  if (edit.kind == EditKind::kMoveLast) {
    const auto found = std::find(order_.begin(), order_.end(), edit.target);
    if (found != order_.end()) std::rotate(found, found + 1, order_.end());
    return;
  }
  const bool was_absent = sections_[edit.target].empty();
  change(edit.kind, edit.offset, edit.payload, &sections_[edit.target]);
  if (was_absent && !sections_[edit.target].empty() &&
      std::find(order_.begin(), order_.end(), edit.target) == order_.end()) {
    order_.push_back(edit.target);
  }
}

void ModelDraft::replace(SectionKind kind, std::span<const uint8_t> bytes) {
  section(kind)->assign(bytes.begin(), bytes.end());
  if (kind == SectionKind::kConfig) laid_out_ = value_at<format::ModelScalars>(bytes, 0);
}

std::optional<ConfigParts> ModelDraft::asked_config() {
  const Bytes& bytes = *section(SectionKind::kConfig);
  if (bytes.size() < sizeof(format::ModelScalars)) return {};
  ConfigParts c;
  c.model = value_at<format::ModelScalars>(bytes, 0);
  if (c.model.n_kinds > format::kMaxKinds || c.model.n_layers > format::kMaxLayers) return {};
  const size_t layers_at = sizeof c.model + laid_out_.n_kinds * sizeof(format::LayerKind);
  const size_t counts_at = layers_at + round_up(laid_out_.n_layers, 8);
  c.kinds =
      first_values<format::LayerKind>(bytes, sizeof c.model, laid_out_.n_kinds, c.model.n_kinds);
  c.layers = first_values<uint8_t>(bytes, layers_at, laid_out_.n_layers, c.model.n_layers);
  c.counts =
      first_values<format::MatrixCount>(bytes, counts_at, laid_out_.n_counts, laid_out_.n_counts);
  if (c.kinds.empty() || c.layers.empty()) return {};
  put_in_order(c.kinds.size(), &c.layers);
  return c;
}

void ModelDraft::derive(std::span<const uint8_t> fill) {
  std::optional<ConfigParts> parts = asked_config();
  if (!parts.has_value() || !test::has_tensors(parts->view())) return;
  test::mend_counts(&*parts);
  const Bytes config_section = test::section_of(parts->view());
  if (config_section.empty()) return;
  replace(SectionKind::kConfig, config_section);
  const Config config = parts->view();
  if (check_config(config) != nullptr || all_tensor_bytes(config) > kMostBytes) return;
  Bytes* const directory = section(SectionKind::kTensorDirectory);
  Bytes* const table = section(SectionKind::kChunkTable);
  Bytes* const data = section(SectionKind::kData);
  directory->clear();
  table->clear();
  data->clear();
  uint32_t first_chunk = 0;
  const std::vector<MatrixFormat> formats = test::formats_of(config);
  TensorWalk walk(config);
  TensorSpec spec = {};
  for (size_t i = 0; i < formats.size() && walk.next(formats[i], &spec); ++i) {
    const format::TensorEntry entry = tensor_entry(spec, first_chunk);
    append(entry, directory);
    first_chunk += entry.n_chunks;

    const Bytes content = tensor_content(spec, fill);
    const auto codes = static_cast<size_t>(tensor_code_bytes(spec));
    for (size_t at = 0; at < content.size();) {
      const size_t plane_end = at < codes ? codes : content.size();
      const size_t n = std::min<size_t>(plane_end - at, format::kChunkRawBytes);
      data->resize(aligned(data->size()));
      format::ChunkEntry chunk = {};
      chunk.offset = data->size();
      chunk.stored_bytes = static_cast<uint32_t>(n);
      chunk.raw_bytes = static_cast<uint32_t>(n);
      append(chunk, table);
      data->insert(data->end(), content.begin() + static_cast<std::ptrdiff_t>(at),
                   content.begin() + static_cast<std::ptrdiff_t>(at + n));
      at += n;
    }
  }
}

// Header, table and sections, with everything right but the checksums.
void ModelDraft::lay_out(Bytes* file) const {
  format::FileHeader header = {};
  std::memcpy(header.magic, format::kMagic, sizeof header.magic);
  header.version = format::kVersion;
  std::vector<format::SectionEntry> entries;
  const auto n_sections = static_cast<size_t>(std::count_if(
      order_.begin(), order_.end(), [&](uint32_t kind) { return !sections_[kind].empty(); }));
  size_t end = sizeof header + n_sections * sizeof(format::SectionEntry);
  for (const uint32_t kind : order_) {
    if (sections_[kind].empty()) continue;
    format::SectionEntry entry = {};
    entry.kind = kind;
    entry.offset = aligned(end);
    entry.bytes = sections_[kind].size();
    entries.push_back(entry);
    end = static_cast<size_t>(entry.offset + entry.bytes);
  }
  header.section_count = static_cast<uint32_t>(entries.size());
  header.file_bytes = end;
  file->assign(end, 0);
  std::memcpy(file->data(), &header, sizeof header);
  uint64_t data_offset = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const format::SectionEntry& e = entries[i];
    std::memcpy(file->data() + sizeof header + i * sizeof e, &e, sizeof e);
    const Bytes& bytes = sections_[e.kind];
    std::copy(bytes.begin(), bytes.end(), file->begin() + static_cast<std::ptrdiff_t>(e.offset));
    if (e.kind == static_cast<uint32_t>(SectionKind::kData)) data_offset = e.offset;
  }
  for (const format::SectionEntry& e : entries) {
    if (e.kind != static_cast<uint32_t>(SectionKind::kChunkTable)) continue;
    for (size_t at = 0; at + sizeof(format::ChunkEntry) <= e.bytes;
         at += sizeof(format::ChunkEntry)) {
      uint8_t* const place = file->data() + e.offset + at;
      uint64_t offset;
      std::memcpy(&offset, place, sizeof offset);
      offset += data_offset;
      std::memcpy(place, &offset, sizeof offset);
    }
  }
}

Bytes ModelDraft::assemble() const {
  Bytes file;
  lay_out(&file);
  const auto late = [&](const std::vector<LateEdit>& edits, size_t most) {
    for (const LateEdit& edit : edits) {
      if (edit.kind != EditKind::kWrite && edit.kind != EditKind::kAdd && most != 0) continue;
      const uint32_t offset = most == 0 ? edit.offset : edit.offset % static_cast<uint32_t>(most);
      change(edit.kind, offset, edit.payload, &file);
    }
  };
  const size_t table_bytes =
      sizeof(format::FileHeader) + order_.size() * sizeof(format::SectionEntry);
  if (file.size() >= table_bytes) late(header_edits_, table_bytes);
  test::mend_checksums(file);
  late(file_edits_, 0);
  return file;
}

uint64_t ModelDraft::source_bytes(uint64_t file_bytes) const {
  return file_bytes - std::min<uint64_t>(missing_bytes_, file_bytes);
}

}  // namespace cria::fuzz
