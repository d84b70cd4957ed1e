// Hostile Jinja templates, as they are rewritten before minja reads them: in this process, where no
// limit of a child's catches what goes wrong.
#include <stdexcept>
#include <string>

#include "converter/jinja_source.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {

namespace {

converter::JinjaSource rewritten_in_time(std::string_view text) {
  const TimeLimit limit(text.size());
  return converter::rewrite_jinja(text);
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const converter::JinjaSource source = rewritten_in_time(text);
    for (const std::string& tested : source.tested) {
      expect(source.literals.count(tested) == 1, "what is looked for is a literal");
    }
    const converter::JinjaSource again = converter::rewrite_jinja(text);
    expect(again.text == source.text && again.literals == source.literals, "one text, one result");
  } catch (const std::runtime_error& error) {
    const std::string line = error.what();
    expect(!line.empty() && line.find('\n') == std::string::npos, "a refusal is one line");
  }
  return 0;
}

}  // namespace cria::fuzz
