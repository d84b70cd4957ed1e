#include "converter/lora/merged_checkpoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "converter/config_import.h"
#include "converter/error.h"
#include "converter/tensor_names.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// A tensor with what adapters add to it.
class MergedTensor : public SourceTensor {
 public:
  MergedTensor(const SourceTensor& base, std::vector<const LoraDelta*> deltas)
      : SourceTensor(base.name(), base.shape()), base_(base), deltas_(std::move(deltas)) {}

  [[nodiscard]] const fs::path& path() const override { return base_.path(); }
  [[nodiscard]] std::string type_name() const override { return base_.type_name(); }
  [[nodiscard]] std::string problem() const override { return base_.problem(); }
  // What is added fits no codes.
  [[nodiscard]] std::optional<format::NumberFormat> trained_format() const override {
    return deltas_.empty() ? base_.trained_format() : std::nullopt;
  }
  [[nodiscard]] uint32_t int4_group() const override {
    return deltas_.empty() ? base_.int4_group() : 0;
  }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    base_.read_rows(first, n, scratch, values);
    for (const LoraDelta* delta : deltas_) add(*delta, first, n, values);
  }
  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    base_.read_int4(first, n, scratch, codes, scales);
  }

 private:
  // In one order of additions, whatever the threads: the file's bytes do not depend on them.
  static void add(const LoraDelta& delta, uint64_t first, size_t n, float* values) {
    const auto n_cols = static_cast<size_t>(delta.n_cols);
    std::vector<float> row(n_cols);
    for (size_t i = 0; i < n; ++i) {
      const float* const left = delta.left.data() + (first + i) * delta.rank;
      row.assign(n_cols, 0.0F);
      for (size_t r = 0; r < delta.rank; ++r) {
        const float* const right = delta.right.data() + r * n_cols;
        for (size_t c = 0; c < n_cols; ++c) row[c] += left[r] * right[c];
      }
      float* const out = values + i * n_cols;
      for (size_t c = 0; c < n_cols; ++c) out[c] += delta.scale * row[c];
    }
  }

  const SourceTensor& base_;
  std::vector<const LoraDelta*> deltas_;
};

class MergedCheckpoint : public Checkpoint {
 public:
  MergedCheckpoint(std::unique_ptr<Checkpoint> base, std::vector<LoraRequest> requests)
      : Checkpoint(base->path()), base_(std::move(base)), requests_(std::move(requests)) {
    for (const LoraRequest& request : requests_) {
      adapters_.push_back(std::make_unique<LoraAdapter>(request));
    }
  }

  [[nodiscard]] ConfigFiles read_config() const override { return base_->read_config(); }
  [[nodiscard]] bool unties() const override;
  void open_weights() override;
  [[nodiscard]] std::vector<fs::path> inputs() const override {
    std::vector<fs::path> paths = base_->inputs();
    for (const auto& adapter : adapters_) {
      for (fs::path& path : adapter->inputs()) paths.push_back(std::move(path));
    }
    return paths;
  }
  [[nodiscard]] fs::path guarded_folder() const override { return base_->guarded_folder(); }
  [[nodiscard]] std::string weights_text() const override {
    return base_->weights_text() + ", with " + std::to_string(adapters_.size()) +
           (adapters_.size() == 1 ? " adapter" : " adapters");
  }
  [[nodiscard]] ImportedTokenizer read_tokenizer(
      uint32_t vocab_size, std::span<const uint32_t> end_tokens,
      const ChatTemplateChoice* chat_choice) const override {
    return base_->read_tokenizer(vocab_size, end_tokens, chat_choice);
  }

 private:
  // What becomes of a tensor.
  struct Change {
    const SourceTensor* base = nullptr;         // in the place of the checkpoint's
    const SourceTensor* replacement = nullptr;  // of all: base and deltas
    std::vector<const LoraDelta*> deltas;
  };

  // What the base has by this name, or for both names of a matrix that is stored once.
  [[nodiscard]] const SourceTensor* base_of(const std::string& name) const;
  [[nodiscard]] bool has_ties() const;
  // Those of name and of the one that is tied to it, too, where the adapter does not change that.
  std::vector<Change*> changes_of(const LoraAdapter& adapter, const std::string& name);
  void check_target(const LoraAdapter& adapter, const std::string& name,
                    const std::vector<uint64_t>& shape) const;
  void take_bases(const LoraAdapter& adapter);
  void take_changes(const LoraAdapter& adapter, float scale);

  std::unique_ptr<Checkpoint> base_;
  std::vector<LoraRequest> requests_;
  std::vector<std::unique_ptr<LoraAdapter>> adapters_;
  bool is_tied_ = false;
  std::map<std::string, Change> changes_;
};

// The other of the two matrices that may be one; empty: name is neither.
std::string twin_of(const std::string& name) {
  if (name == kEmbeddingName) return kLmHeadName;
  return name == kLmHeadName ? kEmbeddingName : "";
}

const SourceTensor* MergedCheckpoint::base_of(const std::string& name) const {
  const SourceTensor* const own = base_->find(name);
  return own != nullptr || !is_tied_ ? own : base_->find(twin_of(name));
}

bool MergedCheckpoint::has_ties() const {
  const SourceTensor* const embedding = base_of(kEmbeddingName);
  const SourceTensor* const head = base_of(kLmHeadName);
  if (!is_tied_ || embedding == nullptr) return false;
  // What cannot be read is refused when it is planned.
  return embedding == head || (embedding->problem().empty() && head->problem().empty() &&
                               same_values(*embedding, *head));
}

bool MergedCheckpoint::unties() const {
  const auto changes_one = [](const LoraAdapter& adapter) {
    const auto changes = [&adapter](const std::string& name) {
      return adapter.deltas().contains(name) || adapter.replacements().contains(name);
    };
    const bool changes_embedding = changes(kEmbeddingName);
    const bool changes_head = changes(kLmHeadName);
    if (!changes_embedding || !changes_head) {
      return (changes_embedding || changes_head) && !adapter.keeps_ties();
    }
    const auto embedding = adapter.replacements().find(kEmbeddingName);
    const auto head = adapter.replacements().find(kLmHeadName);
    const bool are_replaced = embedding != adapter.replacements().end() &&
                              head != adapter.replacements().end() && adapter.deltas().empty();
    return !are_replaced || !embedding->second->problem().empty() ||
           !head->second->problem().empty() || !same_values(*embedding->second, *head->second);
  };
  return std::any_of(adapters_.begin(), adapters_.end(),
                     [&](const auto& adapter) { return changes_one(*adapter); });
}

void MergedCheckpoint::check_target(const LoraAdapter& adapter, const std::string& name,
                                    const std::vector<uint64_t>& shape) const {
  const SourceTensor* const target = base_of(name);
  if (target == nullptr) {
    refuse(adapter.folder(),
           "changes " + shown(name) +
               ", which the model does not have; is it an adapter of another model?");
  }
  if (target->shape() != shape) {
    refuse(adapter.folder(), "changes " + shown(name) + " as if its shape were " +
                                 shape_text(shape) + "; the model's is " +
                                 shape_text(target->shape()));
  }
}

// peft loads them into the model: what is tied to them changes with them.
void MergedCheckpoint::take_bases(const LoraAdapter& adapter) {
  for (const auto& [name, tensor] : adapter.bases()) {
    check_target(adapter, name, tensor->shape());
    const SourceTensor& target = *base_of(name);
    if (!tensor->problem().empty()) {
      refuse(adapter.folder(), "tensor " + shown(name) + " " + tensor->problem());
    }
    if (target.problem().empty() && same_values(target, *tensor)) continue;
    const std::string twin = has_ties() ? twin_of(name) : "";
    for (const std::string& changed : {name, twin}) {
      if (changed.empty()) continue;
      Change& change = changes_[changed];
      if (change.base != nullptr && !same_values(*change.base, *tensor)) {
        refuse(adapter.folder(),
               "has its own base for " + shown(changed) + ", which differs from another adapter's");
      }
      change.base = tensor.get();
    }
  }
}

std::vector<MergedCheckpoint::Change*> MergedCheckpoint::changes_of(const LoraAdapter& adapter,
                                                                    const std::string& name) {
  std::vector<Change*> changes = {&changes_[name]};
  const std::string twin = twin_of(name);
  if (!twin.empty() && adapter.keeps_ties() && !adapter.deltas().contains(twin) &&
      !adapter.replacements().contains(twin) && has_ties()) {
    changes.push_back(&changes_[twin]);
  }
  return changes;
}

void MergedCheckpoint::take_changes(const LoraAdapter& adapter, float scale) {
  for (const auto& [name, delta] : adapter.deltas()) {
    check_target(adapter, name, {delta.n_rows, delta.n_cols});
    for (Change* change : changes_of(adapter, name)) change->deltas.push_back(&delta);
  }
  for (const auto& [name, tensor] : adapter.replacements()) {
    check_target(adapter, name, tensor->shape());
    if (scale != 1.0F) {
      refuse(adapter.folder(),
             "replaces " + shown(name) + ", to which a scale cannot apply; leave out :SCALE");
    }
    for (Change* change : changes_of(adapter, name)) {
      if (change->replacement != nullptr) {
        refuse(adapter.folder(), "replaces " + shown(name) + ", and so does another adapter");
      }
      change->replacement = tensor.get();
    }
  }
}

void MergedCheckpoint::open_weights() {
  base_->open_weights();
  is_tied_ = import_config(base_->read_config()).tied_embedding;
  for (size_t i = 0; i < adapters_.size(); ++i) {
    take_bases(*adapters_[i]);
    take_changes(*adapters_[i], requests_[i].scale);
  }
  std::set<std::string> names;
  for (const auto& [name, tensor] : base_->tensors()) names.insert(name);
  // Of a matrix that is stored once, each of the two that it serves is one by itself.
  for (const char* name : {kEmbeddingName, kLmHeadName}) {
    if (!changes_.contains(name)) continue;
    names.insert(name);
    names.insert(twin_of(name));
  }
  for (const std::string& name : names) {
    const SourceTensor* source = base_of(name);
    if (source == nullptr) continue;  // an output layer that is missing is told when it is planned
    Change& change = changes_[name];
    if (change.base != nullptr) source = change.base;
    if (change.replacement != nullptr) source = change.replacement;
    add(name, std::make_unique<MergedTensor>(*source, std::move(change.deltas)));
  }
}

}  // namespace

std::unique_ptr<Checkpoint> with_adapters(std::unique_ptr<Checkpoint> base,
                                          const std::vector<LoraRequest>& requests) {
  if (requests.empty()) return base;
  return std::make_unique<MergedCheckpoint>(std::move(base), requests);
}

}  // namespace cria::converter
