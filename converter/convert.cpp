#include "converter/convert.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "converter/broken_rule.h"
#include "converter/byte_span.h"
#include "converter/calibration/calibration.h"
#include "converter/checkpoint.h"
#include "converter/config_import.h"
#include "converter/error.h"
#include "converter/lora/merged_checkpoint.h"
#include "converter/model_writer.h"
#include "converter/output_places.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_plan.h"
#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/thread_pool.h"
#include "quant/format/align.h"
#include "quant/model/model_layout.h"
#include "quant/model/role_names.h"
#include "quant/text/tokenizer_check.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;
using format::SectionKind;

constexpr uint32_t kDefaultContext = 2048;

[[noreturn]] void refuse(ExitCode code, const std::string& line) { throw ProgramError(code, line); }

void apply_options(const Options& options, format::ModelScalars* model) {
  const uint32_t most = model->max_context;
  if (options.context && *options.context > most) {
    refuse(ExitCode::kUsage, "--context " + std::to_string(*options.context) +
                                 " is more than the model's " + std::to_string(most) +
                                 " positions");
  }
  // A longer context than the original would have all positions turned as those of long ones.
  uint32_t context = std::min(most, kDefaultContext);
  for (const format::RopeTable& table : model->rope_tables) {
    if (table.original_context != 0) context = std::min(context, table.original_context);
  }
  model->planned_context = options.context.value_or(context);
}

// What a token reads little of stays stored, so that a mapped file may be larger than memory.
format::FileCompression file_compression(const Options& options, const Config& config) {
  if (options.compression == format::Compression::kStored) return format::FileCompression::kStored;
  TensorWalk walk(config);
  for (TensorSpec spec = {}; walk.next({format::NumberFormat::kF32, 0}, &spec);) {
    if (stays_in_file(spec.role)) return format::FileCompression::kKeepsLarge;
  }
  return format::FileCompression::kAny;
}

void check_weights_of(const Options& options, const Config& config) {
  std::set<format::TensorRole> roles;
  TensorWalk walk(config);
  for (TensorSpec spec = {}; walk.next({format::NumberFormat::kF32, 0}, &spec);) {
    roles.insert(spec.role);
  }
  for (const auto& [role, format] : options.weights_of) {
    if (roles.contains(role)) continue;
    const bool is_tied = role == format::TensorRole::kLmHead;
    refuse(
        ExitCode::kUsage,
        std::string("--weights-of ") + role_name(role) +
            (is_tied ? ": this model's output layer is its embedding; give --weights-of embedding"
                     : ": this model has no such matrix"));
  }
}

// Formats of tensors that have no choice, in the canonical order.
using GivenFormats = std::vector<std::optional<MatrixFormat>>;

// trained, or what --weights-of gives instead.
GivenFormats given_formats(const Options& options, const Config& config, GivenFormats trained) {
  size_t i = 0;
  TensorWalk walk(config);
  for (TensorSpec spec = {}; walk.next({options.weights, options.group_size}, &spec); ++i) {
    const auto found = options.weights_of.find(spec.role);
    if (found != options.weights_of.end()) trained[i] = found->second;
  }
  return trained;
}

// What --bits asks for.
MixedRequest mixed_request(const Options& options, const GivenFormats& given) {
  MixedRequest request = {*options.bits,  options.weights, options.scales,
                          options.method, std::nullopt,    given};
  if (options.calibration) request.text = options.calibration->file;
  return request;
}

// The format of each tensor, in the canonical order; for --bits the smallest, until it is known
// what matrices are worth.
std::vector<MatrixFormat> choose_formats(const Options& options, const Config& config,
                                         const GivenFormats& given) {
  if (options.bits) return smallest_formats(config, mixed_request(options, given));
  std::vector<MatrixFormat> formats;
  for (const std::optional<MatrixFormat>& f : given) {
    formats.push_back(f.value_or(MatrixFormat{options.weights, options.group_size}));
  }
  return formats;
}

// Whether a matrix of the config has a format with the trait.
bool has_format(const Config& config, NumberTrait trait) {
  return std::any_of(config.counts.begin(), config.counts.end(), [&](const auto& count) {
    return has_trait(kMatrixFormats[count.format].number_format, trait);
  });
}

// The config counts the formats, and says whether scales may be negative where some have such.
void count_formats(std::span<const MatrixFormat> formats, ScaleSigns scales, ConfigParts* parts) {
  parts->count_each(formats);
  const bool are_signed = scales == ScaleSigns::kBoth && has_format(parts->view(), kMayBeSigned);
  parts->model.flags &= ~format::kSignedScales;
  if (are_signed) parts->model.flags |= format::kSignedScales;
}

// What only the checkpoint tells: whether something is left to calibrate.
void check_calibrated(const Options& options, const Config& config) {
  if (!options.calibration || options.bits || has_format(config, kCalibrated)) return;
  const std::string option = options.calibration->feedback ? "--method gptq" : "--calibration";
  refuse(
      ExitCode::kUsage,
      option + ": --weights-of and trained codes leave no matrix of int4 or int4nl to calibrate");
}

// Weights of the most bytes that so many bits give, in place of those of the smallest formats.
void bound_plan(double bits, const Config& config, MemoryPlan* plan) {
  constexpr double kBitsOfByte = 8;
  double most = 0;
  uint64_t bytes = 0;
  TensorKinds kinds(config);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    const TensorSpec& spec = kind.spec;
    if (spec.form != TensorForm::kMatrix) continue;
    most += kind.n * (bits * spec.n_matrices * spec.shape.rows * spec.shape.cols / kBitsOfByte +
                      format::kAlignment);
    bytes += kind.n * aligned(tensor_bytes(spec));
  }
  const uint64_t more = aligned(static_cast<uint64_t>(most)) - bytes;
  plan->model.weights += more;
  plan->model.total += more;
  plan->total += more;
}

// What the checkpoint's config leaves open, its tokenizer may know.
void apply_tokenizer(const ImportedTokenizer& tokenizer, const ImportedConfig& imported,
                     const fs::path& folder, format::ModelScalars* model) {
  set_end_tokens(tokenizer.end_tokens, folder.string() + ": eos_token_id with the tokenizer's",
                 model);
  if (!imported.has_bos && tokenizer.bos_token) model->bos_token = *tokenizer.bos_token;
}

// Nothing that the runtime would refuse is put in place.
void check_rules(std::span<const uint8_t> config_section,
                 std::span<const uint8_t> tokenizer_section, std::span<const uint8_t> chat_section,
                 const fs::path& folder) {
  Config config;
  refuse_if(folder, "config.json", read_config(config_section, &config));
  if (tokenizer_section.empty()) return;
  Tokenizer tokenizer = {};
  ChatTemplate chat = {};
  refuse_if(folder, "the tokenizer",
            check_tokenizer(tokenizer_section, config.model->vocab_size, &tokenizer));
  if (!chat_section.empty())
    refuse_if(folder, "the chat template", check_chat_template(chat_section, &chat));
  refuse_if(folder, "the tokenizer",
            check_control_tokens(tokenizer, chat_section.empty() ? nullptr : &chat, *config.model));
}

// One conversion in progress.
class Conversion {
 public:
  Conversion(const Options& options, Progress* progress)
      : options_(options),
        progress_(progress),
        pool_(options.n_threads, hosted::FewerThreads::kAreTaken) {}

  ConversionReport run() {
    const std::unique_ptr<Checkpoint> checkpoint =
        with_adapters(open_checkpoint(options_.model, options_.tokenizer_file), options_.adapters);
    const ConfigFiles files = checkpoint->read_config();
    ImportedConfig imported = import_config(files);
    for (const std::string& line : files.warnings) warn(line);
    parts_ = imported.config;
    if (!plans_only() || checkpoint->has_weights_at_hand()) checkpoint->open_weights();
    if (!plans_only()) check_outputs(options_, *checkpoint);
    import_the_tokenizer(*checkpoint, imported);
    complete_config(*checkpoint, imported);
    if (plans_only()) return std::move(report_);
    report_.weights_text = checkpoint->weights_text();
    TensorPlan plan = plan_tensors(*checkpoint, report_.config(), formats_, imported.form);
    for (const std::string& line : plan.warnings) warn(line);
    write(&plan, imported.rope);
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool plans_only() const { return options_.output.empty(); }

  void warn(const std::string& line) {
    progress_->warn(line);
    report_.warnings.push_back(line);
  }

  void import_the_tokenizer(const Checkpoint& checkpoint, const ImportedConfig& imported) {
    report_.tokenizer_name = "none";
    report_.chat_name = "none";
    if (options_.tokenizer == TokenizerChoice::kNone) return;
    format::ModelScalars& model = parts_.model;
    tokenizer_ =
        checkpoint.read_tokenizer(model.vocab_size, std::span(model.end_tokens, model.n_end_tokens),
                                  options_.chat_template ? &*options_.chat_template : nullptr);
    for (const std::string& line : tokenizer_.warnings) warn(line);
    report_.tokenizer_name = tokenizer_.tokenizer_name;
    report_.chat_name = tokenizer_.chat_name;
    report_.chat_jinja = tokenizer_.chat_jinja;
    report_.chat_tools_problem = tokenizer_.chat_tools_problem;
    apply_tokenizer(tokenizer_, imported, options_.model, &model);
    if (model.n_end_tokens == 0) {
      warn("the checkpoint names no end token: answers end only at their maximum length");
    }
  }

  // From now on the report has the config.
  void fix_config() {
    count_formats(formats_, options_.scales, &parts_);
    refuse_if(options_.model, "config.json", check_config(parts_.view()));
    (void)write_config(parts_.view(), &report_.config_section);
  }

  [[nodiscard]] std::span<const uint8_t> config_section() const {
    const uint64_t n = config_bytes(*report_.config().model);
    return std::span<const uint8_t>(report_.config_section.bytes).first(static_cast<size_t>(n));
  }

  void complete_config(const Checkpoint& checkpoint, const ImportedConfig& imported) {
    apply_options(options_, &parts_.model);
    parts_.model.compression = static_cast<uint32_t>(file_compression(options_, parts_.view()));
    std::vector<std::string> warnings;
    if (embedding_is_tied(checkpoint, imported.tied_embedding, parts_.model.pooling != 0,
                          &warnings)) {
      parts_.model.flags |= format::kTiedEmbedding;
    }
    for (const std::string& line : warnings) warn(line);
    check_weights_of(options_, parts_.view());
    choose_given_formats(checkpoint, imported.form);
    const Config config = report_.config();
    check_calibrated(options_, config);
    check_rules(config_section(), tokenizer_.tokenizer_section, tokenizer_.chat_section,
                options_.model);
    report_.architecture = imported.architecture;
    report_.method = options_.method;
    if (options_.calibration) {
      report_.is_gptq = options_.calibration->feedback;
      report_.calibration_bytes =
          calibration_bytes(config, *options_.calibration, pool_.n_threads());
    }
    if (options_.bits) {
      const MixedRequest request = mixed_request(options_, given_);
      check_bits(config, request);
      report_.bits_asked = options_.bits;
      report_.calibration_bytes =
          std::max(report_.calibration_bytes, divergence_bytes(config, request, pool_.n_threads()));
    }
    report_.source_name = printable(fs::canonical(options_.model).filename().string());
    report_.tokenizer_bytes = tokenizer_.tokenizer_section.size();
    report_.chat_bytes = tokenizer_.chat_section.size();
    plan_the_memory();
    if (options_.bits) bound_plan(*options_.bits, config, &report_.plan);
  }

  void choose_given_formats(const Checkpoint& checkpoint, const StoredForm& form) {
    const auto choose = [this](GivenFormats trained) {
      given_ = given_formats(options_, parts_.view(), std::move(trained));
      formats_ = choose_formats(options_, parts_.view(), given_);
      fix_config();
    };
    choose(GivenFormats(tensor_count(parts_.view())));
    // Which sources there are is looked at with a config that holds.
    if (options_.keeps_trained) choose(trained_formats(checkpoint, report_.config(), form));
  }

  void plan_the_memory() {
    report_.plan_input =
        default_plan_input(report_.config(), report_.tokenizer_bytes, report_.chat_bytes);
    if (!plan_memory(report_.config(), report_.plan_input, &report_.plan)) {
      refuse(ExitCode::kInvalidInput, options_.model.string() + ": model is too large");
    }
  }

  // The formats for --bits, in place of the smallest.
  void mix_formats(TensorPlan* plan, std::span<const float> rope) {
    report_.choice = choose_mixed_formats(mixed_request(options_, given_), report_.config(), rope,
                                          *plan, &pool_, progress_);
    formats_ = report_.choice->formats;
    fix_config();
    TensorWalk walk(report_.config());
    for (size_t i = 0; i < formats_.size(); ++i) {
      (void)walk.next(formats_[i], &plan->tensors[i].spec);
    }
    plan_the_memory();
    progress_->say(choice_text(report_));
  }

  [[nodiscard]] std::vector<SectionSize> sections(const TensorPlan& plan) const {
    std::vector<SectionSize> sizes = {{SectionKind::kConfig, config_section().size()}};
    if (!tokenizer_.tokenizer_section.empty()) {
      sizes.push_back({SectionKind::kTokenizer, tokenizer_.tokenizer_section.size()});
    }
    if (!tokenizer_.chat_section.empty()) {
      sizes.push_back({SectionKind::kChatTemplate, tokenizer_.chat_section.size()});
    }
    sizes.push_back(
        {SectionKind::kTensorDirectory, plan.tensors.size() * sizeof(format::TensorEntry)});
    sizes.push_back(
        {SectionKind::kChunkTable, chunk_count(report_.config()) * sizeof(format::ChunkEntry)});
    return sizes;
  }

  void write_small_sections(ModelWriter* writer) const {
    writer->write_section(SectionKind::kConfig, config_section());
    if (!tokenizer_.tokenizer_section.empty()) {
      writer->write_section(SectionKind::kTokenizer, tokenizer_.tokenizer_section);
    }
    if (!tokenizer_.chat_section.empty()) {
      writer->write_section(SectionKind::kChatTemplate, tokenizer_.chat_section);
    }
    std::vector<format::TensorEntry> directory;
    for (const EncodedTensor& tensor : report_.tensors) directory.push_back(tensor.entry);
    writer->write_section(SectionKind::kTensorDirectory, bytes_of(directory));
  }

  static const RoundedRows* rounded_of(const PlannedTensor& tensor,
                                       std::optional<Calibration>* calibration) {
    return *calibration && tensor.spec.is_matrix() ? (*calibration)->rounded(tensor.spec) : nullptr;
  }

  void encode_tensors(const TensorPlan& plan, std::span<const float> rope, ModelWriter* writer) {
    TensorEncoder encoder(report_.config(), options_.method, options_.compression, options_.level,
                          &pool_, writer);
    uint64_t total = 0;
    for (const PlannedTensor& tensor : plan.tensors) total += tensor_bytes(tensor.spec);
    std::optional<Calibration> calibration;
    if (options_.calibration) {
      calibration.emplace(*options_.calibration, report_.config(), rope, plan, &pool_, progress_);
      report_.calibration = calibration->summary();
    }
    progress_->start(total);
    for (const PlannedTensor& tensor : plan.tensors) {
      report_.tensors.push_back(tensor.source == nullptr
                                    ? encoder.encode_values(tensor.spec, rope)
                                    : encoder.encode(tensor, rounded_of(tensor, &calibration)));
      if (calibration) report_.tensors.back().rounding = calibration->outcome(tensor.spec);
      progress_->advance(tensor_bytes(tensor.spec),
                         tensor.source == nullptr ? "" : tensor.source->name());
    }
    encoder.finish(report_.tensors);
    progress_->finish();
  }

  void write(TensorPlan* plan, std::span<const float> rope) {
    // Both made before the work, so that a name that cannot be written is refused at once. How
    // large a model's tables are follows from its formats: for --bits it is made anew.
    std::optional<ModelWriter> writer;
    writer.emplace(options_.output.string(), sections(*plan));
    std::unique_ptr<hosted::OutputFile> report_file;
    if (options_.report) {
      report_file =
          std::make_unique<hosted::OutputFile>(options_.report->string(), hosted::InPlace::kNever);
    }
    progress_->say(found_text(report_));
    if (options_.bits) {
      mix_formats(plan, rope);
      writer.emplace(options_.output.string(), sections(*plan));
    }
    encode_tensors(*plan, rope, &*writer);
    write_small_sections(&*writer);
    report_.file_bytes = writer->finish(bytes_of(metadata_text(report_)));
    const WrittenParts written = writer->read_back();
    check_rules(written.config, written.tokenizer, written.chat_template, options_.model);
    if (report_file) {
      const std::string text = report_text(report_);
      report_file->write(0, bytes_of(text));
      report_file->flush(text.size());
    }
    // The model first: a report tells of a model that is in place.
    writer->commit();
    if (report_file) commit_report(report_file.get());
  }

  void commit_report(hosted::OutputFile* file) const {
    try {
      file->commit();
    } catch (const hosted::OutputError& error) {
      refuse(ExitCode::kIo, std::string(error.what()) + "; the model " + options_.output.string() +
                                " is in place without a report");
    }
  }

  const Options& options_;
  Progress* progress_;
  hosted::ThreadPool pool_;
  ConfigParts parts_;
  ImportedTokenizer tokenizer_;
  GivenFormats given_;
  std::vector<MatrixFormat> formats_;
  ConversionReport report_ = {};
};

}  // namespace

ConversionReport convert(const Options& options, Progress* progress) {
  try {
    return Conversion(options, progress).run();
  } catch (const hosted::OutputError& error) {
    throw ProgramError(ExitCode::kIo, error.what());
  }
}

}  // namespace cria::converter
