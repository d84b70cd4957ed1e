#include "converter/joined_tokens.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "converter/error.h"

namespace cria::converter {
namespace {

// Lines about texts that have several ids: the first few, and how many more there are.
class RepeatedTexts {
 public:
  void note(const std::string& text, uint32_t first, uint32_t second) {
    if (++n_ > kShown) return;
    lines_.push_back("added token '" + shown(text) + "' has ids " + std::to_string(first) +
                     " and " + std::to_string(second) + ": the first counts");
  }
  [[nodiscard]] std::vector<std::string> take() {
    if (n_ > kShown) {
      lines_.push_back("of " + std::to_string(n_ - kShown) +
                       " more repeated added tokens the first counts too");
    }
    return std::move(lines_);
  }

 private:
  static constexpr size_t kShown = 3;
  size_t n_ = 0;
  std::vector<std::string> lines_;
};

class Joining {
 public:
  explicit Joining(const BaseVocabulary& vocabulary)
      : vocabulary_(vocabulary), next_id_(vocabulary.end) {}

  // A token that has its id, unless another one of its text came first.
  void keep(const AddedToken& token) {
    if (known(token) == nullptr) put(token, token.id);
  }

  // A token with an id that only tells when the vocabulary or the order do not.
  AddedToken* list(const AddedToken& token) {
    if (token.text.empty()) return nullptr;
    AddedToken* const before = known(token);
    const uint32_t id = before != nullptr ? before->id : add(token);
    if (id != token.id) repeated_.note(token.text, id, token.id);
    return before;
  }

  // As list, with flags that count more than those before.
  void list_flags(const AddedToken& token) {
    AddedToken* const before = list(token);
    if (before != nullptr) take_flags(token, before);
  }

  void make_special(const std::string& text) {
    if (const auto place = places_.find(text)) tokens_[*place].special = true;
  }

  // A token without an id. Of several of one text the flags of the last count, but not where a
  // list has it.
  void mention(const AddedToken& token) {
    AddedToken* const before = known(token);
    if (before == nullptr) {
      if (n_listed_ == SIZE_MAX) n_listed_ = tokens_.size();
      (void)add(token);
    } else if (static_cast<size_t>(before - tokens_.data()) >= n_listed_) {
      take_flags(token, before);
    }
  }

  // Tokens that got the next id, so far.
  [[nodiscard]] size_t n_new() const { return n_new_; }
  [[nodiscard]] std::vector<AddedToken> take(std::vector<std::string>* warnings) {
    for (std::string& line : repeated_.take()) warnings->push_back(std::move(line));
    return std::move(tokens_);
  }

 private:
  static void take_flags(const AddedToken& token, AddedToken* before) {
    before->strip_left = token.strip_left;
    before->strip_right = token.strip_right;
    before->single_word = token.single_word;
    // One that is special is looked for as it was at first; another one as either says.
    if (!before->special) before->normalized = before->normalized && token.normalized;
    before->special = before->special || token.special;
  }

  [[nodiscard]] AddedToken* known(const AddedToken& token) {
    const auto place = places_.find(token.text);
    return place ? &tokens_[*place] : nullptr;
  }

  // The texts outlive this: they are the callers'.
  void put(const AddedToken& token, uint32_t id) {
    (void)places_.insert(token.text, static_cast<uint32_t>(tokens_.size()));
    tokens_.push_back(token);
    tokens_.back().id = id;
    next_id_ = std::max(next_id_, id + 1);
  }

  uint32_t add(const AddedToken& token) {
    const auto id = vocabulary_.ids.find(token.text);
    if (!id) ++n_new_;
    put(token, id ? *id : next_id_);
    return tokens_.back().id;
  }

  const BaseVocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  TextTable places_;
  uint32_t next_id_;
  size_t n_listed_ = SIZE_MAX;  // of tokens_, those after which are mentioned
  size_t n_new_ = 0;
  RepeatedTexts repeated_;
};

}  // namespace

std::vector<AddedToken> join_added_tokens(const std::vector<AddedToken>& own, bool keeps_ids,
                                          const BaseVocabulary& vocabulary,
                                          const TokenizerConfig& config, const std::string& where,
                                          std::vector<std::string>* warnings) {
  Joining joining(vocabulary);
  for (const AddedToken& token : own) {
    if (keeps_ids) {
      joining.keep(token);
    } else {
      (void)joining.list(token);
    }
  }
  for (const AddedToken& token : config.listed) {
    if (config.lists_flags) {
      joining.list_flags(token);
    } else {
      (void)joining.list(token);
    }
  }
  // added_tokens_decoder says itself which are special.
  if (!config.lists_flags) {
    for (const auto& [name, text] : config.named) joining.make_special(text);
  }
  const size_t n_before = joining.n_new();
  for (const AddedToken& token : config.mentioned) joining.mention(token);
  if (!config.is_in_order && joining.n_new() > n_before + 1) {
    refuse(where, "the tokenizer's other files name " + std::to_string(joining.n_new() - n_before) +
                      " tokens that have no id: list them in added_tokens_decoder");
  }
  return joining.take(warnings);
}

std::vector<std::string> drop_repeated_added(TokenizerModel* model) {
  RepeatedTexts repeated;
  TextTable first;
  for (uint32_t id = 0; id < model->tokens.size(); ++id) {
    TokenizerToken& token = model->tokens[id];
    if ((token.flags & format::kTokenAdded) == 0 || first.insert(token.text, id)) continue;
    repeated.note(token.text, first.find(token.text).value_or(id), id);
    token = {};
  }
  return repeated.take();
}

}  // namespace cria::converter
