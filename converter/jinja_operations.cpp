#include "converter/jinja_operations.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cria::converter {
namespace {

// What one tag may become: of published templates the largest has some five hundred tokens.
constexpr size_t kMostTokens = size_t{1} << 14;
// Operands of one kind in a row, each of which is a level of minja's stack.
constexpr size_t kMostOperands = 128;

// Whether only the truth of a value counts, so that minja's "and", which gives no more, will do.
enum class Wanted { kValue, kTruth };

JinjaToken symbol(std::string_view text) { return {std::string(text), false, true}; }

void append(JinjaTokens* to, JinjaTokens from) {
  to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

class Rewriter {
 public:
  explicit Rewriter(JinjaTokens tokens) : tokens_(std::move(tokens)) {}

  JinjaTokens tag(JinjaTagKind kind) {
    JinjaTokens result = kind == JinjaTagKind::kExpression ? written() : block();
    if (at_ != tokens_.size()) fail("an expression goes on where it ends");
    return result;
  }

 private:
  [[noreturn]] static void fail(const std::string& problem) { throw std::runtime_error(problem); }

  // Tokens ----------------------------------------------------------------------------------------

  [[nodiscard]] bool is(std::string_view text) const { return is_jinja(tokens_, at_, text); }
  // An operator of one or more characters, none of which is the beginning of a longer one.
  [[nodiscard]] bool is_operator(std::string_view text) const {
    for (size_t i = 0; i < text.size(); ++i) {
      if (!is_jinja(tokens_, at_ + i, text.substr(i, 1))) return false;
      if (i > 0 && tokens_[at_ + i].after_blank) return false;
    }
    constexpr std::string_view kLonger[] = {"**", "//", "==", "!=", "<=", ">="};
    if (text.size() > 1) return true;
    return std::none_of(std::begin(kLonger), std::end(kLonger), [&](std::string_view longer) {
      return longer[0] == text[0] && is_operator(longer);
    });
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  bool take_operator(std::string_view text) {
    if (!is_operator(text)) return false;
    at_ += text.size();
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail("'" + std::string(text) + "' is missing");
  }
  [[nodiscard]] bool is_name() const {
    constexpr std::string_view kWords[] = {"and", "or", "not", "in", "is", "if", "else", "elif"};
    return is_jinja_name(tokens_, at_) &&
           std::find(std::begin(kWords), std::end(kWords), tokens_[at_].text) == std::end(kWords);
  }
  std::string take_name() {
    if (!is_name()) fail("a name is missing");
    std::string name = tokens_[at_++].text;
    if (name.rfind(kJinjaOwnPrefix, 0) == 0) {
      fail("a name begins with " + std::string(kJinjaOwnPrefix));
    }
    return name;
  }

  // Results ---------------------------------------------------------------------------------------

  JinjaTokens joined(std::initializer_list<JinjaTokens> parts) {
    JinjaTokens all;
    for (const JinjaTokens& part : parts) append(&all, part);
    if (all.size() > kMostTokens) fail("an expression is too long");
    return all;
  }
  JinjaTokens bracketed(JinjaTokens inside) {
    return joined({{symbol("(")}, std::move(inside), {symbol(")")}});
  }
  // (value | name) or (value | name(first, ...))
  JinjaTokens applied(JinjaTokens value, const std::string& name,
                      const std::vector<JinjaTokens>& arguments = {}) {
    JinjaTokens call = {symbol("|"), symbol(name)};
    for (size_t i = 0; i < arguments.size(); ++i) {
      call.push_back(symbol(i == 0 ? "(" : ","));
      append(&call, arguments[i]);
    }
    if (!arguments.empty()) call.push_back(symbol(")"));
    return bracketed(joined({std::move(value), std::move(call)}));
  }
  static std::string own(std::string_view name) {
    return std::string(kJinjaOwnPrefix) + std::string(name);
  }
  static void check_operands(size_t n) {
    if (n > kMostOperands) fail("an expression has too many operands");
  }

  // What selects items lazily is true whatever it selects, and a tuple equals no list: here both
  // are lists. Whether such a value ends here, as the operand of what would tell.
  void check_no_iterator() const {
    if (iterator_end_ == at_) fail("what a filter selects is used as a value; add '| list'");
  }

  // Expressions, from what binds least to what binds most -----------------------------------------

  JinjaTokens expression(Wanted wanted) {
    if (++depth_ > kMaxJinjaNesting) fail("an expression is nested too deep");
    JinjaTokens value = disjunction(wanted);
    for (size_t n = 0; take("if"); check_operands(++n)) {
      JinjaTokens condition = this->condition();
      JinjaTokens choice = joined({std::move(value), {symbol("if")}, std::move(condition)});
      if (take("else")) choice = joined({std::move(choice), {symbol("else")}, expression(wanted)});
      value = bracketed(std::move(choice));
    }
    --depth_;
    return value;
  }

  JinjaTokens condition() {
    JinjaTokens value = disjunction(Wanted::kTruth);
    check_no_iterator();
    return value;
  }

  JinjaTokens disjunction(Wanted wanted) {
    JinjaTokens value = conjunction(wanted);
    if (!is("or")) return value;
    for (size_t n = 1; is("or"); check_operands(++n)) {
      check_no_iterator();
      expect("or");
      value = joined({std::move(value), {symbol("or")}, conjunction(wanted)});
    }
    return bracketed(std::move(value));
  }

  JinjaTokens conjunction(Wanted wanted) {
    std::vector<JinjaTokens> operands = {negation()};
    while (is("and")) {
      check_no_iterator();
      expect("and");
      operands.push_back(negation());
      check_operands(operands.size());
    }
    JinjaTokens value = std::move(operands.back());
    if (wanted == Wanted::kTruth) {
      if (operands.size() == 1) return value;
      for (size_t i = operands.size() - 1; i-- > 0;) {
        value = joined({std::move(operands[i]), {symbol("and")}, std::move(value)});
      }
      return bracketed(std::move(value));
    }
    // What is not true, or else the last.
    for (size_t i = operands.size() - 1; i-- > 0;) {
      value = bracketed(
          joined({std::move(value), {symbol("if")}, operands[i], {symbol("else")}, operands[i]}));
    }
    return value;
  }

  JinjaTokens negation() {
    if (!take("not")) return comparison();
    if (++depth_ > kMaxJinjaNesting) fail("an expression is nested too deep");
    JinjaTokens value = bracketed(joined({{symbol("not")}, negation()}));
    check_no_iterator();
    --depth_;
    return value;
  }

  // The function of the comparison that stands here; nullptr: none does.
  const char* take_comparison() {
    struct Comparison {
      std::string_view sign;
      const char* name;
    };
    constexpr Comparison kComparisons[] = {{"==", "equal"},    {"!=", "unequal"}, {"<=", "at_most"},
                                           {">=", "at_least"}, {"<", "below"},    {">", "above"}};
    for (const Comparison& each : kComparisons) {
      if (take_operator(each.sign)) return each.name;
    }
    if (take("in")) return "in";
    if (!is("not") || !is_jinja(tokens_, at_ + 1, "in")) return nullptr;
    at_ += 2;
    return "not_in";
  }

  // a < b < c is a < b and b < c.
  JinjaTokens comparison() {
    JinjaTokens left = sum();
    std::vector<JinjaTokens> all;
    for (size_t end = at_;; end = at_) {
      const char* const name = take_comparison();
      if (name == nullptr) break;
      check_operand(end);
      const bool is_searched = tokens_[at_ - 1].text == "in";
      JinjaTokens right = sum();
      if (!is_searched) check_operand(at_);
      check_no_iterator();
      all.push_back(applied(std::move(left), own(name), {right}));
      left = std::move(right);
      check_operands(all.size());
    }
    if (all.empty()) return left;
    JinjaTokens value = std::move(all[0]);
    for (size_t i = 1; i < all.size(); ++i) {
      value = joined({std::move(value), {symbol("and")}, std::move(all[i])});
    }
    return all.size() == 1 ? value : bracketed(std::move(value));
  }

  struct Operator {
    std::string_view sign;
    const char* name;
  };
  // Operators that bind alike, from the left. Operands of one in a row are one call's.
  template <size_t N, typename Operand>
  JinjaTokens from_left(const Operator (&operators)[N], const Operand& operand) {
    JinjaTokens value = operand();
    std::vector<JinjaTokens> more;
    const char* name = nullptr;
    for (size_t n = 1;; check_operands(++n)) {
      const char* next = nullptr;
      const size_t end = at_;
      for (const Operator& each : operators) {
        if (next == nullptr && take_operator(each.sign)) next = each.name;
      }
      if (next != nullptr || name != nullptr) check_operand(end);
      if (name != nullptr && next != name) {
        value = applied(std::move(value), own(name), more);
        more.clear();
      }
      if (next == nullptr) return value;
      name = next;
      more.push_back(operand());
    }
  }

  // One that ended there.
  void check_operand(size_t end) const {
    if (iterator_end_ == end || tuple_end_ == end) {
      fail("a tuple, or what a filter selects, is calculated with; add '| list'");
    }
  }

  JinjaTokens sum() {
    constexpr Operator kOperators[] = {{"+", "plus"}, {"-", "minus"}};
    return from_left(kOperators, [this] { return concatenation(); });
  }
  JinjaTokens concatenation() {
    constexpr Operator kOperators[] = {{"~", "joined"}};
    return from_left(kOperators, [this] { return product(); });
  }
  JinjaTokens product() {
    constexpr Operator kOperators[] = {
        {"*", "times"}, {"//", "quotient"}, {"/", "divided"}, {"%", "remainder"}};
    return from_left(kOperators, [this] { return power(); });
  }
  JinjaTokens power() {
    constexpr Operator kOperators[] = {{"**", "power"}};
    return from_left(kOperators, [this] { return signed_value(true); });
  }

  JinjaTokens signed_value(bool has_filters) {
    JinjaTokens value;
    const bool is_minus = is_operator("-");
    if (is_minus || is_operator("+")) {
      ++at_;
      if (++depth_ > kMaxJinjaNesting) fail("an expression is nested too deep");
      value = applied(signed_value(false), own(is_minus ? "negative" : "positive"));
      --depth_;
    } else {
      value = primary();
    }
    value = with_members(std::move(value));
    return has_filters ? with_filters(std::move(value)) : value;
  }

  JinjaTokens primary() {
    if (at_ >= tokens_.size()) fail("a value is missing");
    tokens_[at_].after_blank = true;
    if (tokens_[at_].is_literal) {
      JinjaToken text = tokens_[at_++];
      while (is_jinja_literal(tokens_, at_)) text.text += tokens_[at_++].text;
      return {text};
    }
    if (take("(")) return tuple();
    if (take("[")) return joined({{symbol("[")}, values("]"), {symbol("]")}});
    if (is("{")) return dictionary();
    const char first = tokens_[at_].text[0];
    if (first >= '0' && first <= '9') return {tokens_[at_++]};
    std::string name = take_name();
    // A number that no template has stands for it: minja does not tell it from what is undefined.
    if (name == "none" || name == "None") return {symbol("0.0")};
    return {symbol(name)};
  }

  // Behind the opening bracket: a value in brackets, or several.
  JinjaTokens tuple() {
    if (take(")")) {
      tuple_end_ = at_;
      return {symbol("["), symbol("]")};
    }
    JinjaTokens first = expression(Wanted::kValue);
    const bool is_iterator = iterator_end_ == at_;
    if (take(")")) {
      if (is_iterator) iterator_end_ = at_;
      return first;
    }
    expect(",");
    JinjaTokens list = joined({{symbol("[")}, std::move(first)});
    JinjaTokens rest = values(")");
    tuple_end_ = at_;
    if (!rest.empty()) list = joined({std::move(list), {symbol(",")}, std::move(rest)});
    return joined({std::move(list), {symbol("]")}});
  }

  // Up to the closing bracket, which is taken.
  JinjaTokens values(std::string_view end) {
    JinjaTokens all;
    while (!take(end)) {
      if (!all.empty()) all.push_back(symbol(","));
      append(&all, expression(Wanted::kValue));
      if (!is(end)) expect(",");
    }
    return all;
  }

  JinjaTokens dictionary() {
    // minja holds an empty one for true, which only an argument is not asked.
    const bool is_argument =
        at_ > 0 && (is_jinja(tokens_, at_ - 1, "(") || is_jinja(tokens_, at_ - 1, ","));
    expect("{");
    if (is("}") && !is_argument) fail("an empty dictionary is used");
    JinjaTokens all = {symbol("{")};
    while (!take("}")) {
      if (all.size() > 1) all.push_back(symbol(","));
      append(&all, expression(Wanted::kValue));
      expect(":");
      all.push_back(symbol(":"));
      append(&all, expression(Wanted::kValue));
      if (!is("}")) expect(",");
    }
    all.push_back(symbol("}"));
    return all;
  }

  JinjaTokens with_members(JinjaTokens value) {
    for (size_t n = 0;; check_operands(++n)) {
      if (is(".") || is("[")) check_no_iterator();
      if (take(".")) {
        value = member(std::move(value));
      } else if (take("[")) {
        value = subscripted(std::move(value));
      } else if (is("(")) {
        value = bracketed(joined({std::move(value), arguments()}));
      } else {
        return value;
      }
    }
  }

  JinjaTokens member(JinjaTokens value) {
    if (!is_jinja_name(tokens_, at_)) fail("a member has no name");
    const JinjaToken name = tokens_[at_++];
    const bool is_text_method =
        std::find(std::begin(kJinjaTextMethods), std::end(kJinjaTextMethods), name.text) !=
        std::end(kJinjaTextMethods);
    if (!is("(") || (!is_text_method && name.text != "get")) {
      return joined({std::move(value), {{".", false, false}, {name.text, false, false}}});
    }
    return bracketed(
        joined({std::move(value), {symbol("|"), symbol(own(name.text))}, arguments()}));
  }

  // A name in quotes is that of a member; else a text would be cut by position.
  JinjaTokens subscripted(JinjaTokens value) {
    const bool is_member = is_jinja_literal(tokens_, at_) && is_jinja(tokens_, at_ + 1, "]");
    if (!is_member) value = applied(std::move(value), own("no_text"));
    JinjaTokens inside;
    for (size_t n_colons = 0;; ++n_colons) {
      if (!is(":") && !is("]")) {
        JinjaTokens part = expression(Wanted::kValue);
        part[0].after_blank = false;  // minja looks for a colon beside the bracket
        append(&inside, std::move(part));
      }
      if (!take(":")) break;
      if (n_colons == 2) fail("a slice has too many parts");
      inside.push_back({":", false, false});
    }
    expect("]");
    return joined({std::move(value), {symbol("[")}, std::move(inside), {{"]", false, false}}});
  }

  JinjaTokens arguments() {
    expect("(");
    JinjaTokens all = {symbol("(")};
    while (!take(")")) {
      if (all.size() > 1) all.push_back(symbol(","));
      if (is_name() && is_jinja(tokens_, at_ + 1, "=") && !is_jinja(tokens_, at_ + 2, "=")) {
        all.push_back(symbol(take_name()));
        all.push_back(symbol("="));
        ++at_;
      }
      append(&all, expression(Wanted::kValue));
      if (!is(")")) expect(",");
    }
    all.push_back(symbol(")"));
    return all;
  }

  JinjaTokens with_filters(JinjaTokens value) {
    for (size_t n = 0;; check_operands(++n)) {
      const size_t end = at_;
      if (take("|")) {
        std::string name = take_name();
        if (name == "d" || name == "default") name = own("default");
        const bool needs_list = name == "length" || name == "count" || name == "last";
        if (needs_list && iterator_end_ == end) check_operand(end);
        JinjaTokens call = {symbol("|"), symbol(name)};
        if (is("(")) append(&call, arguments());
        value = bracketed(joined({std::move(value), std::move(call)}));
        constexpr std::string_view kLazy[] = {"select", "reject",  "selectattr", "rejectattr",
                                              "map",    "reverse", "unique"};
        const bool is_lazy = std::find(std::begin(kLazy), std::end(kLazy), name) != std::end(kLazy);
        if (is_lazy) iterator_end_ = at_;
      } else if (take("is")) {
        value = tested(std::move(value));
      } else if (is("(")) {
        value = bracketed(joined({std::move(value), arguments()}));
      } else {
        return value;
      }
    }
  }

  JinjaTokens tested(JinjaTokens value) {
    const bool is_negated = take("not");
    if (!is_jinja_name(tokens_, at_)) fail("a test has no name");
    JinjaTokens call = {
        symbol("|"), symbol(own("is")), symbol("("), {tokens_[at_++].text, true, true}};
    if (is("(")) {
      JinjaTokens more = arguments();
      if (more.size() == 2) {
        more.erase(more.begin());
      } else {
        more[0] = symbol(",");
      }
      append(&call, std::move(more));
    } else {
      const bool is_value =
          at_ < tokens_.size() && (is_name() || tokens_[at_].is_literal || is("[") || is("{") ||
                                   (tokens_[at_].text[0] >= '0' && tokens_[at_].text[0] <= '9'));
      for (const char* word : {"is", "in", "not", "if"}) {
        if (is(word)) fail("a test is followed by '" + std::string(word) + "'");
      }
      if (is_value) {
        call.push_back(symbol(","));
        append(&call, with_members(primary()));
      }
      call.push_back(symbol(")"));
    }
    value = bracketed(joined({std::move(value), std::move(call)}));
    return is_negated ? bracketed(joined({{symbol("not")}, std::move(value)})) : value;
  }

  // Tags ------------------------------------------------------------------------------------------

  // One value, or several, which are a list.
  JinjaTokens several() {
    JinjaTokens first = expression(Wanted::kValue);
    if (!take(",")) return first;
    JinjaTokens list = joined({{symbol("[")}, std::move(first)});
    while (at_ < tokens_.size()) {
      list = joined({std::move(list), {symbol(",")}, expression(Wanted::kValue)});
      if (at_ < tokens_.size()) expect(",");
    }
    return joined({std::move(list), {symbol("]")}});
  }

  JinjaTokens written() { return applied(several(), own("written")); }

  // Names with commas between them, or a member; up to end, which is taken.
  JinjaTokens targets(std::string_view end) {
    JinjaTokens names;
    const bool has_brackets = take("(");
    while (!is(end) && !(has_brackets && is(")"))) {
      if (!names.empty() && !take(",")) {
        expect(".");
        names.push_back(symbol("."));
      } else if (!names.empty()) {
        if (is(end)) break;
        names.push_back(symbol(","));
      }
      names.push_back(symbol(take_name()));
    }
    if (has_brackets) expect(")");
    expect(end);
    return names;
  }

  JinjaTokens loop() {
    JinjaTokens result = joined({{symbol("for")}, targets("in"), {symbol("in")}});
    append(&result, applied(disjunction(Wanted::kValue), own("items")));
    if (take("if")) {
      result.push_back(symbol("if"));
      append(&result, expression(Wanted::kTruth));
    }
    if (take("recursive")) result.push_back(symbol("recursive"));
    return result;
  }

  JinjaTokens macro() {
    JinjaTokens result = {symbol("macro"), symbol(take_name()), symbol("(")};
    expect("(");
    while (!take(")")) {
      if (result.size() > 3) result.push_back(symbol(","));
      result.push_back(symbol(take_name()));
      if (take("=")) {
        result.push_back(symbol("="));
        append(&result, expression(Wanted::kValue));
      }
      if (!is(")")) expect(",");
    }
    result.push_back(symbol(")"));
    return result;
  }

  JinjaTokens block() {
    if (take("if")) return joined({{symbol("if")}, condition()});
    if (take("elif")) return joined({{symbol("elif")}, condition()});
    if (take("for")) return loop();
    if (take("macro")) return macro();
    if (take("set")) {
      const bool has_value = std::any_of(tokens_.begin(), tokens_.end(), [](const JinjaToken& t) {
        return !t.is_literal && t.text == "=";
      });
      if (!has_value) return joined({{symbol("set")}, {symbol(take_name())}});
      JinjaTokens names = targets("=");
      return joined({{symbol("set")}, std::move(names), {symbol("=")}, several()});
    }
    if (take("call")) {
      if (is("(")) fail("a call block has arguments");
      return joined({{symbol("call")}, expression(Wanted::kValue)});
    }
    // What has no expression, or is not known to minja either.
    JinjaTokens rest(tokens_.begin(), tokens_.end());
    at_ = tokens_.size();
    if (rest[0].text == "filter" || rest.size() == 1) return rest;
    fail("the tag '" + rest[0].text + "' is not supported");
  }

  JinjaTokens tokens_;
  size_t at_ = 0;
  size_t depth_ = 0;
  size_t iterator_end_ = SIZE_MAX;
  size_t tuple_end_ = SIZE_MAX;
};

}  // namespace

void rewrite_operations(JinjaTag* tag) {
  tag->tokens = Rewriter(std::move(tag->tokens)).tag(tag->kind);
}

}  // namespace cria::converter
