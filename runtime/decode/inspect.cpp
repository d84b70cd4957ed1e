// cria_inspect, cria_read_metadata and cria_plan: what can be said before memory is
// given.
#include <cstring>
#include <iterator>

#include "quant/all_zero.h"
#include "quant/architectures.h"
#include "quant/chat_template_format.h"
#include "quant/checksum.h"
#include "quant/metadata_check.h"
#include "quant/tensor_roles.h"
#include "quant/tokenizer_format.h"
#include "runtime/base/enum_bits.h"
#include "runtime/decode/planning.h"
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
              CRIA_INT8G32 == static_cast<int>(format::NumberFormat::kInt8G32));

// Elements of all tensors but the RoPE frequencies; a tied embedding counts once.
uint64_t parameter_count(const format::ModelConfig& c) {
  uint64_t n = 0;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (is_rope(kind.spec.role)) continue;
    n += uint64_t{kind.n} * kind.spec.shape.rows * kind.spec.shape.cols;
  }
  return n;
}

// The format of the layers' matrices, where it is one.
void fill_weight_format(const format::ModelConfig& c, cria_model_info* info) {
  const MatrixFormat first = format_of(role_shape(c, format::TensorRole::kQ));
  bool is_mixed = false;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    is_mixed = is_mixed || (is_layer_matrix(kind.spec) && !(format_of(kind.spec.shape) == first));
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
  const format::ModelConfig& c = index.config;
  const MatrixShape embedding = role_shape(c, format::TensorRole::kEmbedding);
  *info = {};
  info->file_bytes = source.size;
  info->n_parameters = parameter_count(c);
  info->weight_bytes = all_tensor_bytes(c);
  info->embedding_bytes = matrix_bytes(embedding);
  info->tokenizer_bytes = index.tokenizer.bytes;
  info->chat_template_bytes = index.chat_template.bytes;
  info->metadata_offset = index.metadata.offset;
  info->metadata_bytes = index.metadata.bytes;
  info->format_version = format::kVersion;
  info->architecture = c.architecture;
  info->n_layers = c.n_layers;
  info->d_model = c.d_model;
  info->n_heads = c.n_heads;
  info->n_kv_heads = c.n_kv_heads;
  info->head_dim = c.head_dim;
  info->d_ff = c.d_ff;
  info->vocab_size = c.vocab_size;
  info->max_context = c.max_context;
  info->planned_context = c.planned_context;
  info->sliding_window = c.sliding_window;
  info->original_context = c.original_context;
  info->bos_token = c.bos_token;
  fill_weight_format(c, info);
  info->embedding_format = static_cast<cria_number_format>(embedding.number_format);
  info->tied_embedding = (c.flags & format::kTiedEmbedding) != 0 ? 1 : 0;
  info->compressed = c.compression != 0 ? 1 : 0;
  info->signed_scales = (c.flags & format::kSignedScales) != 0 ? 1 : 0;
  info->has_tokenizer = index.tokenizer.bytes != 0 ? 1 : 0;
  std::memcpy(info->private_config, &c, sizeof c);
}

Status inspect(const cria_source& source, cria_model_info* info) {
  FileIndex index;
  const char* refused = nullptr;
  uint64_t at = 0;
  const Status status = open_index(source, &index, &refused, &at);
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
  const char* refused = nullptr;
  uint64_t at = 0;
  CRIA_TRY(open_index(source, &index, &refused, &at));
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

Status config_of(const cria_model_info& info, format::ModelConfig* model) {
  static_assert(sizeof info.private_config == sizeof *model);
  std::memcpy(model, info.private_config, sizeof *model);
  return check_config(*model) == nullptr ? Status::kOk : Status::kInvalidArgument;
}

Status find_matrix_kind(const cria_model_info& info, uint32_t index, cria_matrix_kind* out) {
  *out = {};
  format::ModelConfig model;
  CRIA_TRY(config_of(info, &model));
  TensorKinds kinds(model);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (!kind.spec.is_matrix || index-- != 0) continue;
    const MatrixFormat f = format_of(kind.spec.shape);
    *out = {role_row(kind.spec.role).name, static_cast<cria_number_format>(f.number_format),
            f.group_size, kind.n};
    return Status::kOk;
  }
  return Status::kInvalidArgument;
}

Status plan(const cria_model_info& info, const cria_config& config, cria_memory_plan* out) {
  format::ModelConfig model;
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
  return cria::row_of(static_cast<cria::format::NumberFormat>(value)).name;
}

extern "C" const char* cria_chat_template_name(uint32_t chat_template) {
  return chat_template < std::size(cria::format::kChatTemplateNames)
             ? cria::format::kChatTemplateNames[chat_template]
             : cria::kUnknown;
}
