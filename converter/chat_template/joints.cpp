#include "converter/chat_template/joints.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "converter/chat_template/marked_samples.h"

namespace cria::converter {
namespace {

using format::bit_of;
using format::ChatTrim;
using format::ChatUnit;

// What a rule says.
struct Joint {
  std::string text;
  uint8_t trims = 0;
  bool leaves_out = false;

  auto operator<=>(const Joint&) const = default;
};

using Pair = std::pair<ChatUnit, ChatUnit>;
// By places; nullopt: the same places have different joints.
using Joints = std::map<uint32_t, std::optional<Joint>>;

void replace_all(const std::string& what, const std::string& with, std::string* text) {
  for (size_t at = text->find(what); at != std::string::npos; at = text->find(what, at)) {
    text->replace(at, what.size(), with);
    at += with.size();
  }
}

bool is_content(ChatUnit unit) {
  constexpr uint32_t kContents = bit_of(ChatUnit::kSystem) | bit_of(ChatUnit::kLater) |
                                 bit_of(ChatUnit::kUser) | bit_of(ChatUnit::kThinking) |
                                 bit_of(ChatUnit::kText);
  return (kContents & bit_of(unit)) != 0;
}

// What of the white space beside a mark a gap begins, or ends, with; it is taken away.
uint8_t take_trim_behind(std::string* gap) {
  const std::string all(kBehindMark);
  if (gap->starts_with(all)) {
    gap->erase(0, all.size());
    return static_cast<uint8_t>(ChatTrim::kNothing);
  }
  if (!gap->starts_with(all.substr(0, 1))) return static_cast<uint8_t>(ChatTrim::kSpace);
  gap->erase(0, 1);
  return static_cast<uint8_t>(ChatTrim::kNewlines);
}

uint8_t take_trim_before(std::string* gap) {
  const std::string all(kBeforeMark);
  if (gap->ends_with(all)) {
    gap->erase(gap->size() - all.size());
    return static_cast<uint8_t>(ChatTrim::kNothing);
  }
  if (!gap->ends_with(all.back())) return static_cast<uint8_t>(ChatTrim::kSpace);
  gap->pop_back();
  return static_cast<uint8_t>(ChatTrim::kNewlines);
}

// Whether a text has a mark in it: something is written twice, or in a way that is not known.
bool has_mark(const std::string& text) {
  for (size_t at = text.find("xz"); at != std::string::npos; at = text.find("xz", at + 1)) {
    size_t digit = at;
    while (digit > 0 && text[digit - 1] >= '0' && text[digit - 1] <= '9') --digit;
    if (digit < at && digit > 1 && text[digit - 1] == 'q') return true;
  }
  return false;
}

class JointFinder {
 public:
  explicit JointFinder(StoredTemplate* stored) : stored_(*stored), form_(*stored) {}

  // False: what is said is not written once and in order.
  bool take(const Sample& sample) {
    std::vector<Taken> taken;
    std::optional<Taken> silent;
    const std::string& text = *sample.text;
    const auto tools =
        sample.dialogue.tools.empty() ? std::nullopt : form_.tools_text(sample.dialogue);
    size_t at = 0;
    bool holds = true;
    bool is_read = false;
    form_.visit_units(sample.dialogue, [&](const StoredForm::Unit& unit) -> std::optional<bool> {
      if (is_silent(sample.dialogue, unit)) {
        holds = !silent;
        silent = Taken{{unit.left, unit.right}, unit.places, {}};
        return holds ? std::optional(true) : std::nullopt;
      }
      const bool is_end = unit.right == ChatUnit::kEnd || unit.right == ChatUnit::kOpen;
      const std::string mark = is_end ? "" : mark_in(sample.dialogue, unit);
      const size_t found = is_end ? text.size() : mark.empty() ? text.npos : text.find(mark, at);
      if (found == std::string::npos) {
        holds = may_be_left_out(sample, unit);
        if (!holds) return std::nullopt;
        taken.push_back({{unit.left, unit.right}, unit.places, {"", 0, true}});
        return false;
      }
      std::string gap = text.substr(at, found - at);
      Joint joint;
      if (is_content(silent ? silent->pair.first : unit.left)) joint.trims = take_trim_behind(&gap);
      if (is_content(unit.right)) joint.trims |= static_cast<uint8_t>(take_trim_before(&gap) << 4);
      if (tools) replace_all(*tools, {'\0', format::kChatSlotTools}, &gap);
      holds = !has_mark(gap);
      joint.text = std::move(gap);
      Taken behind = {{unit.left, unit.right}, unit.places, std::move(joint)};
      if (holds && silent) {
        holds = split_around(&*silent, &behind);
        taken.push_back(std::move(*silent));
        silent.reset();
      }
      if (!holds) return std::nullopt;
      taken.push_back(std::move(behind));
      at = found + mark.size();
      is_read = is_end;
      return true;
    });
    if (!holds || !is_read) return false;
    for (auto& [pair, places, joint] : taken) {
      const auto [known, is_new] = joints_[pair].try_emplace(places, joint);
      if (!is_new && known->second != joint) known->second = std::nullopt;
    }
    return true;
  }

  void make_rules() {
    stored_.rules.clear();
    for (const auto& [pair, joints] : joints_) make_rules(pair, joints);
  }

 private:
  struct Taken {
    Pair pair;
    uint32_t places;
    Joint joint;
  };

  // Whether it is a question without a text: where it stands between two joints cannot be seen.
  static bool is_silent(const Dialogue& dialogue, const StoredForm::Unit& unit) {
    return unit.right == ChatUnit::kUser && dialogue.messages[unit.message].content.empty();
  }

  // The joints around a question without a text, of which behind has both: what stands after it is
  // what stands after one with a text. False: it is not.
  [[nodiscard]] bool split_around(Taken* before, Taken* behind) const {
    constexpr uint32_t kLeftHasText = format::kChatHasText << format::kChatLeft;
    constexpr uint32_t kRightHasText = format::kChatHasText << format::kChatRight;
    const Joint* const usual = find_joint(behind->pair, behind->places | kLeftHasText);
    const Joint* const usual_before = find_joint(before->pair, before->places | kRightHasText);
    std::string& both = behind->joint.text;
    if (usual == nullptr || usual_before == nullptr || !both.ends_with(usual->text)) return false;
    constexpr uint8_t kOfLeft = 0xf;
    const auto trims = static_cast<uint8_t>(behind->joint.trims & kOfLeft);
    before->joint.trims = static_cast<uint8_t>((usual_before->trims & ~kOfLeft) | trims);
    before->joint.text = both.substr(0, both.size() - usual->text.size());
    behind->joint = *usual;
    return true;
  }

  [[nodiscard]] const Joint* find_joint(const Pair& pair, uint32_t places) const {
    const auto joints = joints_.find(pair);
    if (joints == joints_.end()) return nullptr;
    const auto joint = joints->second.find(places);
    return joint != joints->second.end() && joint->second ? &*joint->second : nullptr;
  }

  // What of a unit is looked for: contents without the white space around them.
  [[nodiscard]] std::string mark_in(const Dialogue& dialogue, const StoredForm::Unit& unit) const {
    const size_t index = unit.right == ChatUnit::kSystem ? 0 : unit.message;
    const DialogueMessage& message = dialogue.messages[index];
    if (unit.right == ChatUnit::kCall) return form_.call_text(message, unit.call).value_or("");
    if (unit.right == ChatUnit::kResult) return form_.result_text(message).value_or("");
    const std::string& padded =
        unit.right == ChatUnit::kThinking ? message.thinking : message.content;
    return padded.substr(kBeforeMark.size(),
                         padded.size() - kBeforeMark.size() - kBehindMark.size());
  }

  // Whether a unit that was not found is nowhere in the text, and one that templates leave out.
  [[nodiscard]] bool may_be_left_out(const Sample& sample, const StoredForm::Unit& unit) const {
    const DialogueMessage& message = sample.dialogue.messages[unit.message];
    if (unit.right == ChatUnit::kCall) {
      return sample.text->find(message.calls[unit.call].name) == std::string::npos;
    }
    const bool is_thinking = unit.right == ChatUnit::kThinking;
    const bool is_moved = unit.right == ChatUnit::kSystem && unit.message > 0;
    if (!is_thinking && !is_moved && (unit.right != ChatUnit::kText || message.calls.empty()))
      return false;
    return sample.text->find(mark_in(sample.dialogue, unit)) == std::string::npos;
  }

  // Rules by the fewest places that tell the joints of a pair apart.
  void make_rules(const Pair& pair, const Joints& joints) {
    uint32_t varying = 0;
    for (const auto& [places, joint] : joints) varying |= places ^ joints.begin()->first;
    // What is left out between both matters, and a text is left out only beside calls
    // (quant/text/chat_template_check.cpp).
    uint32_t always = 0;
    for (const auto& [places, joint] : joints) always |= places & format::kChatLeftOutHere;
    if (pair.second == ChatUnit::kText) {
      for (const auto& [places, joint] : joints) {
        if (joint && joint->leaves_out) always |= format::kChatHasCalls << format::kChatRight;
      }
    }
    constexpr int kMostPlaces = 5;
    std::vector<uint32_t> bits;
    for (uint32_t bit = 1; bit <= varying; bit <<= 1) {
      if ((varying & bit) != 0 && (always & bit) == 0) bits.push_back(bit);
    }
    for (int n = 0; n <= kMostPlaces; ++n) {
      Table best;
      find_table(joints, bits, 0, n, always, &best);
      if (best.n_kept > 0) return add_rules(pair, best);
    }
  }

  // Joints by the values of places, and how many they were.
  struct Table {
    uint32_t places = 0;
    std::map<uint32_t, Joint> joints;
    size_t n_kept = 0;
  };

  // Of n of the bits from first on, and those of mask: that with the least that is lost to doubt.
  static void find_table(const Joints& joints, const std::vector<uint32_t>& bits, size_t first,
                         int n, uint32_t mask, Table* best) {
    if (n == 0) {
      auto table = table_of(joints, mask);
      if (table && table->n_kept > best->n_kept) *best = std::move(*table);
      return;
    }
    for (size_t i = first; i + static_cast<size_t>(n) <= bits.size(); ++i) {
      find_table(joints, bits, i + 1, n - 1, mask | bits[i], best);
    }
  }

  static std::optional<Table> table_of(const Joints& joints, uint32_t mask) {
    std::set<uint32_t> doubtful;
    for (const auto& [places, joint] : joints) {
      if (!joint) doubtful.insert(places & mask);
    }
    Table table = {mask, {}, 0};
    for (const auto& [places, joint] : joints) {
      if (doubtful.contains(places & mask)) continue;
      const auto [known, is_new] = table.joints.try_emplace(places & mask, *joint);
      if (!is_new && known->second != *joint) return std::nullopt;
      ++table.n_kept;
    }
    return table;
  }

  void add_rules(const Pair& pair, const Table& table) {
    const std::string tools_slot = {'\0', format::kChatSlotTools};
    for (const auto& [values, joint] : table.joints) {
      // Without tools nothing stands there, and what the template then writes is not known.
      const bool writes_tools = joint.text.find(tools_slot) != std::string::npos;
      const uint32_t tools = writes_tools ? format::kChatHasTools : 0;
      stored_.rules.push_back({bit_of(pair.first), bit_of(pair.second), table.places | tools,
                               values | tools, joint.trims, joint.leaves_out, joint.text});
    }
  }

  StoredTemplate& stored_;
  const StoredForm form_;
  std::map<Pair, Joints> joints_;
};

}  // namespace

void find_rules(const std::vector<Sample>& samples, StoredTemplate* stored) {
  JointFinder finder(stored);
  for (const Sample& sample : samples) {
    if (sample.text) static_cast<void>(finder.take(sample));
  }
  finder.make_rules();
}

namespace {

// A rule that no conversation gets which has a place, or not, that is given.
struct Narrowing {
  size_t rule;
  uint32_t bit;
  uint32_t places;  // of the conversation that does not get it any more
  size_t loss;      // uses that are right and lost
};

size_t loss_of(const std::vector<uint32_t>& uses, uint32_t bit, uint32_t places) {
  return static_cast<size_t>(std::count_if(
      uses.begin(), uses.end(), [&](uint32_t use) { return (use & bit) == (places & bit); }));
}

// That with the least loss, of those the one whose place says most of a conversation.
std::optional<Narrowing> best_narrowing(const std::vector<StoredForm::RuleUse>& path,
                                        const std::vector<std::vector<uint32_t>>& uses,
                                        const StoredTemplate& stored) {
  std::vector<uint32_t> bits = {format::kChatHasQuestion};
  for (uint32_t bit = 1; bit < 1U << format::kChatPlaces; bit <<= 1) bits.push_back(bit);
  std::optional<Narrowing> best;
  for (const uint32_t bit : bits) {
    for (const auto& [rule, places] : path) {
      if ((stored.rules[rule].places & bit) != 0) continue;
      const size_t loss = loss_of(uses[rule], bit, places);
      if (!best || loss < best->loss) best = {rule, bit, places, loss};
    }
  }
  return best;
}

}  // namespace

void narrow_wrong_rules(const std::vector<Sample>& samples, StoredTemplate* stored) {
  std::vector<std::vector<uint32_t>> uses(stored->rules.size());
  std::vector<const Sample*> wrong;
  const auto form = [stored] { return StoredForm(*stored); };
  {
    const StoredForm first = form();
    for (const Sample& sample : samples) {
      const auto text = first.text(sample.dialogue);
      if (text && text != sample.text) wrong.push_back(&sample);
      if (!text || text != sample.text) continue;
      for (const auto& [rule, places] : first.rules_of(sample.dialogue)) {
        uses[rule].push_back(places);
      }
    }
  }
  for (const Sample* sample : wrong) {
    while (form().text(sample->dialogue)) {
      const auto found = best_narrowing(form().rules_of(sample->dialogue), uses, *stored);
      if (!found) break;
      StoredRule& rule = stored->rules[found->rule];
      rule.places |= found->bit;
      rule.values |= ~found->places & found->bit;
      std::erase_if(uses[found->rule], [&](uint32_t use) {
        return (use & found->bit) == (found->places & found->bit);
      });
    }
  }
  // What no conversation gets any more.
  size_t at = 0;
  std::erase_if(stored->rules, [&](const StoredRule&) { return uses[at++].empty(); });
}

void merge_rules(StoredTemplate* stored) {
  const auto merge = [stored](uint32_t StoredRule::*units, uint32_t StoredRule::*others) {
    std::vector<StoredRule> merged;
    for (const StoredRule& rule : stored->rules) {
      const auto same = std::find_if(merged.begin(), merged.end(), [&](const StoredRule& other) {
        return other.*others == rule.*others && other.places == rule.places &&
               other.values == rule.values && other.trims == rule.trims &&
               other.leaves_out == rule.leaves_out && other.text == rule.text;
      });
      if (same == merged.end()) {
        merged.push_back(rule);
      } else {
        (*same).*units |= rule.*units;
      }
    }
    stored->rules = std::move(merged);
  };
  merge(&StoredRule::right, &StoredRule::left);
  merge(&StoredRule::left, &StoredRule::right);
}

}  // namespace cria::converter
