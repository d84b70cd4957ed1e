// What a user sees of the exact backend's promise: the same greedy continuations on every target
// and every instruction set, in int4 and int8.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/support/isa_list.h"
#include "tests/support/model_files.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using format::NumberFormat;

constexpr size_t kTokens = 64;

// One line of tests/data/golden/greedy_tokens.txt: "model/format prompt ids... tokens ids...".
struct Line {
  std::string name;
  std::vector<uint32_t> prompt;
  std::vector<uint32_t> tokens;
};

std::vector<Line> golden_lines() {
  std::ifstream file(test::golden_folder("greedy_tokens.txt"));
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    Line line;
    words >> line.name;
    std::vector<uint32_t>* target = nullptr;
    for (std::string word; words >> word;) {
      if (word == "prompt") {
        target = &line.prompt;
      } else if (word == "tokens") {
        target = &line.tokens;
      } else if (target != nullptr) {
        target->push_back(static_cast<uint32_t>(std::stoul(word)));
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

test::Bytes model_of(const std::string& name) {
  const size_t slash = name.find('/');
  const std::string model = name.substr(0, slash);
  const bool is_int4 = name.substr(slash + 1) == "int4g32";
  const auto weights = is_int4 ? NumberFormat::kInt4 : NumberFormat::kInt8;
  const uint16_t group_size = is_int4 ? 32 : 0;
  const auto folder = model == "demo" ? test::demo_folder() : test::golden_folder(model);
  return test::convert_folder(folder, {weights, group_size, format::Compression::kZstd, false});
}

std::string text_of(const std::vector<uint32_t>& tokens) {
  std::string text;
  for (const uint32_t token : tokens) text += " " + std::to_string(token);
  return text;
}

TEST(GreedyTokens, AreThoseInTheRepositoryOnEveryIsa) {
  size_t compared = 0;
  for (const Line& line : golden_lines()) {
    const test::MemorySource source(model_of(line.name));
    for (const test::IsaRow& isa : test::runnable_isas()) {
      cria_config config = {};
      config.backend = CRIA_BACKEND_EXACT;
      config.isa_mask = isa.mask;
      test::TestSession session(source, config);
      ASSERT_FALSE(line.prompt.empty()) << line.name;
      ASSERT_EQ(cria_prefill(session.workspace(), session.session(), line.prompt.data(),
                             line.prompt.size()),
                CRIA_OK);
      const std::vector<uint32_t> tokens = session.greedy(kTokens);
      EXPECT_EQ(tokens, line.tokens) << isa.name << ": " << line.name << text_of(tokens);
      ++compared;
    }
  }
  std::printf("%zu continuations of %zu tokens\n", compared, kTokens);
  EXPECT_EQ(compared, 6 * test::runnable_isas().size());
}

}  // namespace
}  // namespace cria
