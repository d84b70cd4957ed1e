// Chat template sections built by hand, as docs/model_format.md describes them, without the
// converter.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "quant/text/chat_template_format.h"

namespace cria::test {

using format::bit_of;

// A ChatRule with its joint.
struct JointRule {
  uint32_t left;  // bits of units
  uint32_t right;
  std::string joint;
  uint32_t places = 0;  // that have to be there
  uint8_t trims = 0;
  bool leaves_out = false;
};

// The fields as they go into the file, so that a test can put them wrong.
struct ChatSection {
  format::ChatTemplateHeader header = {};
  std::vector<JointRule> rules;
  std::array<std::string, format::kChatStrings> strings;  // but for kJoints

  ChatSection() { header.kind = format::kChatKindOwn; }
  std::string& operator[](format::ChatString which) { return strings[static_cast<size_t>(which)]; }
  // Counts rules and strings.
  [[nodiscard]] std::vector<uint8_t> bytes() const {
    format::ChatTemplateHeader counted = header;
    counted.n_rules = static_cast<uint32_t>(rules.size());
    std::vector<format::ChatRule> stored;
    std::string text;
    for (const JointRule& rule : rules) {
      stored.push_back({static_cast<uint16_t>(rule.left), static_cast<uint16_t>(rule.right),
                        rule.places, rule.places, static_cast<uint32_t>(text.size()),
                        static_cast<uint16_t>(rule.joint.size()), rule.trims,
                        static_cast<uint8_t>(rule.leaves_out ? 1 : 0)});
      text += rule.joint;
    }
    counted.string_bytes[0] = static_cast<uint32_t>(text.size());
    for (size_t i = 1; i < strings.size(); ++i) {
      counted.string_bytes[i] = static_cast<uint32_t>(strings[i].size());
      text += strings[i];
    }
    const size_t n_rule_bytes = stored.size() * sizeof(format::ChatRule);
    std::vector<uint8_t> section(sizeof counted + n_rule_bytes + text.size());
    std::memcpy(section.data(), &counted, sizeof counted);
    if (!stored.empty()) std::memcpy(section.data() + sizeof counted, stored.data(), n_rule_bytes);
    std::copy(text.begin(), text.end(), section.end() - static_cast<std::ptrdiff_t>(text.size()));
    return section;
  }
};

// What stands before and after a unit, whatever its neighbours are.
struct UnitFrame {
  std::string before;
  std::string behind;
};

// A template that frames each message for itself: a rule for each two units that it frames.
struct Frames {
  std::string start = {};
  UnitFrame system = {};
  UnitFrame later = {};
  UnitFrame user = {};
  UnitFrame text = {};
  std::string open = {};
  std::string end = {};

  [[nodiscard]] std::vector<JointRule> rules() const {
    using format::ChatUnit;
    const std::pair<ChatUnit, UnitFrame> units[] = {
        {ChatUnit::kStart, {"", start}}, {ChatUnit::kSystem, system}, {ChatUnit::kLater, later},
        {ChatUnit::kUser, user},         {ChatUnit::kText, text},     {ChatUnit::kOpen, {open, ""}},
        {ChatUnit::kEnd, {end, ""}}};
    std::vector<JointRule> rules;
    for (const auto& [left, of_left] : units) {
      if (left == ChatUnit::kOpen || left == ChatUnit::kEnd) continue;
      for (const auto& [right, of_right] : units) {
        if (right == ChatUnit::kStart) continue;
        rules.push_back({bit_of(left), bit_of(right), of_left.behind + of_right.before});
      }
    }
    return rules;
  }
};

}  // namespace cria::test
