#include "converter/lora/module_pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cria::converter {
namespace {

// The instructions at which a match may be, each once.
class Places {
 public:
  Places(const Regex& regex, const RegexProgram& program)
      : regex_(&regex), program_(&program), is_in_(program.instructions.size(), false) {}

  // Takes place and what it leads to before a character is taken. next: the character that follows;
  // nothing: the name ends.
  void add(uint32_t place, std::optional<uint32_t> next) {
    waiting_.push_back(place);
    while (!waiting_.empty()) {
      const uint32_t at = waiting_.back();
      waiting_.pop_back();
      if (is_in_[at]) continue;
      is_in_[at] = true;
      const RegexInstruction& step = program_->instructions[at];
      if (step.step == RegexStep::kMatch) has_match_ = true;
      if (step.step == RegexStep::kTake) takers_.push_back(at);
      if (step.step == RegexStep::kTry) waiting_.push_back(step.other);
      const bool goes_on =
          step.step == RegexStep::kTry || (step.step == RegexStep::kAhead && sees(step, next));
      if (goes_on) waiting_.push_back(step.next);
    }
  }

  // Those that take the character, with what they lead to.
  [[nodiscard]] Places after(uint32_t code, std::optional<uint32_t> next) const {
    Places places(*regex_, *program_);
    for (const uint32_t at : takers_) {
      const RegexInstruction& step = program_->instructions[at];
      if (regex_->sets[step.set].has(code)) places.add(step.next, next);
    }
    return places;
  }

  [[nodiscard]] bool has_match() const { return has_match_; }

 private:
  [[nodiscard]] bool sees(const RegexInstruction& step, std::optional<uint32_t> next) const {
    return next ? regex_->sets[step.set].has(*next) != step.negated : step.takes_end;
  }

  const Regex* regex_;
  const RegexProgram* program_;
  std::vector<bool> is_in_;
  std::vector<uint32_t> takers_;
  std::vector<uint32_t> waiting_;
  bool has_match_ = false;
};

}  // namespace

ModulePattern::ModulePattern(std::string text) : text_(std::move(text)) {
  // What ^ begins in one of several alternatives is left to the regex's reader, which refuses it.
  if (text_.starts_with('^') && text_.find('|') == std::string::npos) {
    is_whole_ = true;
    text_.erase(0, 1);
  }
  if (text_.find_first_of("^$*+?()[]{}|\\") == std::string::npos) return;
  regex_ = parse_regex(text_);
  program_ = compile_regex(*regex_);
}

// A point in a name is a regex's: it stands for any character.
bool ModulePattern::name_fits(std::string_view module) const {
  if (module.size() < text_.size()) return false;
  const size_t before = module.size() - text_.size();
  if (before != 0 && (is_whole_ || module[before - 1] != '.')) return false;
  return std::equal(text_.begin(), text_.end(), module.begin() + static_cast<ptrdiff_t>(before),
                    [](char own, char other) { return own == '.' || own == other; });
}

bool ModulePattern::regex_fits(std::string_view module) const {
  // Names of modules are ASCII; another's bytes are characters that no pattern names.
  const auto code = [module](size_t at) {
    return at < module.size() ? std::optional<uint32_t>(static_cast<unsigned char>(module[at]))
                              : std::nullopt;
  };
  Places places(*regex_, program_);
  for (size_t at = 0; at <= module.size(); ++at) {
    if (at > 0) places = places.after(*code(at - 1), code(at));
    if (at == 0 || (!is_whole_ && module[at - 1] == '.')) places.add(program_.start, code(at));
  }
  return places.has_match();
}

bool ModulePattern::fits(std::string_view module) const {
  return regex_ ? regex_fits(module) : name_fits(module);
}

}  // namespace cria::converter
