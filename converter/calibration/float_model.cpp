#include "converter/calibration/float_model.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "platforms/hosted/machine/cpu.h"
#include "runtime/blocks/blocks.h"
#include "runtime/blocks/per_layer/per_layer.h"
#include "runtime/weights/weight_loader.h"

namespace cria::converter {
namespace {

// An exception does not go through the runtime, which knows none.
struct Asked {
  const Products& products;
  std::exception_ptr error;
};

Status ask(const LinearTools& tools, const float* x, std::span<const Segment> segments,
           std::span<const LinearCall> calls) {
  if (calls.empty()) return Status::kOk;
  auto* const asked = static_cast<Asked*>(tools.workspace);
  try {
    const size_t cols = calls.front().tensor->shape.cols;
    std::vector<LinearCall> of_segment(calls.size());
    for (const Segment& segment : segments) {
      for (size_t i = 0; i < calls.size(); ++i) {
        const size_t rows = calls[i].tensor->shape.rows;
        of_segment[i] = {calls[i].tensor, calls[i].y + segment.first_row * rows};
      }
      asked->products(of_segment, segment.index, x + segment.first_row * cols, segment.n_rows);
    }
  } catch (...) {
    asked->error = std::current_exception();
    return Status::kCancelled;
  }
  return Status::kOk;
}

constexpr Backend kAskingBackend = {"asking", nullptr, nullptr, nullptr, ask};

// What a step computes with.
struct Scratch {
  float* normed;
  float* block;
  uint8_t* blocks;
};
Scratch lay_out_scratch(const Config& config, const StepShape& shape, Carver* carver) {
  return {carver->take<float>(shape.n_rows, widest_attended(config)),
          carver->take<float>(shape.n_rows, config.model->d_model),
          carver->take<uint8_t>(block_scratch(config, shape))};
}

// The caches [n_kinds] of a sequence.
std::vector<KvCache> make_caches(const Config& config, const FloatModel::Rooms& rooms,
                                 Carver* carver) {
  // Layers one at a time need the state of one of each kind.
  std::vector<uint8_t> kinds(config.kinds.size());
  std::iota(kinds.begin(), kinds.end(), uint8_t{0});
  Config kept = config;
  if (!rooms.keeps_all_layers) kept.layers = kinds;
  PlanInput input = {};
  input.context = static_cast<uint32_t>(rooms.n_positions);
  input.prefill_chunk = input.context;  // all rows are written before they are read
  input.kv_format = rooms.kv_format;
  std::vector<KvCache> caches;
  for (const uint8_t kind : kinds) caches.push_back(make_cache(kept, kind, input, carver));
  return caches;
}

// Calls take(begin, number of bytes) for each part of what a cache holds.
template <typename Take>
void for_parts(const KvCache& cache, const Take& take) {
  for (size_t i = 0; i < cache.n_parts; ++i) {
    take(cache.rows[i],
         size_t{cache.n_layers} * cache.n_heads * cache.n_positions * cache.row_bytes[i]);
  }
}

// Memory that is kept, beginning as a Carver wants it.
uint8_t* reserve(std::vector<std::unique_ptr<uint8_t[]>>* memory, uint64_t n_bytes) {
  auto room = static_cast<size_t>(n_bytes) + format::kAlignment;
  memory->push_back(std::make_unique_for_overwrite<uint8_t[]>(room));
  void* begin = memory->back().get();
  return static_cast<uint8_t*>(
      std::align(format::kAlignment, static_cast<size_t>(n_bytes), begin, room));
}

uint64_t cache_bytes(const Config& config, const FloatModel::Rooms& rooms) {
  Carver counting;
  (void)make_caches(config, rooms, &counting);
  return counting.taken();
}

uint64_t scratch_bytes(const Config& config, const StepShape& shape) {
  Carver counting;
  (void)lay_out_scratch(config, shape, &counting);
  return counting.taken();
}

StepShape shape_of(size_t n_rows, size_t n_threads) {
  return {static_cast<uint32_t>(n_rows), static_cast<uint32_t>(n_threads)};
}

FloatModel::Rooms rooms_of(const TokenSequences& sequences) {
  size_t longest = 0;
  for (const std::vector<uint32_t>& tokens : sequences) longest = std::max(longest, tokens.size());
  return {sequences.size(), longest, token_count(sequences), KvFormat::kF32, false};
}

}  // namespace

std::vector<TokenRow> rows_of(const TokenSequences& sequences) {
  std::vector<TokenRow> rows;
  for (uint32_t sequence = 0; sequence < sequences.size(); ++sequence) {
    uint32_t position = 0;
    for (const uint32_t token : sequences[sequence]) rows.push_back({sequence, position++, token});
  }
  return rows;
}

uint64_t FloatModel::bytes(const Config& config, const Rooms& rooms, size_t n_threads) {
  return rooms.n_sequences * cache_bytes(config, rooms) +
         scratch_bytes(config, shape_of(rooms.n_rows, n_threads));
}

uint64_t FloatModel::stream_bytes(const Config& config, const Rooms& rooms) {
  std::vector<uint8_t> kept;
  for (const format::LayerKind& kind : config.kinds) {
    const bool is_new = std::find(kept.begin(), kept.end(), kind.shared_with) == kept.end();
    if (kind.shared_with != format::kNoKind && is_new) kept.push_back(kind.shared_with);
  }
  Config of_kept = config;
  of_kept.layers = kept;
  Rooms of_each = rooms;
  of_each.keeps_all_layers = true;
  return sizeof(float) * rooms.n_rows * config.model->d_model +
         rooms.n_sequences * cache_bytes(of_kept, of_each);
}

FloatModel::FloatModel(const Config& config, const PlannedWeights& weights, const Rooms& rooms,
                       hosted::ThreadPool* pool)
    : config_(config),
      planned_(weights),
      rooms_(rooms),
      shape_(shape_of(rooms.n_rows, pool->n_threads())),
      threads_{shape_.n_threads, pool->hook(), pool->context()} {
  (void)select_kernels(hosted::cpu_isas(), &kernels_);
  bind_tensors();
  if (!rooms.keeps_all_layers) {
    for (Layer& layer : weights_.layers) layer.state_layer = 0;
  }
  make_states(rooms);
  Carver carver(reserve(&memory_, scratch_bytes(config_, shape_)));
  const Scratch scratch = lay_out_scratch(config_, shape_, &carver);
  normed_ = scratch.normed;
  block_ = scratch.block;
  scratch_ = scratch.blocks;
}

FloatModel::FloatModel(const Config& config, const PlannedWeights& weights,
                       const TokenSequences& sequences, hosted::ThreadPool* pool)
    : FloatModel(config, weights, rooms_of(sequences), pool) {
  set_rows(rows_of(sequences));
}

void FloatModel::bind_tensors() {
  Carver carver(reserve(&memory_, object_bytes(config_)));
  lay_out_weights(config_, &carver, &weights_);
  find_blocks(weights_);
  for (uint32_t i = 0; i < weights_.tensors.size(); ++i) {
    const PlannedTensor& planned = planned_.tensors()[i];
    const uint8_t* place = nullptr;
    if (!planned.spec.is_matrix()) {
      vectors_.push_back(planned_.vector(planned));
      place = reinterpret_cast<const uint8_t*>(vectors_.back().data());
    }
    bind_tensor(planned.spec, i, place, &weights_);
  }
}

void FloatModel::make_states(const Rooms& rooms) {
  for (size_t i = 0; i < rooms.n_sequences; ++i) {
    Carver carver(reserve(&memory_, cache_bytes(config_, rooms)));
    caches_.push_back(make_caches(config_, rooms, &carver));
    LayerStates& states = states_.emplace_back();
    states.caches = caches_.back().data();
    choose_rope_rates(*config_.model, weights_, config_.model->planned_context, &states);
  }
}

void FloatModel::set_rows(std::span<const TokenRow> rows) {
  rows_.clear();
  for (const TokenRow& row : rows) {
    rows_.push_back({&states_[row.sequence], row.position, row.token});
  }
  cosines_.resize(rows.size() * 2 * rope_pairs(*config_.model));
  find_angles(step(nullptr, nullptr), cosines_.data());
}

Step FloatModel::step(void* of_backend, Stream* stream) const {
  return {.config = config_,
          .kernels = kernels_,
          .threads = threads_,
          .backend = kAskingBackend,
          .quantized = {},
          .of_backend = of_backend,
          .shape = shape_,
          .rows = rows_,
          .x = stream != nullptr ? stream->x.data() : nullptr,
          .normed = normed_,
          .block = block_,
          .embedded = stream != nullptr && stream->embedded ? stream->embedded->data() : nullptr,
          .cosines = cosines_.data(),
          .scratch = scratch_};
}

void FloatModel::embed_row(size_t row, const float* of_token, Floats* x) const {
  const size_t width = config_.model->d_model;
  float* const to = x->data() + row * width;
  std::copy_n(of_token, width, to);
  finish_embedding(step(nullptr, nullptr), weights_, rows_[row], to);
}

void FloatModel::embed(const Floats& table, size_t first, Floats* x) const {
  const size_t width = config_.model->d_model;
  const size_t end = first + table.size() / width;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t token = rows_[i].token;
    if (token >= first && token < end) embed_row(i, table.data() + (token - first) * width, x);
  }
}

Stream FloatModel::start(Floats x) const {
  Stream stream;
  if (config_.model->per_layer_width != 0) stream.embedded = std::make_shared<const Floats>(x);
  stream.x = std::move(x);
  return stream;
}

// Whether a later layer reads a layer's keys and values, and not those of one between them.
bool FloatModel::is_read_later(uint32_t layer) const {
  for (uint32_t i = layer + 1; i < config_.layers.size(); ++i) {
    if (config_.layers[i] == config_.layers[layer]) return false;
    if (config_.kind_of(i).shared_with == config_.layers[layer]) return true;
  }
  return false;
}

void FloatModel::keep_state(uint8_t kind, Stream* stream) const {
  std::vector<uint8_t> kept;
  for (const std::vector<KvCache>& caches : caches_) {
    for_parts(caches[kind],
              [&](const uint8_t* begin, size_t n) { kept.insert(kept.end(), begin, begin + n); });
  }
  stream->kept[kind] = std::make_shared<const std::vector<uint8_t>>(std::move(kept));
}

void FloatModel::restore_state(uint8_t kind, const Stream& stream) {
  const uint8_t* from = stream.kept.at(kind)->data();
  for (const std::vector<KvCache>& caches : caches_) {
    for_parts(caches[kind], [&](uint8_t* begin, size_t n) {
      std::copy_n(from, n, begin);
      from += n;
    });
  }
}

template <typename Part>
void FloatModel::run(const Products& products, Stream* stream, const Part& part) {
  Asked asked = {products, nullptr};
  (void)part(step(&asked, stream));
  if (asked.error) std::rethrow_exception(asked.error);
}

void FloatModel::mix(uint32_t layer, const Products& products, Stream* stream) {
  const uint8_t kind = config_.layers[layer];
  const uint8_t read = config_.kinds[kind].shared_with;
  if (!rooms_.keeps_all_layers && read != format::kNoKind) restore_state(read, *stream);
  run(products, stream, [&](const Step& s) { return cria::mix(s, weights_.layers[layer]); });
  if (!rooms_.keeps_all_layers && is_read_later(layer)) keep_state(kind, stream);
}

void FloatModel::feed_forward(uint32_t layer, const Products& products, Stream* stream) {
  run(products, stream, [&](const Step& s) {
    CRIA_TRY(cria::feed_forward(s, weights_.layers[layer]));
    read_table(layer, *stream, s);
    return finish_layer(s, weights_, layer);
  });
}

void FloatModel::read_table(uint32_t layer, const Stream& stream, const Step& s) const {
  const Layer& of_index = weights_.layers[layer];
  if (!of_index.has(format::flag::kPerLayerInput)) return;
  std::vector<size_t> numbers;
  for (const Row& row : rows_) {
    numbers.push_back(per_layer::table_row(*config_.model, row.token, layer));
  }
  float* const rows = per_layer::table_rows(s, *of_index.kind);
  planned_.gather(planned_.find(format::TensorRole::kPerLayerTable), numbers, rows);
  if (stream.round_table) stream.round_table(numbers.size(), rows);
}

void FloatModel::run_layer(uint32_t layer, const Products& products, Stream* stream) {
  mix(layer, products, stream);
  feed_forward(layer, products, stream);
}

Floats FloatModel::finish(const Floats& x) const {
  Floats y(x.size());
  normalize_last(step(nullptr, nullptr), weights_, x.data(), y.data());
  return y;
}

void FloatModel::finish_logits(size_t n, float* logits) const {
  cria::finish_logits(step(nullptr, nullptr), n, logits);
}

}  // namespace cria::converter
