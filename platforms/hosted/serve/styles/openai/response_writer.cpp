// Answers in the words of OpenAI's responses: items of reasoning, messages and calls, in order.
#include <algorithm>
#include <optional>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/random_bits.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {
namespace {

std::string new_id(const char* prefix) { return prefix + random_hex(); }

enum class Kind { kReasoning, kMessage, kCall };

// How each kind of items is named.
struct KindRow {
  const char* id_prefix;
  const char* part;   // the type of its content
  const char* delta;  // the event of a piece,
  const char* done;   // and of all of them,
  const char* whole;  // where they are this member
};
constexpr KindRow kKinds[] = {
    {"rs_", "reasoning_text", "response.reasoning_text.delta", "response.reasoning_text.done",
     "text"},
    {"msg_", "output_text", "response.output_text.delta", "response.output_text.done", "text"},
    {"fc_", nullptr, "response.function_call_arguments.delta",
     "response.function_call_arguments.done", "arguments"},
};

struct Item {
  Kind kind;
  std::string id;
  std::string text;  // a call's arguments
  std::string call_id = {};
  std::string name = {};

  [[nodiscard]] const KindRow& row() const { return kKinds[static_cast<size_t>(kind)]; }
  [[nodiscard]] JsonText part(const std::string& of) const {
    JsonText json = JsonText::object({{"type", row().part}, {"text", of}});
    if (kind == Kind::kMessage) json.put("annotations", JsonText::array());
    return json;
  }
  // Empty as it is added, and whole, or cut, as it is done.
  [[nodiscard]] JsonText json(const char* status) const {
    const bool is_added = std::string_view(status) == "in_progress";
    if (kind == Kind::kCall) {
      return JsonText::object({{"id", id},
                               {"type", "function_call"},
                               {"status", status},
                               {"call_id", call_id},
                               {"name", name},
                               {"arguments", is_added ? std::string() : text}});
    }
    const JsonText content = is_added ? JsonText::array() : JsonText::array_of(part(text));
    if (kind == Kind::kReasoning) {
      return JsonText::object({{"id", id},
                               {"type", "reasoning"},
                               {"status", status},
                               {"summary", JsonText::array()},
                               {"content", content}});
    }
    return JsonText::object({{"id", id},
                             {"type", "message"},
                             {"status", status},
                             {"role", "assistant"},
                             {"content", content}});
  }
};

class ResponseWriter final : public AnswerWriter {
 public:
  ResponseWriter(AnswerOrder order, const TextService* text)
      : AnswerWriter(std::move(order), text), id_(new_id("resp_")), created_(unix_seconds()) {}

  // The last event has them all.
  [[nodiscard]] size_t kept_bytes_of(const AnswerPiece& piece) const override {
    return piece.text.size();
  }

 private:
  [[nodiscard]] JsonText head(const char* status) const {
    JsonText json = order_.settings;
    json.put("id", id_);
    json.put("object", "response");
    json.put("created_at", created_);
    json.put("model", order_.model);
    json.put("status", status);
    json.put("error", nullptr);
    return json;
  }

  // Which was cut, or is complete: all but its output.
  [[nodiscard]] JsonText ended() const {
    JsonText json = head(status());
    const JsonText reason = JsonText::object({{"reason", "max_output_tokens"}});
    json.put("incomplete_details", is_cut() ? reason : JsonText(nullptr));
    const Sums all = sums();
    json.put("usage",
             JsonText::object(
                 {{"input_tokens", all.n_prompt},
                  {"input_tokens_details", JsonText::object({{"cached_tokens", all.n_cached}})},
                  {"output_tokens", all.n_made},
                  {"output_tokens_details", JsonText::object({{"reasoning_tokens", 0}})},
                  {"total_tokens", all.n_prompt + all.n_made}}));
    return json;
  }

  [[nodiscard]] bool is_cut() const {
    return std::string_view(finish_reason(choices_[0].summary)) != "stop";
  }
  [[nodiscard]] const char* status() const { return is_cut() ? "incomplete" : "completed"; }

  // Of a stream. What comes before an event that is returned waits for it in before_.
  JsonText event(const char* type) {
    return JsonText::object({{"type", type}, {"sequence_number", n_events_++}});
  }
  JsonText event_of_item(const char* type) {
    JsonText json = event(type);
    json.put("item_id", item_->id);
    json.put("output_index", n_items_);
    if (item_->kind != Kind::kCall) json.put("content_index", 0);
    return json;
  }
  void tell(const JsonText& json) { before_ += framed(json); }

  // A stream's event has its type as a name too.
  [[nodiscard]] std::string framed(const JsonText& json) const {
    constexpr std::string_view kHead = R"({"type":")";
    const std::string& text = json.text();
    const std::string type = text.substr(kHead.size(), text.find('"', kHead.size()) - kHead.size());
    return "event: " + type + "\n" + hosted::framed(order_.form, text);
  }
  std::string event_of(const JsonText& json) override {
    return std::exchange(before_, {}) + framed(json);
  }

  std::string opening(size_t) override {
    for (const char* const type : {"response.created", "response.in_progress"}) {
      JsonText response = head("in_progress");
      response.put("incomplete_details", nullptr);
      response.put("output", JsonText::array());
      response.put("usage", nullptr);
      JsonText json = event(type);
      json.put("response", response);
      tell(json);
    }
    return std::exchange(before_, {});
  }

  // Both give the last of their events.
  JsonText open(Item item) {
    if (item_) tell(close("completed"));
    item_ = std::move(item);
    JsonText added = event("response.output_item.added");
    added.put("output_index", n_items_);
    added.put("item", item_->json("in_progress"));
    if (item_->row().part == nullptr) return added;
    tell(added);
    JsonText part = event_of_item("response.content_part.added");
    part.put("part", item_->part({}));
    return part;
  }

  JsonText close(const char* status) {
    JsonText whole = event_of_item(item_->row().done);
    whole.put(item_->row().whole, item_->text);
    tell(whole);
    if (item_->row().part != nullptr) {
      JsonText part = event_of_item("response.content_part.done");
      part.put("part", item_->part(item_->text));
      tell(part);
    }
    JsonText done = event("response.output_item.done");
    const JsonText json = item_->json(status);
    done.put("output_index", n_items_++);
    done.put("item", json);
    output_.push_back(json);
    item_.reset();
    return done;
  }

  // A piece of an item of this kind, which begins where the last one is another.
  JsonText delta(Kind kind, const std::string& text) {
    if (!item_ || item_->kind != kind) {
      tell(open({kind, new_id(kKinds[static_cast<size_t>(kind)].id_prefix), {}}));
    }
    item_->text += text;
    JsonText json = event_of_item(item_->row().delta);
    json.put("delta", text);
    return json;
  }

  JsonText piece_event(size_t, const AnswerPiece& piece, Choice*) override {
    return delta(Kind::kMessage, piece.text);
  }

  std::optional<JsonText> part_event(size_t, const AnswerPart& part,
                                     const Choice& choice) override {
    switch (part.kind) {
      case CRIA_CALLS_THINKING:
        return delta(Kind::kReasoning, part.text);
      case CRIA_CALLS_BEGIN:
        return open(
            {Kind::kCall, new_id("fc_"), {}, choice.calls.back().id, choice.calls.back().name});
      case CRIA_CALLS_ARGUMENTS:
        return delta(Kind::kCall, part.text);
      case CRIA_CALLS_END:
        return close("completed");
      default:
        return std::nullopt;
    }
  }

  JsonText end_event(size_t, const Choice&) override {
    if (!item_ && n_items_ == 0) tell(open({Kind::kMessage, new_id("msg_"), {}}));
    if (item_) tell(close(item_->kind == Kind::kCall ? "incomplete" : status()));
    JsonText response = ended();
    response.put("output", output_);
    JsonText json = event(is_cut() ? "response.incomplete" : "response.completed");
    json.put("response", response);
    return json;
  }

  // Of a whole answer.
  void put_first() override {
    put_open(ended());
    put("\"output\":[");
  }
  void put_choice(size_t i) override {
    const Choice& choice = choices_[i];
    JsonText items = JsonText::array();
    const bool calls = std::any_of(choice.calls.begin(), choice.calls.end(),
                                   [](const Call& call) { return call.is_whole; });
    if (!choice.thinking.empty()) {
      items.push_back(Item{Kind::kReasoning, new_id("rs_"), choice.thinking}.json("completed"));
    }
    if (!choice.text.empty() || !calls) {
      items.push_back(Item{Kind::kMessage, new_id("msg_"), choice.text}.json(status()));
    }
    for (const Call& call : choice.calls) {
      if (!call.is_whole) continue;
      items.push_back(
          Item{Kind::kCall, new_id("fc_"), call.arguments, call.id, call.name}.json("completed"));
    }
    put(items.text().substr(1, items.text().size() - 2));
  }
  void put_last() override { put("]}"); }

  std::string id_;
  int64_t created_;
  uint64_t n_events_ = 0;
  std::string before_;
  std::optional<Item> item_;  // at hand
  size_t n_items_ = 0;        // done
  JsonText output_ = JsonText::array();
};

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<ResponseWriter>(std::move(order), text);
}

}  // namespace cria::hosted
