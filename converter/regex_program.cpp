#include "converter/regex_program.h"

#include <algorithm>

namespace cria::converter {
namespace {

constexpr size_t kMaxInstructions = 1 << 13;
// Nodes looked at, those too that become no instruction: a repetition looks at what it repeats each
// time, so that nested ones of nothing at all would never end.
constexpr size_t kMaxSteps = 1 << 17;

// Instructions are made from the end of the regex to its start: each knows where it goes on.
class Compiler {
 public:
  explicit Compiler(const Regex& regex) : regex_(regex) {}

  RegexProgram compile() {
    const uint32_t match = add({RegexStep::kMatch}, 0);
    program_.start = compile_node(regex_.root, match);
    return program_;
  }

 private:
  void spend(size_t offset) {
    if (++steps_ > kMaxSteps) {
      throw RegexError(offset, "the regex is too large with its repetitions written out");
    }
  }

  uint32_t add(const RegexInstruction& instruction, size_t offset) {
    if (program_.instructions.size() == kMaxInstructions) {
      throw RegexError(offset, "the regex is too large with its repetitions written out");
    }
    program_.instructions.push_back(instruction);
    return static_cast<uint32_t>(program_.instructions.size() - 1);
  }

  [[nodiscard]] bool may_be_empty(uint32_t index) {
    const RegexNode& node = regex_.nodes[index];
    spend(node.offset);
    const auto empty = [this](uint32_t part) { return may_be_empty(part); };
    switch (node.kind) {
      case RegexKind::kSet:
        return false;
      case RegexKind::kAhead:
        return true;
      case RegexKind::kConcat:
        return std::all_of(node.parts.begin(), node.parts.end(), empty);
      case RegexKind::kAlternate:
        return std::any_of(node.parts.begin(), node.parts.end(), empty);
      case RegexKind::kRepeat:
        return node.least == 0 || may_be_empty(node.parts.front());
    }
    return true;
  }

  uint32_t compile_node(uint32_t index, uint32_t next) {
    const RegexNode& node = regex_.nodes[index];
    spend(node.offset);
    switch (node.kind) {
      case RegexKind::kSet:
        return add({RegexStep::kTake, next, 0, node.set}, node.offset);
      case RegexKind::kAhead:
        return add({RegexStep::kAhead, next, 0, node.set, false, node.takes_end}, node.offset);
      case RegexKind::kConcat:
        for (size_t i = node.parts.size(); i-- > 0;) next = compile_node(node.parts[i], next);
        return next;
      case RegexKind::kAlternate: {
        uint32_t first = compile_node(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;) {
          const uint32_t part = compile_node(node.parts[i], next);
          first = add({RegexStep::kTry, part, first}, node.offset);
        }
        return first;
      }
      case RegexKind::kRepeat:
        return compile_repeat(node, next);
    }
    return next;
  }

  uint32_t add_choice(const RegexNode& node, uint32_t more, uint32_t leave) {
    const bool is_lazy = node.mode == RepeatMode::kLazy;
    return add({RegexStep::kTry, is_lazy ? leave : more, is_lazy ? more : leave}, node.offset);
  }

  uint32_t compile_repeat(const RegexNode& node, uint32_t next) {
    const uint32_t part = node.parts.front();
    // What has taken all that it can never gives a character back: none like it follows.
    uint32_t leave = next;
    if (node.mode == RepeatMode::kPossessive) {
      leave = add({RegexStep::kAhead, next, 0, regex_.nodes[part].set, true, true}, node.offset);
    }
    uint32_t entry = next;
    if (node.most == kRepeatForever) {
      if (may_be_empty(part)) {
        throw RegexError(node.offset, "an endless repetition of a part that may be empty");
      }
      entry = add_choice(node, 0, leave);
      const uint32_t body = compile_node(part, entry);
      RegexInstruction& choice = program_.instructions[entry];
      (node.mode == RepeatMode::kLazy ? choice.other : choice.next) = body;
    } else {
      for (uint32_t i = node.least; i < node.most; ++i) {
        entry = add_choice(node, compile_node(part, entry), leave);
      }
    }
    for (uint32_t i = 0; i < node.least; ++i) entry = compile_node(part, entry);
    return entry;
  }

  const Regex& regex_;
  RegexProgram program_;
  size_t steps_ = 0;
};

}  // namespace

RegexProgram compile_regex(const Regex& regex) { return Compiler(regex).compile(); }

}  // namespace cria::converter
