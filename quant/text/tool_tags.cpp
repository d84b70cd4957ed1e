#include "quant/text/tool_tags.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "quant/text/unicode.h"
#include "quant/text/utf8.h"

namespace cria {
namespace {

using Text = std::span<const char>;
using format::ChatValueForm;
using format::ChatValueStyle;

constexpr ChatValueStyle kBare = {ChatValueForm::kBare, 0, 0, 0};
constexpr ChatValueStyle kJson = {ChatValueForm::kJson, 0, 0, 0};
constexpr ChatValueStyle kPython = {ChatValueForm::kPython, 0, 0, 0};

bool is_object(Text value) { return !value.empty() && value[0] == '{'; }
bool is_string(Text value) { return !value.empty() && value[0] == '"'; }

// What is no object has none.
JsonMembers members_of(Text value) {
  constexpr std::string_view kEmpty = "{}";
  return JsonMembers(is_object(value) ? value : Text(kEmpty));
}

// Empty: there is none.
Text member(Text object, const char* name) {
  Text key;
  Text value;
  for (JsonMembers members = members_of(object); members.next(&key, &value);) {
    if (is_json_name(key, name)) return value;
  }
  return {};
}

bool has_escape(Text string) {
  return std::find(string.begin(), string.end(), '\\') != string.end();
}

// Finds where what is put begins and ends without what templates strip: bytes [begin, end).
class EndsSink final : public TextSink {
 public:
  void put(Text text) override {
    while (!text.empty()) {
      const Utf8Char c = decode_utf8(text.data(), text.size());
      const size_t behind = n_put_ + c.n_bytes;
      if (!is_stripped(c.code)) {
        begin_ = end_ == 0 ? n_put_ : begin_;
        end_ = behind;
      }
      n_put_ = behind;
      text = text.subspan(c.n_bytes);
    }
  }
  [[nodiscard]] size_t begin() const { return begin_; }
  [[nodiscard]] size_t end() const { return end_; }

 private:
  size_t n_put_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// Puts bytes [begin, end) of what is put.
class PartSink final : public TextSink {
 public:
  PartSink(size_t begin, size_t end, TextSink* sink) : begin_(begin), end_(end), sink_(*sink) {}
  void put(Text text) override {
    const size_t first = std::min(begin_ - std::min(begin_, n_put_), text.size());
    const size_t last = std::min(end_ - std::min(end_, n_put_), text.size());
    if (first < last) sink_.put(text.subspan(first, last - first));
    n_put_ += text.size();
  }

 private:
  const size_t begin_;
  const size_t end_;
  TextSink& sink_;
  size_t n_put_ = 0;
};

bool has_escaped_key(Text object) {
  Text key;
  Text value;
  for (JsonMembers members = members_of(object); members.next(&key, &value);) {
    if (has_escape(key)) return true;
  }
  return false;
}

class TagPrinter {
 public:
  TagPrinter(bool has_own_lists, TextSink* sink) : has_own_lists_(has_own_lists), sink_(sink) {}

  void function(Text function) {
    const Text parameters = member(function, "parameters");
    put("<function>");
    field("name", member(function, "name"), kBare);
    description(member(function, "description"));
    put("\n<parameters>");
    Text key;
    Text value;
    const Text properties = member(parameters, "properties");
    for (JsonMembers members = members_of(properties); members.next(&key, &value);) {
      parameter(key, value);
    }
    others(parameters, {"type", "properties", has_own_lists_ ? "required" : "type"});
    if (has_own_lists_) field("required", member(parameters, "required"), kJson);
    put("\n</parameters>");
    others(function, {"type", "name", "description", "parameters"});
    put("\n</function>");
  }

 private:
  void put(std::string_view text) { sink_->put(text); }

  void parameter(Text name, Text fields) {
    put("\n<parameter>");
    field("name", name, kBare);
    value("type", member(fields, "type"));
    description(member(fields, "description"));
    if (has_own_lists_) field("enum", member(fields, "enum"), kJson);
    others(fields, {"name", "type", "description", has_own_lists_ ? "enum" : "name"});
    put("\n</parameter>");
  }

  void field(std::string_view name, Text value, const ChatValueStyle& style) {
    if (value.empty()) return;
    begin(name);
    print_json(value, style, sink_);
    end(name);
  }
  void begin(std::string_view name) {
    put("\n<");
    put(name);
    put(">");
  }
  void end(std::string_view name) {
    put("</");
    put(name);
    put(">");
  }

  // Templates strip it. One that is null is none.
  void description(Text value) {
    if (value.empty() || value[0] == 'n') return;
    const ChatValueStyle& style = is_string(value) ? kBare : kPython;
    EndsSink ends;
    print_json(value, style, &ends);
    PartSink part(ends.begin(), ends.end(), sink_);
    begin("description");
    print_json(value, style, &part);
    end("description");
  }

  // As str() has it.
  void value(std::string_view name, Text value) {
    field(name, value, is_string(value) ? kBare : kPython);
  }

  void others(Text object, std::initializer_list<const char*> known) {
    Text key;
    Text value;
    for (JsonMembers members = members_of(object); members.next(&key, &value);) {
      const bool is_known = std::any_of(
          known.begin(), known.end(), [&key](const char* name) { return is_json_name(key, name); });
      if (is_known) continue;
      const std::string_view name(key.data() + 1, key.size() - 2);
      const bool is_json = is_object(value) || (has_own_lists_ && value[0] == '[');
      if (is_json) {
        field(name, value, kJson);
      } else {
        this->value(name, value);
      }
    }
  }

  const bool has_own_lists_;
  TextSink* sink_;
};

}  // namespace

const char* tags_refusal(Text function) {
  constexpr const char* kEscaped = "needs tools whose names have no escapes in JSON";
  const Text parameters = member(function, "parameters");
  const Text properties = member(parameters, "properties");
  if (has_escaped_key(function) || has_escaped_key(parameters)) return kEscaped;
  Text key;
  Text fields;
  for (JsonMembers members = members_of(properties); members.next(&key, &fields);) {
    if (has_escaped_key(fields)) return kEscaped;
  }
  return nullptr;
}

void print_tags(Text function, bool has_own_lists, TextSink* sink) {
  TagPrinter(has_own_lists, sink).function(function);
}

}  // namespace cria
