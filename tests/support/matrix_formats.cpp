#include "tests/support/matrix_formats.h"

#include <iterator>
#include <map>
#include <utility>

#include "quant/format/align.h"

namespace cria::test {
namespace {

bool is_of(const format::MatrixCount& count, uint8_t kind, uint16_t role) {
  return count.kind == kind && count.role == role;
}

bool is_format(const format::MatrixCount& count) {
  return count.format < std::size(kMatrixFormats);
}

// Matrices by kind and role.
std::map<std::pair<uint8_t, uint16_t>, uint32_t> wanted_counts(const Config& c) {
  std::map<std::pair<uint8_t, uint16_t>, uint32_t> wanted;
  TensorWalk walk(c);
  for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
    if (spec.form == TensorForm::kMatrix) ++wanted[{spec.kind, static_cast<uint16_t>(spec.role)}];
  }
  return wanted;
}

}  // namespace

void set_all_formats(ConfigParts* c, MatrixFormat matrix_format) {
  c->count_formats([&](const TensorSpec&) { return matrix_format; });
}

void set_formats(ConfigParts* c, std::span<const MatrixFormat> formats) {
  std::vector<MatrixFormat> of_matrices;
  TensorWalk walk(c->view());
  for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec); formats = formats.subspan(1)) {
    if (spec.form == TensorForm::kMatrix) of_matrices.push_back(formats.front());
  }
  auto next = of_matrices.begin();
  c->count_formats([&](const TensorSpec&) { return *next++; });
}

bool has_tensors(const Config& c) {
  for (const format::LayerKind& k : c.kinds) {
    if (k.mixer > static_cast<uint8_t>(format::Mixer::kStateSpace)) return false;
    if (k.feed_forward > static_cast<uint8_t>(format::FeedForward::kExperts)) return false;
  }
  for (const uint8_t kind : c.layers) {
    if (kind >= c.kinds.size()) return false;
  }
  return true;
}

void mend_counts(ConfigParts* c) {
  const std::vector<format::MatrixCount> old = std::exchange(c->counts, {});
  const uint8_t main = !old.empty() && is_format(old[0]) ? old[0].format : uint8_t{0};
  for (const auto& [of, wanted] : wanted_counts(c->view())) {
    const auto& [kind, role] = of;
    std::vector<format::MatrixCount> own;
    uint64_t sum = 0;
    for (const format::MatrixCount& count : old) {
      if (!is_of(count, kind, role) || !is_format(count)) continue;
      own.push_back(count);
      sum += count.count;
    }
    if (sum != wanted) own = {{role, kind, own.empty() ? main : own[0].format, wanted}};
    c->counts.insert(c->counts.end(), own.begin(), own.end());
  }
}

std::vector<MatrixFormat> formats_of(const Config& config) {
  std::vector<format::MatrixCount> left(config.counts.begin(), config.counts.end());
  std::vector<MatrixFormat> formats;
  TensorWalk walk(config);
  for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
    formats.push_back(kMatrixFormats[0]);
    if (spec.form != TensorForm::kMatrix) continue;
    for (format::MatrixCount& count : left) {
      if (!is_of(count, spec.kind, static_cast<uint16_t>(spec.role)) || count.count == 0) continue;
      --count.count;
      formats.back() = kMatrixFormats[count.format];
      break;
    }
  }
  return formats;
}

TensorSpec spec_at(const Config& config, uint32_t index) {
  return tensor_spec(config, index, formats_of(config)[index]);
}

uint64_t offset_of(const Config& config, uint32_t index) {
  const std::vector<MatrixFormat> formats = formats_of(config);
  TensorWalk walk(config);
  uint64_t offset = 0;
  TensorSpec spec = {};
  for (uint32_t i = 0; i < index && walk.next(formats[i], &spec); ++i) {
    offset += aligned(tensor_bytes(spec));
  }
  return offset;
}

}  // namespace cria::test
