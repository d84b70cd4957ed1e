// A chat template as the file stores it, with strings of its own, and what it says.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "converter/chat_template/dialogue.h"
#include "quant/text/chat_template_format.h"

namespace cria::converter {

// A ChatRule with its joint.
struct StoredRule {
  uint32_t left = 0;
  uint32_t right = 0;
  uint32_t places = 0;
  uint32_t values = 0;
  uint8_t trims = 0;
  bool leaves_out = false;
  std::string text;
};

// The fields of quant/text/chat_template_format.h.
struct StoredTemplate {
  uint32_t flags = 0;
  uint32_t not_blank = 0;
  uint32_t id_characters = 0;
  uint8_t result_trims = 0;
  std::array<format::ChatValueStyle, format::kChatStyles> styles = {};
  std::array<std::string, format::kChatStrings> strings;  // but for kJoints
  std::vector<StoredRule> rules;
  // The template writes the date in a way that the form cannot: that of kTemplateDate stays.
  bool has_fixed_date = false;

  [[nodiscard]] std::string& operator[](format::ChatString which) {
    return strings[static_cast<size_t>(which)];
  }
  [[nodiscard]] const std::string& operator[](format::ChatString which) const {
    return strings[static_cast<size_t>(which)];
  }
  [[nodiscard]] format::ChatValueStyle& style(format::ChatStyle which) {
    return styles[static_cast<size_t>(which)];
  }
};

// The file section. Throws std::runtime_error when it breaks a rule of the format.
[[nodiscard]] std::vector<uint8_t> build_chat_section(const StoredTemplate& stored, uint32_t kind);

// As chat_disorder (quant/text/chat_order.h) tells it.
[[nodiscard]] uint32_t disorder_of(const Dialogue& dialogue);

// A stored template as the runtime reads it.
class StoredForm {
 public:
  // Throws as build_chat_section does.
  explicit StoredForm(const StoredTemplate& stored);

  // What it makes of a conversation; nullopt: it refuses it.
  [[nodiscard]] std::optional<std::string> text(const Dialogue& dialogue) const;
  // Why it refuses it, as chat_refusal says it; empty: it does not.
  [[nodiscard]] std::string refusal(const Dialogue& dialogue) const;
  // A call, a result, and the tools, as they stand in the text; nullopt: refused.
  [[nodiscard]] std::optional<std::string> call_text(const DialogueMessage& message,
                                                     size_t call) const;
  [[nodiscard]] std::optional<std::string> result_text(const DialogueMessage& message) const;
  [[nodiscard]] std::optional<std::string> tools_text(const Dialogue& dialogue) const;

  // A unit of a dialogue, and the places of the joint before it.
  struct Unit {
    format::ChatUnit left;
    format::ChatUnit right;
    size_t message;
    size_t call;
    uint32_t places;
  };
  // Calls visit(unit) for the units of a dialogue, whatever the rules say, as long as it returns
  // whether that one is written.
  void visit_units(const Dialogue& dialogue,
                   const std::function<std::optional<bool>(const Unit&)>& visit) const;

  // The rules that it takes for a conversation that it does not refuse, and where they stand.
  struct RuleUse {
    size_t rule;      // its place among the rules
    uint32_t places;  // of the joint
  };
  [[nodiscard]] std::vector<RuleUse> rules_of(const Dialogue& dialogue) const;

 private:
  [[nodiscard]] bool has_pattern(format::ChatString which) const;

  std::vector<uint8_t> section_;
  ChatTemplate chat_ = {};
  std::string date_format_;
};

}  // namespace cria::converter
