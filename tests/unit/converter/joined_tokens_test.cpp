// The added tokens of a folder, of which several files may name some: those that transformers has.
#include "converter/joined_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "converter/tokenizer_import.h"
#include "quant/text/tokenizer_check.h"
#include "tests/support/folders.h"
#include "tests/unit/converter/converter_fixtures.h"
#include "tests/unit/converter/letters_tokenizer.h"

namespace cria::converter {
namespace {

using nlohmann::json;

constexpr uint32_t kVocab = 1000;

struct Found {
  std::string text;
  uint8_t flags;
};

// A folder's tokenizer as it is stored.
class Folder {
 public:
  explicit Folder(const json& added_tokens) {
    write("tokenizer.json", test::letters_tokenizer(added_tokens));
  }
  void write(const std::string& name, const json& value) const {
    test::write_file(folder_ / name, value.dump());
  }
  [[nodiscard]] ImportedTokenizer import() const {
    return import_tokenizer(folder_.path(), kVocab);
  }
  [[nodiscard]] std::map<uint32_t, Found> added() const {
    const ImportedTokenizer imported = import();
    Tokenizer tokenizer = {};
    EXPECT_EQ(check_tokenizer(imported.tokenizer_section, kVocab, &tokenizer), nullptr);
    std::map<uint32_t, Found> found;
    for (uint32_t id = 0; id < tokenizer.header.n_tokens; ++id) {
      const uint8_t flags = tokenizer.token_flags[id];
      const auto text = token_text(tokenizer, id);
      if ((flags & format::kTokenAdded) != 0) found[id] = {{text.data(), text.size()}, flags};
    }
    return found;
  }

 private:
  test::TempFolder folder_;
};

// Made by transformers 5.12.1 of folders with these files, at random.
TEST(AddedTokens, AreThoseOfTransformers) {
  std::ifstream file(test::source_folder() / "tests/data/added_tokens.jsonl");
  size_t n = 0;
  for (std::string line; std::getline(file, line); ++n) {
    const json row = json::parse(line);
    const Folder folder(row["added_tokens"]);
    for (const auto& [name, content] : row["beside"].items()) folder.write(name, content);
    std::map<uint32_t, Found> added = folder.added();
    EXPECT_EQ(added.size(), row["tokens"].size()) << line;
    std::set<std::string> ends;  // which are special here in any case
    for (const char* name : {"bos_token", "eos_token"}) ends.insert(row["named"].value(name, ""));
    for (const json& token : row["tokens"]) {
      const Found& found = added[token[0].get<uint32_t>()];
      EXPECT_EQ(found.text, token[1]) << line;
      const bool is_special = token[2] || ends.count(found.text) != 0;
      EXPECT_EQ((found.flags & format::kTokenSpecial) != 0, is_special) << line << found.text;
      EXPECT_EQ((found.flags & format::kTokenStripLeft) != 0, token[3]) << line << found.text;
      EXPECT_EQ((found.flags & format::kTokenStripRight) != 0, token[4]) << line << found.text;
    }
  }
  EXPECT_EQ(n, 48U);
}

TEST(AddedTokens, WhoseIdsDifferAreNamed) {
  const Folder folder(json::array());
  json listed;
  for (const char* id : {"9", "11", "13", "15", "17"}) {
    listed[id] = {{"content", "<" + std::string(id) + ">"}};
  }
  folder.write("tokenizer_config.json", {{"added_tokens_decoder", listed}});
  const std::vector<std::string> warnings = folder.import().warnings;
  ASSERT_EQ(warnings.size(), 4U);
  EXPECT_EQ(warnings[0], "added token '<9>' has ids 7 and 9: the first counts");
  EXPECT_EQ(warnings[3], "of 2 more repeated added tokens the first counts too");
}

TEST(AddedTokens, WhoseIdsAnObjectsOrderWouldDecideAreRefused) {
  const Folder folder(json::array());
  folder.write("tokenizer_config.json", {{"image_token", "<i>"}, {"audio_token", "<a>"}});
  test::expect_invalid({"tokenizer.json", "2 tokens that have no id", "added_tokens_decoder"},
                       [&] { (void)folder.import(); });
  folder.write("tokenizer_config.json", {{"image_token", "<i>"}, {"audio_token", "ab"}});
  EXPECT_EQ(folder.added().size(), 2U);
}

TEST(AddedTokens, OfSingleWordsAreRefusedWhereverTheyAre) {
  const json token = {{"content", "<w>"}, {"single_word", true}};
  const Folder folder(json::array());
  folder.write("tokenizer_config.json", {{"added_tokens_decoder", {{"7", token}}}});
  test::expect_invalid({"'<w>' with single_word"}, [&] { (void)folder.import(); });
  folder.write("tokenizer_config.json", {{"extra_special_tokens", {token}}});
  test::expect_invalid({"'<w>' with single_word"}, [&] { (void)folder.import(); });
}

}  // namespace
}  // namespace cria::converter
