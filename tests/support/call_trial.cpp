#include "tests/support/call_trial.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "tests/support/folders.h"

namespace cria::test {
namespace {

using nlohmann::json;

// In the order of format::CallString.
constexpr const char* kStringNames[format::kCallStrings] = {
    "thinking_begin", "thinking_end", "answer_begin", "answer_end", "start",    "name_keys",
    "arguments_keys", "id_keys",      "call_begin",   "name_begin", "id_begin", "arguments_begin",
    "key_begin",      "key_end",      "value_end",    "call_end",   "end",      "string_mark"};
constexpr const char* kKindNames[] = {"none", "json", "python", "named", "tagged"};
constexpr const char* kFlagNames[] = {"bare", "name_is_key", "id_holds_name"};

template <size_t n>
uint32_t index_of(const char* const (&names)[n], const std::string& name) {
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw std::runtime_error("call_forms.json: " + name);
  return static_cast<uint32_t>(found - std::begin(names));
}

void require_ok(cria_status status) {
  if (status != CRIA_OK) throw std::runtime_error(cria_status_message(status));
}

}  // namespace

const json& call_forms() {
  static const json forms = [] {
    std::ifstream file(source_folder() / "tests" / "data" / "call_forms.json");
    return json::parse(file);
  }();
  return forms;
}

std::vector<uint8_t> stored_call_form(const json& form) {
  format::CallFormatHeader header = {};
  header.kind = index_of(kKindNames, form.at("kind"));
  for (const json& flag : form.value("flags", json::array())) {
    header.flags |= 1U << index_of(kFlagNames, flag);
  }
  header.flags |= form.value("id_characters", 0U) << format::kCallIdCharacters;
  std::string strings;
  for (size_t i = 0; i < format::kCallStrings; ++i) {
    const size_t before = strings.size();
    const auto found = form.find(kStringNames[i]);
    if (found == form.end()) continue;
    if (found->is_string()) {
      strings += found->get<std::string>();
    } else {
      for (const std::string text : *found) strings += text + '\0';
    }
    header.string_bytes[i] = static_cast<uint32_t>(strings.size() - before);
  }
  std::vector<uint8_t> stored(sizeof header);
  std::memcpy(stored.data(), &header, sizeof header);
  stored.insert(stored.end(), strings.begin(), strings.end());
  return stored;
}

std::vector<uint8_t> call_form_of(const std::string& chat_template) {
  for (const json& form : call_forms()) {
    const json& templates = form.at("templates");
    if (std::find(templates.begin(), templates.end(), chat_template) != templates.end()) {
      return stored_call_form(form);
    }
  }
  throw std::runtime_error("call_forms.json has no " + chat_template);
}

// Numbers by their digits, so that none is lost to a double.
bool is_same_answer(const json& got, const json& expected) {
  if (got.at("content") != expected.at("content")) return false;
  if (got.at("reasoning") != expected.at("reasoning")) return false;
  if (got.at("complete") != expected.at("complete")) return false;
  const json& calls = expected.at("calls");
  if (got.at("calls").size() != calls.size()) return false;
  for (size_t i = 0; i < calls.size(); ++i) {
    const json& call = got.at("calls").at(i);
    if (call.at("name") != calls[i].at("name")) return false;
    if (call.at("arguments") != calls[i].at("arguments")) return false;
    if (calls[i].contains("id") && calls[i].at("id") != call.value("id", json())) return false;
  }
  return true;
}

CallTrial::CallTrial(std::vector<uint8_t> form, std::string tools, size_t hold_bytes)
    : form_(std::move(form)), tools_(std::move(tools)) {
  size_t n_bytes = 0;
  require_ok(cria_calls_required(form_.data(), form_.size(), tools_.data(), tools_.size(),
                                 hold_bytes, &n_bytes));
  memory_ = std::make_unique<AlignedMemory>(n_bytes);
  require_ok(cria_calls_make(memory_->data(), memory_->size(), form_.data(), form_.size(),
                             tools_.data(), tools_.size(), hold_bytes, &calls_));
}

void CallTrial::tell(void* context, const cria_calls_event* event) {
  CallTrial& trial = *static_cast<CallTrial*>(context);
  ++trial.n_events_;
  const std::string text(event->text == nullptr ? "" : event->text, event->n_bytes);
  const std::string id(event->id == nullptr ? "" : event->id, event->n_id);
  const bool is_piece = event->kind == CRIA_CALLS_TEXT || event->kind == CRIA_CALLS_THINKING ||
                        event->kind == CRIA_CALLS_ARGUMENTS;
  if (is_piece && !trial.told_.empty() && trial.told_.back().kind == event->kind) {
    trial.told_.back().text += text;
  } else {
    trial.told_.push_back({event->kind, event->call, text, id});
  }
}

void CallTrial::begin(std::string_view opened) {
  told_.clear();
  n_events_ = 0;
  require_ok(cria_calls_begin(calls_, opened.data(), opened.size()));
}

void CallTrial::read(std::string_view piece) {
  require_ok(cria_calls_read(calls_, piece.data(), piece.size(), tell, this));
}

void CallTrial::finish(cria_calls_ending ended) {
  require_ok(cria_calls_finish(calls_, ended, tell, this, &ending_));
}

void CallTrial::run(std::string_view opened, std::string_view answer, size_t n_bytes,
                    cria_calls_ending ended, std::mt19937* random) {
  begin(opened);
  while (!answer.empty()) {
    const size_t n = std::min(n_bytes != 0 ? n_bytes : 1 + (*random)() % 9, answer.size());
    read(answer.substr(0, n));
    answer.remove_prefix(n);
  }
  finish(ended);
}

json CallTrial::answer() const {
  std::string content;
  std::string reasoning;
  json calls = json::array();
  json call;
  for (const ToldEvent& event : told_) {
    switch (event.kind) {
      case CRIA_CALLS_TEXT:
        content += event.text;
        break;
      case CRIA_CALLS_THINKING:
        reasoning += event.text;
        break;
      case CRIA_CALLS_BEGIN:
        call = {{"name", event.text}};
        if (!event.id.empty()) call["id"] = event.id;
        break;
      case CRIA_CALLS_ARGUMENTS:
        call["arguments"] = event.text;
        break;
      case CRIA_CALLS_END:
        call["arguments"] = json::parse(call.at("arguments").get<std::string>());
        calls.push_back(call);
        break;
      case CRIA_CALLS_BROKEN:
        break;
    }
  }
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? json() : json(text);
  };
  return {{"content", text_or_null(content)},
          {"reasoning", text_or_null(reasoning)},
          {"calls", calls},
          {"complete", ending_ == CRIA_CALLS_STOPPED}};
}

}  // namespace cria::test
