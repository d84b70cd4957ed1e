// cria_inspect, cria_read_metadata and cria_plan: what can be said before memory is
// given.
#include <cstring>
#include <iterator>

#include "quant/format/all_zero.h"
#include "quant/format/architectures.h"
#include "quant/format/checksum.h"
#include "quant/format/metadata_check.h"
#include "quant/model/role_names.h"
#include "quant/text/chat_template_format.h"
#include "quant/text/tokenizer_format.h"
#include "runtime/base/enum_bits.h"
#include "runtime/decode/planning.h"
#include "runtime/decode/session.h"
#include "runtime/loading/file_index.h"

namespace cria {
namespace {

constexpr const char* kUnknown = "unknown";

static_assert(CRIA_F32 == static_cast<int>(format::NumberFormat::kF32) &&
              CRIA_F16 == static_cast<int>(format::NumberFormat::kF16) &&
              CRIA_BF16 == static_cast<int>(format::NumberFormat::kBf16) &&
              CRIA_INT8 == static_cast<int>(format::NumberFormat::kInt8) &&
              CRIA_INT4 == static_cast<int>(format::NumberFormat::kInt4) &&
              CRIA_INT4NL == static_cast<int>(format::NumberFormat::kInt4Nl) &&
              CRIA_INT8G32 == static_cast<int>(format::NumberFormat::kInt8G32) &&
              CRIA_BIT1 == static_cast<int>(format::NumberFormat::kBit1) &&
              CRIA_BIT2 == static_cast<int>(format::NumberFormat::kBit2) &&
              CRIA_BIT2 == std::size(kNumberFormatList));
static_assert(CRIA_POOLING_LAST == static_cast<int>(format::Pooling::kLast) &&
              CRIA_POOLING_MEAN == static_cast<int>(format::Pooling::kMean) &&
              CRIA_POOLING_FIRST == static_cast<int>(format::Pooling::kFirst));

// How many of a tensor's matrices a token reads; of a table it reads a row.
uint32_t matrices_read(const Config& c, const TensorSpec& spec) {
  switch (spec.role) {
    case format::TensorRole::kEmbedding:
      return has_flag(c, format::kTiedEmbedding) ? 1 : 0;
#if CRIA_WITH_VARIANTS
    case format::TensorRole::kPositions:
    case format::TensorRole::kPerLayerTable:
      return 0;
#endif
#if CRIA_WITH_EXPERTS
    case format::TensorRole::kExpertGate:
    case format::TensorRole::kExpertUp:
    case format::TensorRole::kExpertDown:
      return c.kinds[spec.kind].n_chosen;
#endif
    default:
      return spec.n_matrices;
  }
}

// Parameters are the elements of all tensors but RoPE's rates; a tied embedding counts once.
void count_weights(const Config& c, cria_model_info* info) {
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    const TensorSpec& spec = kind.spec;
    const uint64_t n_read = uint64_t{kind.n} * matrices_read(c, spec);
    info->active_bytes += aligned(tensor_bytes(spec)) / spec.n_matrices * n_read;
    if (spec.role == format::TensorRole::kRope) continue;
    const uint64_t n_elements = uint64_t{spec.shape.rows} * spec.shape.cols;
    info->n_parameters += n_elements * spec.n_matrices * kind.n;
    info->n_active_parameters += n_elements * n_read;
  }
}

// The format of the layers' matrices, where it is one.
void fill_weight_format(const Config& c, cria_model_info* info) {
  MatrixFormat first = {};
  bool is_first = true;
  bool is_mixed = false;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (kind.spec.form != TensorForm::kMatrix || kind.spec.kind == format::kNoKind) continue;
    if (is_first) first = format_of(kind.spec.shape);
    is_first = false;
    is_mixed = is_mixed || !(format_of(kind.spec.shape) == first);
  }
  info->weight_format =
      is_mixed ? CRIA_MIXED : static_cast<cria_number_format>(first.number_format);
  info->group_size = is_mixed ? uint16_t{0} : first.group_size;
}

Status chat_template_kind(const cria_source& source, const Section& section, uint32_t* kind) {
  *kind = 0;
  if (section.bytes < sizeof(format::ChatTemplateHeader)) return Status::kOk;
  format::ChatTemplateHeader header;
  CRIA_TRY(read_source(source, section.offset, &header, sizeof header));
  *kind = header.kind;
  return Status::kOk;
}

void fill_info(const FileIndex& index, const cria_source& source, cria_model_info* info) {
  const Config& c = index.config;
  const format::ModelScalars& m = *c.model;
  const MatrixShape embedding = model_matrix(c, format::TensorRole::kEmbedding);
  info->file_bytes = source.size;
  count_weights(c, info);
  info->weight_bytes = all_tensor_bytes(c);
  info->embedding_bytes = matrix_bytes(embedding);
  info->tokenizer_bytes = index.tokenizer.bytes;
  info->chat_template_bytes = index.chat_template.bytes;
  info->metadata_offset = index.metadata.offset;
  info->metadata_bytes = index.metadata.bytes;
  info->format_version = format::kVersion;
  info->architecture = m.architecture;
  info->n_layers = m.n_layers;
  info->d_model = m.d_model;
  info->n_layer_kinds = m.n_kinds;
  info->config_bytes = static_cast<uint32_t>(config_bytes(m));
  info->vocab_size = m.vocab_size;
  info->max_context = m.max_context;
  info->planned_context = m.planned_context;
  info->bos_token = m.bos_token;
  fill_weight_format(c, info);
  info->embedding_format = static_cast<cria_number_format>(embedding.number_format);
  info->tied_embedding = has_flag(c, format::kTiedEmbedding) ? 1 : 0;
  info->compressed = is_stored(c) ? 0 : 1;
  info->signed_scales = has_flag(c, format::kSignedScales) ? 1 : 0;
  info->can_drop = can_drop(c) ? 1 : 0;
  info->keeps_blocks = keeps_blocks(c) ? 1 : 0;
  info->pooling = static_cast<uint8_t>(m.pooling);
  info->unit_embeddings = has_flag(c, format::kUnitEmbeddings) ? 1 : 0;
  info->has_tokenizer = index.tokenizer.bytes != 0 ? 1 : 0;
}

// The config's bytes, which info carries for the calls that follow.
ConfigBytes* config_bytes_of(cria_model_info* info) {
  static_assert(sizeof info->private_config == sizeof(ConfigBytes));
  return reinterpret_cast<ConfigBytes*>(info->private_config);
}

Status inspect(const cria_source& source, cria_model_info* info) {
  *info = {};
  FileIndex index;
  const char* refused = nullptr;
  uint64_t at = 0;
  const Status status = open_index(source, config_bytes_of(info), &index, &refused, &at);
  if (status != Status::kOk) {
    *info = {};
    info->refused = refused;
    return status;
  }
  fill_info(index, source, info);
  return chat_template_kind(source, index.chat_template, &info->chat_template);
}

Status read_metadata(const cria_source& source, const cria_model_info& info, char* text,
                     size_t capacity) {
  FileIndex index;
  Section config;
  const char* refused = nullptr;
  uint64_t at = 0;
  CRIA_TRY(open_sections(source, &index, &config, &refused, &at));
  const Section& section = index.metadata;
  if (section.offset != info.metadata_offset || section.bytes != info.metadata_bytes) {
    return Status::kInvalidArgument;
  }
  if (section.bytes == 0) return Status::kOk;
  if (section.bytes > capacity) return Status::kBufferTooSmall;
  const auto n_bytes = static_cast<size_t>(section.bytes);
  CRIA_TRY(read_source(source, section.offset, text, n_bytes));
  if (xxh64(text, n_bytes) != section.checksum) return Status::kCorrupt;
  MetadataCheck check;
  check.add(reinterpret_cast<const uint8_t*>(text), n_bytes);
  return check.holds() ? Status::kOk : Status::kInvalidModel;
}

Status config_of(const cria_model_info& info, Config* config) {
  const auto* section = reinterpret_cast<const uint8_t*>(info.private_config);
  if (info.config_bytes > sizeof info.private_config) return Status::kInvalidArgument;
  const bool holds = read_config({section, info.config_bytes}, config) == nullptr;
  return holds ? Status::kOk : Status::kInvalidArgument;
}

// Matrices of a role and format in all kinds of layers; 0: a kind before this one has some.
uint32_t count_matrices(const Config& model, const TensorSpec& spec) {
  uint32_t n = 0;
  TensorKinds kinds(model);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    const bool is_alike =
        kind.spec.role == spec.role && format_of(kind.spec.shape) == format_of(spec.shape);
    if (is_alike && n == 0 && kind.spec.kind != spec.kind) return 0;
    if (is_alike) n += kind.n;
  }
  return n;
}

Status find_matrix_kind(const cria_model_info& info, uint32_t index, cria_matrix_kind* out) {
  *out = {};
  Config model;
  CRIA_TRY(config_of(info, &model));
  TensorKinds kinds(model);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (!kind.spec.is_matrix()) continue;
    const uint32_t n = count_matrices(model, kind.spec);
    if (n == 0 || index-- != 0) continue;
    const MatrixFormat f = format_of(kind.spec.shape);
    *out = {role_name(kind.spec.role), static_cast<cria_number_format>(f.number_format),
            f.group_size, n};
    return Status::kOk;
  }
  return Status::kInvalidArgument;
}

Status find_layer_kind(const cria_model_info& info, uint32_t index, cria_layer_kind* out) {
  *out = {};
  Config config;
  CRIA_TRY(config_of(info, &config));
  if (index >= config.kinds.size()) return Status::kInvalidArgument;
  const format::LayerKind& k = config.kinds[index];
  out->n_layers = layers_of(config, index);
  out->mixer = static_cast<cria_mixer>(k.mixer);
  out->feed_forward = static_cast<cria_feed_forward>(k.feed_forward);
  out->n_heads = k.n_query_heads;
  out->n_kv_heads = k.n_key_heads;
  const bool has_states = out->mixer == CRIA_DELTA_RULE || out->mixer == CRIA_STATE_SPACE;
  out->n_states = has_states ? k.n_value_heads : 0;
  out->key_dim = k.key_dim;
  out->value_dim = k.value_dim;
  out->d_ff = k.d_ff;
  out->window = k.window;
  out->n_experts = k.n_experts;
  out->n_chosen = k.n_chosen;
  out->expert_ff = k.expert_ff;
  if (k.rope_table != format::kNoTable) {
    out->has_rope = 1;
    out->original_context = config.model->rope_tables[k.rope_table].original_context;
  }
  return Status::kOk;
}

Status plan(const cria_model_info& info, const cria_config& config, cria_memory_plan* out) {
  Config model;
  CRIA_TRY(config_of(info, &model));
  Plan made;
  CRIA_TRY(
      make_plan({model, info.tokenizer_bytes, info.chat_template_bytes, nullptr}, config, &made));
  const MemoryPlan& m = made.memory;
  *out = {};
  out->model.total = m.model.total;
  out->model.objects = m.model.objects;
  out->model.tokenizer = m.model.tokenizer;
  out->model.weights = m.model.weights;
  out->model.backend = m.model.backend;
  out->session.total = m.session.total;
  out->session.objects = m.session.objects;
  out->session.kv_cache = m.session.kv_cache;
  out->session.history = m.session.history;
  out->session.logits = m.session.logits;
  out->workspace.total = m.workspace.total;
  out->workspace.objects = m.workspace.objects;
  out->workspace.backend = m.workspace.backend;
  out->workspace.running = m.workspace.running;
  out->workspace.sampling = m.workspace.sampling;
  out->workspace.encoding = m.workspace.encoding;
  out->loading = m.loading;
  out->total = m.total;
  out->in_place = m.in_place;
  return Status::kOk;
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_inspect(const cria_source* source, cria_model_info* info) {
  if (source == nullptr || info == nullptr || (source->map == nullptr && source->read == nullptr)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::inspect(*source, info));
}

extern "C" cria_status cria_read_metadata(const cria_source* source, const cria_model_info* info,
                                          char* text, size_t capacity) {
  if (source == nullptr || info == nullptr || (text == nullptr && capacity != 0) ||
      (source->map == nullptr && source->read == nullptr) || !cria::all_zero(info->reserved)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::read_metadata(*source, *info, text, capacity));
}

extern "C" cria_status cria_find_matrix_kind(const cria_model_info* info, uint32_t index,
                                             cria_matrix_kind* kind) {
  if (info == nullptr || kind == nullptr || !cria::all_zero(info->reserved)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::find_matrix_kind(*info, index, kind));
}

extern "C" cria_status cria_find_layer_kind(const cria_model_info* info, uint32_t index,
                                            cria_layer_kind* kind) {
  if (info == nullptr || kind == nullptr || !cria::all_zero(info->reserved)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::find_layer_kind(*info, index, kind));
}

extern "C" cria_status cria_plan(const cria_model_info* info, const cria_config* config,
                                 cria_memory_plan* plan) {
  if (info == nullptr || config == nullptr || plan == nullptr || !cria::all_zero(info->reserved)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::plan(*info, *config, plan));
}

extern "C" const char* cria_architecture_name(uint32_t architecture) {
  return cria::is_architecture(architecture) ? cria::kArchitectureNames[architecture - 1]
                                             : cria::kUnknown;
}

extern "C" const char* cria_number_format_name(cria_number_format number_format) {
  const uint32_t value = cria::enum_bits(number_format);
  if (value == CRIA_MIXED) return "mixed";
  if (!cria::is_number_format(value)) return cria::kUnknown;
  return cria::number_format_name(static_cast<cria::format::NumberFormat>(value));
}

extern "C" const char* cria_chat_template_name(uint32_t chat_template) {
  return chat_template < std::size(cria::format::kChatTemplateNames)
             ? cria::format::kChatTemplateNames[chat_template]
             : cria::kUnknown;
}
