#include "quant/model/memory_plan.h"

#include <initializer_list>

#include "quant/blocks/block_formats.h"
#include "quant/model/model_layout.h"

namespace cria {
namespace {

using format::LayerKind;

constexpr uint32_t kActivationGroup = 32;
constexpr uint64_t kCandidateBytes = 8;  // a token and its logit (runtime/decode/sampler.h)
constexpr uint64_t kEncodeSlackSymbols = 16;

uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

uint64_t total_of(std::initializer_list<uint64_t> parts) {
  uint64_t total = 0;
  for (const uint64_t part : parts) total = sum(total, part);
  return total;
}

bool keeps_block(const Config& c, const LayerKind& kind) {
  const BlockFormat& mixer = kMixerFormats[kind.mixer];
  return mixer.state != nullptr && mixer.state(*c.model, kind, {}).keeps == Keeps::kBlock;
}

uint64_t loading_bytes(const Config& c, const PlanInput& in) {
  const uint64_t per_thread = is_stored(c) ? 0 : kChunkScratchBytes;
  return sum(product(per_thread, in.n_threads), block(in.backend_load_bytes));
}

}  // namespace

uint64_t object_bytes(const Config& c) {
  // One tensor more: a tied output matrix.
  return total_of({kModelObjectBytes, block(config_bytes(*c.model)),
                   kKindObjectBytes * (c.kinds.size() + 1), kLayerObjectBytes * c.layers.size(),
                   kTensorObjectBytes * (tensor_count(c) + 1)});
}

uint32_t widest_attended(const Config& c) {
  uint32_t widest = c.model->d_model;
  for (const LayerKind& kind : c.kinds) {
    const uint32_t width = extents::kAttended(*c.model, kind);
    widest = width > widest ? width : widest;
  }
  return widest;
}

uint64_t block_scratch(const Config& c, const StepShape& shape) {
  uint64_t most = 0;
  for (const LayerKind& kind : c.kinds) {
    for (const BlockFormat* format :
         {&kMixerFormats[kind.mixer], &kFeedForwardFormats[kind.feed_forward]}) {
      if (format->scratch != nullptr) most = larger(most, format->scratch(*c.model, kind, shape));
    }
    if constexpr (kHasVariants) {
      most = larger(most, scratch_of<per_layer::lay_out>(*c.model, kind, shape));
    }
  }
  return most;
}

uint32_t layers_of(const Config& c, size_t kind) {
  uint32_t n = 0;
  for (const uint8_t of_layer : c.layers) n += of_layer == kind ? 1 : 0;
  return n;
}

uint32_t rope_pairs(const format::ModelScalars& m) {
  uint32_t n = 0;
  for (const format::RopeTable& table : m.rope_tables) n += table.n_pairs;
  return n;
}

uint32_t kept_positions(const LayerKind& kind, uint32_t context, uint32_t prefill_chunk) {
  if (kind.window == 0) return context;
  const uint64_t needed = uint64_t{kind.window} + prefill_chunk - 1;
  const uint64_t ring = (needed + attention::kTile - 1) / attention::kTile * attention::kTile;
  return ring < context ? static_cast<uint32_t>(ring) : context;
}

uint32_t kept_values(const LayerKind& kind) {
  const uint32_t of_heads = uint32_t{kind.key_dim} + kind.value_dim;
  const uint32_t compressed = uint32_t{kind.latent_rank} + kind.shared_key_dim;
  return compressed > of_heads ? compressed : of_heads;
}

uint64_t moving_floats(const Config& c, uint32_t n_threads) {
  uint64_t most = 0;
  for (const LayerKind& kind : c.kinds) {
    most = larger(most, kind.key_dim + uint64_t{2} * kept_values(kind) * n_threads);
  }
  return most;
}

uint32_t state_slots(const Config& c, uint32_t n_snapshots) {
  if constexpr (!kHasBlocks) return 0;
  for (const LayerKind& kind : c.kinds) {
    if (keeps_block(c, kind)) return n_snapshots + kMoreSlots;
  }
  return 0;
}

StateLayout lay_out_state(const Config& c, size_t kind, const PlanInput& in, Carver* carver) {
  StateLayout layout = {};
  const LayerKind& k = c.kinds[kind];
  const BlockFormat& mixer = kMixerFormats[k.mixer];
  if (mixer.state == nullptr) return layout;
  layout.parts = mixer.state(*c.model, k, in.kv_format);
  layout.n_positions = kHasBlocks && layout.parts.keeps == Keeps::kBlock
                           ? state_slots(c, in.n_snapshots)
                           : kept_positions(k, in.context, in.prefill_chunk);
  const uint64_t n_heads = uint64_t{layers_of(c, kind)} * layout.parts.n_heads;
  const uint64_t rows = product(n_heads, layout.n_positions);
  for (size_t i = 0; i < layout.parts.n; ++i) {
    const StatePart& part = layout.parts.parts[i];
    layout.memory[i] = carver->take<uint8_t>(product(rows, part.row_bytes));
  }
  return layout;
}

ProductInputs most_inputs(const Config& c, uint32_t n_rows) {
  ProductInputs most = {n_rows, 1, n_rows * widest_input(c)};
#if CRIA_WITH_LATENT || CRIA_WITH_EXPERTS
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    const TensorSpec& spec = kind.spec;
    if (spec.n_matrices == 1 || spec.kind == format::kNoKind) continue;
    // All heads of latent attention have all rows; experts share out those of a token's choice.
    const bool is_of_heads =
        spec.role == format::TensorRole::kKeyUp || spec.role == format::TensorRole::kValueUp;
    const uint64_t rows =
        uint64_t{n_rows} * (is_of_heads ? spec.n_matrices : c.kinds[spec.kind].n_chosen);
    most.rows = larger(most.rows, rows);
    most.segments = larger(most.segments, spec.n_matrices < rows ? spec.n_matrices : rows);
    most.values = larger(most.values, product(rows, padded_input(spec.shape.cols)));
  }
#endif
  return most;
}

StepMemory lay_out_step(const Config& c, const PlanInput& in, Carver* carver) {
  const format::ModelScalars& m = *c.model;
  const uint32_t rows = in.prefill_chunk;
  const uint64_t inputs = most_inputs(c, rows).values;
  StepMemory s = {};
  s.x = carver->take<float>(rows, m.d_model);
  s.normed = carver->take<float>(rows, widest_attended(c));
  s.block = carver->take<float>(rows, m.d_model);
  s.embedded = carver->take<float>(m.per_layer_width != 0 ? rows : 0, m.d_model);
  s.codes = carver->take<int8_t>(inputs);
  s.scales = carver->take<float>(inputs / kActivationGroup);
  s.sums = carver->take<int32_t>(inputs / kActivationGroup);
  s.cosines = carver->take<float>(rows, 2 * rope_pairs(m));
  s.scratch = carver->take<uint8_t>(block_scratch(c, {in.prefill_chunk, in.n_threads}));
  s.rows = carver->take<uint8_t>(rows, kRowObjectBytes);
  s.entry_logits = carver->take<float>(in.max_entries > 1 ? in.max_entries : 0, m.vocab_size);
  s.backend = carver->take<uint8_t>(in.backend_step_bytes);
  return s;
}

uint64_t scratch_bytes(const MemoryPlan::Workspace& w) {
  return larger(w.running, larger(w.sampling, w.encoding));
}

bool plan_memory(const Config& c, const PlanInput& in, MemoryPlan* plan) {
  MemoryPlan p = {};
  const uint64_t tables = sum(block(in.tokenizer_bytes), block(in.chat_template_bytes));
  // A config is read to where the model will be.
  const uint64_t record = sum(kModelObjectBytes, block(config_bytes(*c.model)));
  p.model.objects = larger(record, format::kMaxConfigBytes);
  p.model.tokenizer = in.mapped ? 0 : tables;
  p.in_place = in.mapped ? tables : 0;
  p.workspace.objects = kWorkspaceObjectBytes;
  p.workspace.encoding =
      in.tokenizer_bytes == 0
          ? 0
          : block((in.max_text_bytes + kEncodeSlackSymbols) * kEncodeBytesPerSymbol);
  if (!in.text_only) {
    const KeptTensors kept =
        in.backend_keeps_tile16 ? KeptTensors::kAll : KeptTensors::kVectorsAndTables;
    const TensorBytes weights = kept_tensor_bytes(c, kept, in.mapped);
    p.model.objects = larger(object_bytes(c), format::kMaxConfigBytes);
    p.model.weights = weights.in_memory;
    p.in_place += weights.in_place;
    p.model.backend = block(in.backend_model_bytes);
    p.session.objects = kSessionObjectBytes + block(kCacheObjectBytes * c.kinds.size()) +
                        block(kSlotObjectBytes * state_slots(c, in.n_snapshots));
    Carver state;
    for (size_t kind = 0; kind < c.kinds.size(); ++kind) (void)lay_out_state(c, kind, in, &state);
    p.session.kv_cache = state.taken();
    p.session.history = block(uint64_t{in.context} * 4);
    p.session.logits =
        block(uint64_t{c.model->vocab_size} * 4) + block(uint64_t{c.model->d_model} * 4);
    p.workspace.backend = block(in.backend_workspace_bytes);
    Carver step;
    (void)lay_out_step(c, in, &step);
    p.workspace.running = larger(step.taken(), block(product(moving_floats(c, in.n_threads), 4)));
    p.workspace.sampling = block(c.model->vocab_size * kCandidateBytes);
    p.loading = loading_bytes(c, in);
  }
  p.model.total = total_of({p.model.objects, p.model.tokenizer, p.model.weights, p.model.backend});
  p.session.total =
      total_of({p.session.objects, p.session.kv_cache, p.session.history, p.session.logits});
  p.workspace.total =
      total_of({p.workspace.objects, p.workspace.backend, scratch_bytes(p.workspace)});
  p.total = total_of({p.model.total, p.session.total, larger(p.workspace.total, p.loading)});
  *plan = p;
  return p.total < kSaturated;
}

}  // namespace cria
