#include "converter/lora/merged_checkpoint.h"

#include <map>
#include <string>
#include <utility>

#include "converter/error.h"
#include "converter/tensor_names.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// A tensor with what adapters add to it.
class MergedTensor : public SourceTensor {
 public:
  MergedTensor(const SourceTensor& base, std::unique_ptr<SourceTensor> replacement,
               std::vector<const LoraDelta*> deltas)
      : SourceTensor(base.name(), base.shape()),
        replacement_(std::move(replacement)),
        base_(replacement_ != nullptr ? *replacement_ : base),
        deltas_(std::move(deltas)) {}

  [[nodiscard]] const fs::path& path() const override { return base_.path(); }
  [[nodiscard]] std::string type_name() const override { return base_.type_name(); }
  [[nodiscard]] std::string problem() const override { return base_.problem(); }
  // What is added fits no codes.
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

  std::unique_ptr<SourceTensor> replacement_;
  const SourceTensor& base_;
  std::vector<const LoraDelta*> deltas_;
};

class MergedCheckpoint : public Checkpoint {
 public:
  MergedCheckpoint(std::unique_ptr<Checkpoint> base, std::vector<LoraWish> wishes)
      : Checkpoint(base->path()), base_(std::move(base)), wishes_(std::move(wishes)) {}

  [[nodiscard]] ConfigFiles read_config() const override { return base_->read_config(); }
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
  [[nodiscard]] ImportedTokenizer read_tokenizer(uint32_t vocab_size,
                                                 std::span<const uint32_t> end_tokens,
                                                 const ChatTemplateWish* chat_wish) const override {
    return base_->read_tokenizer(vocab_size, end_tokens, chat_wish);
  }

 private:
  void check_target(const LoraAdapter& adapter, const std::string& name,
                    const std::vector<uint64_t>& shape) const;

  std::unique_ptr<Checkpoint> base_;
  std::vector<LoraWish> wishes_;
  std::vector<std::unique_ptr<LoraAdapter>> adapters_;
};

void MergedCheckpoint::check_target(const LoraAdapter& adapter, const std::string& name,
                                    const std::vector<uint64_t>& shape) const {
  const SourceTensor* const target = base_->find(name);
  if (target == nullptr) {
    const bool is_tied = name == kLmHeadName && base_->find(kEmbeddingName) != nullptr;
    refuse(adapter.folder(),
           "changes " + shown(name) +
               (is_tied ? ", which the model shares with its embedding: merge it with peft first"
                        : ", which the model does not have; is it an adapter of another model?"));
  }
  if (target->shape() != shape) {
    refuse(adapter.folder(), "changes " + shown(name) + " as if its shape were " +
                                 shape_text(shape) + "; the model's is " +
                                 shape_text(target->shape()));
  }
}

void MergedCheckpoint::open_weights() {
  base_->open_weights();
  std::map<std::string, std::vector<const LoraDelta*>> deltas;
  std::map<std::string, std::unique_ptr<SourceTensor>> replacements;
  for (const LoraWish& wish : wishes_) {
    adapters_.push_back(std::make_unique<LoraAdapter>(wish));
    LoraAdapter& adapter = *adapters_.back();
    for (const auto& [name, delta] : adapter.deltas()) {
      check_target(adapter, name, {delta.n_rows, delta.n_cols});
      deltas[name].push_back(&delta);
    }
    for (auto& [name, tensor] : adapter.take_replacements()) {
      check_target(adapter, name, tensor->shape());
      if (wish.scale != 1.0F) {
        refuse(adapter.folder(), "replaces " + shown(name) + ", which takes no scale");
      }
      if (!replacements.emplace(name, std::move(tensor)).second) {
        refuse(adapter.folder(), "replaces " + shown(name) + " as another adapter does");
      }
    }
  }
  for (const auto& [name, tensor] : base_->tensors()) {
    const auto replacement = replacements.find(name);
    const auto added = deltas.find(name);
    add(name,
        std::make_unique<MergedTensor>(
            *tensor, replacement == replacements.end() ? nullptr : std::move(replacement->second),
            added == deltas.end() ? std::vector<const LoraDelta*>() : added->second));
  }
}

}  // namespace

std::unique_ptr<Checkpoint> with_adapters(std::unique_ptr<Checkpoint> base,
                                          const std::vector<LoraWish>& wishes) {
  if (wishes.empty()) return base;
  return std::make_unique<MergedCheckpoint>(std::move(base), wishes);
}

}  // namespace cria::converter
