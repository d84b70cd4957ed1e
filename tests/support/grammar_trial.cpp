#include "tests/support/grammar_trial.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "quant/text/tokenizer_view.h"
#include "runtime/json/vocabulary.h"

namespace cria::test {
namespace {

using nlohmann::json;

constexpr const char* kPieces[] = {"{\"",      "\":",       "\": \"",     "\",",
                                   "\"}",      "},",        "[",          "]}",
                                   "true",     "null",      "None",       "True",
                                   "name",     "arguments", "abc",        "12",
                                   "100",      ", ",        "\\n",        "\xc3",
                                   "\xc3\xa9", "  ",        "\n",         "a\"",
                                   "ab",       "0.",        "-1",         "</",
                                   ">\n",      "<",         "=\"",        "\")",
                                   "get",      "_time",     " some text", "x<y",
                                   "\n</",     "a</b>",     "</pa",       "f(",
                                   "[{\"",     "{\"name",   "\"\"",       "\xf0\x9f\x99\x82"};

size_t vocabulary_bytes(const cria_model* model) {
  size_t n_bytes = 0;
  need(cria_json_vocabulary_required(model, &n_bytes));
  return n_bytes;
}

void add_texts(const json& value, std::set<std::string>* texts) {
  if (value.is_string()) texts->insert(value.get<std::string>());
  if (!value.is_array()) return;
  for (const json& text : value) add_texts(text, texts);
}

std::string stripped(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  const size_t begin = text.find_first_not_of(" \n\t\r");
  return begin == std::string::npos ? std::string() : text.substr(begin);
}

}  // namespace

std::unique_ptr<MadeVocabulary> vocabulary_for(const json& form, Markers markers) {
  auto made = std::make_unique<MadeVocabulary>(format::TokenizerKind::kByteLevelBpe);
  for (const char* const piece : kPieces) made->add(piece);
  std::set<std::string> texts;
  for (const auto& [key, value] : form.items()) {
    const bool is_marker = key != "templates" && key != "kind" && key != "flags" &&
                           key.find("_keys") == std::string::npos;
    if (is_marker) add_texts(value, &texts);
  }
  for (const std::string& text : texts) {
    const bool is_special = markers == Markers::kSpecial && stripped(text).size() > 1;
    made->add(is_special ? stripped(text) : text, is_special ? format::kTokenSpecial : 0);
  }
  made->add("<|other|>", format::kTokenSpecial);
  return made;
}

std::vector<std::string> endings_of(const json& form) {
  std::vector<std::string> endings;
  for (const char* const key : {"end", "call_end", "value_end", "string_mark", "thinking_end"}) {
    std::set<std::string> texts;
    if (form.contains(key)) add_texts(form.at(key), &texts);
    for (const std::string& text : texts) {
      endings.push_back(text);
      endings.push_back(stripped(text));
    }
  }
  for (const char* const ending : {"\"}", "\")", "\"", "}", "]", ")"}) endings.emplace_back(ending);
  return endings;
}

GrammarTrial::GrammarTrial(const cria_model* model, std::vector<uint8_t> form, std::string tools,
                           const cria_call_order& requests)
    : model_(model),
      vocabulary_memory_(vocabulary_bytes(model)),
      form_(std::move(form)),
      tools_(std::move(tools)) {
  need(cria_json_make_vocabulary(vocabulary_memory_.data(), vocabulary_memory_.size(), model,
                                 &vocabulary_));
  cria_call_order order = requests;
  order.format = form_.data();
  order.n_format = form_.size();
  order.tools = tools_.data();
  order.n_tools = tools_.size();
  size_t n_bytes = 0;
  status_ = cria_call_grammar_required(vocabulary_, &order, &n_bytes, &problem_);
  if (status_ != CRIA_OK) return;
  memory_.emplace(n_bytes);
  status_ =
      cria_call_grammar_make(memory_->data(), n_bytes, vocabulary_, &order, &grammar_, &problem_);
  // Nothing of them is needed any more.
  std::fill(form_.begin(), form_.end(), uint8_t{0xee});
  std::fill(tools_.begin(), tools_.end(), '\xee');
}

cria_status GrammarTrial::begin(std::string_view opened) {
  text_.clear();
  return cria_call_grammar_begin(grammar_, opened.data(), opened.size(), &state_);
}

std::vector<uint32_t> GrammarTrial::allowed() {
  std::vector<float> logits(cria_vocab_size(model_), 1.0f);
  std::vector<uint32_t> left;
  if (cria_call_grammar_mask(grammar_, &state_, logits.data(), logits.size()) != CRIA_OK) {
    return left;
  }
  for (uint32_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == 1.0f) left.push_back(i);
  }
  return left;
}

bool GrammarTrial::accept(uint32_t token) {
  if (cria_call_grammar_accept(grammar_, &state_, token) != CRIA_OK) return false;
  if (cria_is_end_token(model_, token) == 0) text_ += bytes_of(token);
  return true;
}

bool GrammarTrial::accept_bytes(std::string_view text) {
  // Tokens of bytes are the first ones.
  return std::all_of(text.begin(), text.end(),
                     [this](char c) { return accept(static_cast<uint8_t>(c)); });
}

std::string GrammarTrial::forced() {
  std::string text(1000, '\0');
  size_t n_bytes = 0;
  need(cria_call_grammar_forced(grammar_, &state_, text.data(), text.size(), &n_bytes));
  text.resize(n_bytes);
  return text;
}

std::string GrammarTrial::bytes_of(uint32_t token) const {
  if (token >= model_->tokenizer.header.n_tokens) return {};
  if (is_special(model_->tokenizer, token)) {
    const auto span = token_text(model_->tokenizer, token);
    return {span.data(), span.size()};
  }
  char bytes[cria::json::kMostTokenBytes];
  return {bytes, cria::json::token_bytes(model_->tokenizer, token, bytes)};
}

bool GrammarTrial::draw(std::mt19937* random, const std::vector<std::string>& wanted) {
  constexpr size_t kLong = 300;
  constexpr size_t kTooLong = 3000;
  while (text_.size() < kTooLong) {
    const std::vector<uint32_t> left = allowed();
    if (left.empty()) return false;
    const bool hurries = text_.size() > kLong;
    const bool may_end =
        cria_is_end_token(model_, left.back()) != 0 || progress() != CRIA_CALL_OPEN;
    if (may_end && (hurries || (*random)() % 4 == 0 || progress() == CRIA_CALL_CLOSED)) return true;
    uint32_t token = left[(*random)() % left.size()];
    if (hurries || (*random)() % 3 == 0) {
      for (size_t i = 0; i < wanted.size(); ++i) {
        // One or the other first.
        const std::string& text = wanted[(*random)() % 8 == 0 ? (*random)() % wanted.size() : i];
        const auto found =
            std::find_if(left.begin(), left.end(), [&](uint32_t t) { return bytes_of(t) == text; });
        if (found == left.end()) continue;
        token = *found;
        break;
      }
    }
    if (cria_is_end_token(model_, token) != 0) return true;
    if (!accept(token)) return false;
  }
  return false;
}

}  // namespace cria::test
