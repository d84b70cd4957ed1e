// What a checkpoint folder may hold: the kinds that are read, and a line for each that is not.
#include "converter/tokenizer_import.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "converter/byte_alphabet.h"
#include "converter/error.h"
#include "quant/text/tokenizer_format.h"
#include "tests/unit/converter/letters_tokenizer.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TokenizerImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cria-import-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void write(const json& tokenizer) const { write("tokenizer.json", tokenizer.dump()); }

  [[nodiscard]] ImportedTokenizer import(uint32_t vocab_size) const {
    return import_tokenizer(folder_, vocab_size);
  }
  // The line that an import throws; empty when it does not.
  [[nodiscard]] std::string error() const {
    try {
      static_cast<void>(import(kVocab));
    } catch (const ProgramError& e) {
      EXPECT_EQ(e.code(), ExitCode::kInvalidInput);
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
      return e.what();
    }
    return "";
  }
  void expect_refused(const json& tokenizer, const std::string& part) const {
    write(tokenizer);
    EXPECT_NE(error().find(part), std::string::npos) << error();
  }

  static constexpr uint32_t kVocab = 1000;
  fs::path folder_;
};

format::TokenizerHeader header_of(const ImportedTokenizer& imported) {
  format::TokenizerHeader header = {};
  std::memcpy(&header, imported.tokenizer_section.data(), sizeof(header));
  return header;
}

constexpr char kMark[] = "\xE2\x96\x81";

json added(uint32_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

json byte_level() {
  json tokenizer = test::letters_tokenizer({added(7, "<bos>"), added(8, "<eos>")});
  tokenizer["normalizer"] = nullptr;
  tokenizer["post_processor"] = nullptr;
  return tokenizer;
}

json sentencepiece() {
  json tokenizer = byte_level();
  tokenizer["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", kMark}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}}}};
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  tokenizer["model"]["vocab"] = {{"<unk>", 0}, {"a", 1},  {"b", 2},
                                 {kMark, 3},   {"ab", 4}, {"<0x0A>", 5}};
  tokenizer["model"]["merges"] = json::array({json::array({"a", "b"})});
  tokenizer["model"]["unk_token"] = "<unk>";
  tokenizer["model"]["byte_fallback"] = true;
  tokenizer["added_tokens"] = json::array({added(0, "<unk>")});
  return tokenizer;
}

json metaspace(const std::string& scheme) {
  json tokenizer = sentencepiece();
  tokenizer["normalizer"] = nullptr;
  tokenizer["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", scheme}, {"split", false}};
  return tokenizer;
}

json with_template(std::initializer_list<const char*> before,
                   std::initializer_list<const char*> behind) {
  json tokenizer = byte_level();
  json single = json::array();
  for (const char* name : before) single.push_back({{"SpecialToken", {{"id", name}}}});
  single.push_back({{"Sequence", {{"id", "A"}}}});
  for (const char* name : behind) single.push_back({{"SpecialToken", {{"id", name}}}});
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", single},
      {"special_tokens",
       {{"<bos>", {{"id", "<bos>"}, {"ids", {7}}}}, {"<eos>", {{"id", "<eos>"}, {"ids", {8}}}}}}};
  return tokenizer;
}

TEST_F(TokenizerImportTest, ReadsByteLevelBpe) {
  write(byte_level());
  const ImportedTokenizer imported = import(kVocab);
  const format::TokenizerHeader header = header_of(imported);
  EXPECT_EQ(header.kind, static_cast<uint32_t>(format::TokenizerKind::kByteLevelBpe));
  EXPECT_EQ(header.pre_tokenizer, static_cast<uint32_t>(format::PreTokenizer::kStages));
  EXPECT_EQ(header.flags, 0U);
  EXPECT_EQ(header.n_tokens, 9U);
  EXPECT_EQ(header.n_merges, 3U);
  EXPECT_EQ(header.n_added, 2U);
  EXPECT_EQ(imported.tokenizer_name, "byte-level BPE, 9 tokens, gpt-2");
  EXPECT_EQ(imported.chat_name, "none");
  EXPECT_FALSE(imported.bos_token);
  EXPECT_TRUE(imported.end_tokens.empty());
}

TEST_F(TokenizerImportTest, MergesMayBeListsOrStrings) {
  json tokenizer = byte_level();
  write(tokenizer);
  const ImportedTokenizer from_strings = import(kVocab);
  tokenizer["model"]["merges"] = json::array(
      {json::array({"a", "b"}), json::array({"\xC4\xA0", "a"}), json::array({"ab", "c"})});
  write(tokenizer);
  EXPECT_EQ(import(kVocab).tokenizer_section, from_strings.tokenizer_section);
}

TEST_F(TokenizerImportTest, ReadsSentencePieceStyleBpe) {
  write(sentencepiece());
  const ImportedTokenizer imported = import(kVocab);
  const format::TokenizerHeader header = header_of(imported);
  EXPECT_EQ(header.kind, static_cast<uint32_t>(format::TokenizerKind::kSentencePieceBpe));
  EXPECT_EQ(header.flags, format::kByteFallback | format::kPrependSpace | format::kStripSpace);
  EXPECT_EQ(header.unknown_token, 0U);
  EXPECT_EQ(header.n_sorted, 3U);  // the characters
  EXPECT_EQ(imported.tokenizer_name, "SentencePiece BPE, 6 tokens");
}

// As Gemma's does: its normalizer has replaced them all.
TEST_F(TokenizerImportTest, ACutAtSpacesThatAreReplacedCutsNothing) {
  json tokenizer = sentencepiece();
  write(tokenizer);
  const ImportedTokenizer plain = import(kVocab);
  tokenizer["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}};
  write(tokenizer);
  EXPECT_EQ(import(kVocab).tokenizer_section, plain.tokenizer_section);
  tokenizer["pre_tokenizer"]["pattern"]["String"] = "a";
  expect_refused(tokenizer, "pre_tokenizer 'Split'");
}

TEST_F(TokenizerImportTest, ReadsMetaspaceInEachScheme) {
  constexpr uint32_t kOthers = format::kByteFallback | format::kStripSpace;
  constexpr uint32_t kAlways = format::kPrependSpace | format::kPrependUnlessSpace;
  write(metaspace("always"));
  EXPECT_EQ(header_of(import(kVocab)).flags, kOthers | kAlways);
  write(metaspace("first"));
  EXPECT_EQ(header_of(import(kVocab)).flags, kOthers | kAlways | format::kPrependOnlyFirst);
  write(metaspace("never"));
  EXPECT_EQ(header_of(import(kVocab)).flags, kOthers);
  json old_spelling = metaspace("always");
  old_spelling["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"add_prefix_space", true}};
  write(old_spelling);
  EXPECT_EQ(header_of(import(kVocab)).flags, kOthers | kAlways);
  EXPECT_EQ(header_of(import(kVocab)).pre_tokenizer,
            static_cast<uint32_t>(format::PreTokenizer::kMetaspace));
}

TEST_F(TokenizerImportTest, AddsBosAndEosAsThePostProcessorSays) {
  write(with_template({"<bos>"}, {}));
  EXPECT_EQ(header_of(import(kVocab)).flags, format::kAddBos);
  EXPECT_EQ(header_of(import(kVocab)).bos_token, 7U);
  EXPECT_EQ(import(kVocab).bos_token, 7U);
  json both = with_template({"<bos>"}, {"<eos>"});
  both["post_processor"] = {{"type", "Sequence"},
                            {"processors", {{{"type", "ByteLevel"}}, both["post_processor"]}}};
  write(both);
  EXPECT_EQ(header_of(import(kVocab)).flags, format::kAddBos | format::kAddEos);
  EXPECT_EQ(header_of(import(kVocab)).eos_token, 8U);
}

TEST_F(TokenizerImportTest, TakesNamesAndTemplateFromTheConfig) {
  write(byte_level());
  const std::string jinja =
      "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
      "{% endfor %}";
  write("tokenizer_config.json", json({{"bos_token", "<bos>"},
                                       {"eos_token", {{"content", "<eos>"}}},
                                       {"chat_template", jinja}})
                                     .dump());
  ImportedTokenizer imported = import(kVocab);
  EXPECT_EQ(imported.bos_token, 7U);
  EXPECT_EQ(imported.end_tokens, std::vector<uint32_t>{8});
  EXPECT_EQ(imported.chat_name, "own");
  EXPECT_FALSE(imported.chat_section.empty());
  // A list of templates, then a file of its own, which writes no conversation.
  write(
      "tokenizer_config.json",
      json({{"chat_template",
             {{{"name", "other"}, {"template", "?"}}, {{"name", "default"}, {"template", jinja}}}}})
          .dump());
  EXPECT_EQ(import(kVocab).chat_name, "own");
  write("chat_template.jinja", "{{ messages }}");
  imported = import(kVocab);
  EXPECT_EQ(imported.chat_name, "none");
  EXPECT_TRUE(imported.chat_section.empty());
  ASSERT_EQ(imported.warnings.size(), 1U);
  EXPECT_NE(imported.warnings[0].find("cria chat"), std::string::npos);
}

TEST_F(TokenizerImportTest, ControlTokensOfTheTemplateAreSpecialWhateverTheFileSays) {
  json tokenizer = byte_level();
  tokenizer["added_tokens"].push_back(added(9, "<|im_start|>"));
  tokenizer["added_tokens"].back()["special"] = false;
  tokenizer["added_tokens"].push_back(added(10, "\n"));
  tokenizer["added_tokens"].back()["special"] = false;
  write(tokenizer);
  write("chat_template.jinja",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}");
  const ImportedTokenizer imported = import(kVocab);
  const uint8_t* flags =
      imported.tokenizer_section.data() + sizeof(format::TokenizerHeader) + 11 * sizeof(uint32_t);
  EXPECT_EQ(flags[9], format::kTokenAdded | format::kTokenSpecial);
  EXPECT_EQ(flags[10], format::kTokenAdded);
}

TEST_F(TokenizerImportTest, HolesInTheVocabularyAreEmptyTokens) {
  json tokenizer = byte_level();
  tokenizer["model"]["vocab"]["abc"] = 20;
  tokenizer["added_tokens"] = json::array({added(8, "<bos>")});
  write(tokenizer);
  EXPECT_EQ(header_of(import(kVocab)).n_tokens, 21U);
  EXPECT_EQ(header_of(import(kVocab)).n_added, 1U);
}

TEST_F(TokenizerImportTest, AddedTokensPastTheModelsVocabularyAreLeftOut) {
  write(byte_level());
  const ImportedTokenizer imported = import(8);
  EXPECT_EQ(header_of(imported).n_tokens, 8U);
  ASSERT_EQ(imported.warnings.size(), 1U);
  EXPECT_NE(imported.warnings[0].find("from id 8 on"), std::string::npos);
  EXPECT_THROW(static_cast<void>(import(6)), ProgramError);
  write(with_template({}, {"<eos>"}));
  EXPECT_THROW(static_cast<void>(import(8)), ProgramError);
}

TEST_F(TokenizerImportTest, RefusesWhatIsNotSupportedByName) {
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"}) {
    json tokenizer = byte_level();
    tokenizer["model"]["type"] = type;
    expect_refused(tokenizer, std::string("'") + type + "'");
  }
  json tokenizer = byte_level();
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  expect_refused(tokenizer, "normalizer 'Lowercase'");
  tokenizer = byte_level();
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(?<=a)b"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  expect_refused(tokenizer, "'(?<=a)b' is not supported: at byte 0");
  json& split = tokenizer["pre_tokenizer"]["pretokenizers"][0];
  split["pattern"] = {{"Regex", "[a-z]+"}};
  split["behavior"] = "Removed";
  expect_refused(tokenizer, "removes text");
  split["invert"] = true;
  expect_refused(tokenizer, "removes text");
  split["behavior"] = "Other";
  expect_refused(tokenizer, "behavior 'Other'");
  tokenizer = sentencepiece();
  tokenizer["pre_tokenizer"] = {{"type", "Whitespace"}};
  expect_refused(tokenizer, "pre_tokenizer 'Whitespace'");
  tokenizer = sentencepiece();
  tokenizer["normalizer"] = nullptr;
  expect_refused(tokenizer, "U+2581");
  tokenizer = byte_level();
  tokenizer["decoder"] = {{"type", "WordPiece"}};
  expect_refused(tokenizer, "decoder 'WordPiece'");
  tokenizer = byte_level();
  tokenizer["post_processor"] = {{"type", "BertProcessing"}};
  expect_refused(tokenizer, "post_processor 'BertProcessing'");
  expect_refused(with_template({"<bos>", "<bos>"}, {}), "post_processor");
  tokenizer = with_template({"<bos>"}, {});
  tokenizer["post_processor"]["single"].erase(1);
  expect_refused(tokenizer, "leaves the text out");
  tokenizer["post_processor"]["single"].push_back({{"Sequence", {{"id", "B"}}}});
  expect_refused(tokenizer, "another text than 'A'");
  tokenizer = byte_level();
  tokenizer["model"]["end_of_word_suffix"] = "</w>";
  expect_refused(tokenizer, "end_of_word_suffix");
  tokenizer = byte_level();
  tokenizer["added_tokens"][0]["single_word"] = true;
  expect_refused(tokenizer, "single_word");
}

TEST_F(TokenizerImportTest, RefusesBrokenFiles) {
  json tokenizer = byte_level();
  tokenizer["model"]["merges"].push_back("a z");
  expect_refused(tokenizer, "'z'");
  tokenizer = byte_level();
  tokenizer["model"]["merges"].push_back("a b c");
  expect_refused(tokenizer, "merge 3");
  tokenizer = byte_level();
  tokenizer["model"]["vocab"]["c"] = 0;
  expect_refused(tokenizer, "same id");
  tokenizer = byte_level();
  tokenizer["model"]["vocab"]["c"] = -1;
  expect_refused(tokenizer, "'c'");
  tokenizer = byte_level();
  tokenizer["model"]["vocab"]["c"] = 4000000000u;
  expect_refused(tokenizer, "'c'");
  tokenizer = byte_level();
  tokenizer["model"].erase("vocab");
  expect_refused(tokenizer, "vocab");
  expect_refused(json::array(), "tokenizer.json");
  write("tokenizer.json", "{\"model\": ");
  EXPECT_NE(error().find("tokenizer.json"), std::string::npos);
}

TEST_F(TokenizerImportTest, FoldersWithoutATokenizerNameTheWayOut) {
  EXPECT_NE(error().find("--no-tokenizer"), std::string::npos);
  write("tokenizer.model", "IQ== 0\nIg== 1\n");
  EXPECT_NE(error().find("tokenizer.json"), std::string::npos);
  EXPECT_NE(error().find("a tiktoken file of 2 tokens"), std::string::npos);
  write("tokenizer.model", "\x01\x02\x03");
  EXPECT_NE(error().find("SentencePiece"), std::string::npos);
}

TEST_F(TokenizerImportTest, NfcIsOfByteLevelTokenizersAlone) {
  json tokenizer = byte_level();
  tokenizer["normalizer"] = {{"type", "NFC"}};
  write(tokenizer);
  const ImportedTokenizer imported = import(kVocab);
  EXPECT_EQ(imported.warnings.size(), 0U);
  EXPECT_EQ(header_of(imported).flags, format::kNfc);
  EXPECT_EQ(imported.tokenizer_name, "byte-level BPE, 9 tokens, gpt-2, NFC");
  tokenizer["added_tokens"][0]["content"] = "e\u0301";
  tokenizer["added_tokens"][0]["normalized"] = true;
  expect_refused(tokenizer, "that is not normalized");
  tokenizer = sentencepiece();
  tokenizer["normalizer"] = {{"type", "NFC"}};
  expect_refused(tokenizer, "normalizer 'NFC'");
}

TEST_F(TokenizerImportTest, SplitsThatRemoveNothingAreIsolated) {
  json tokenizer = byte_level();
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "[a-z]+|[^a-z]"}}},
         {"behavior", "Removed"},
         {"invert", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  write(tokenizer);
  const std::vector<uint8_t> removed = import(kVocab).tokenizer_section;
  json& split = tokenizer["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Isolated";
  split["invert"] = false;
  write(tokenizer);
  EXPECT_EQ(import(kVocab).tokenizer_section, removed);
  split["pattern"] = {{"String", "a.b"}};
  write(tokenizer);
  const std::vector<uint8_t> of_string = import(kVocab).tokenizer_section;
  split["pattern"] = {{"Regex", "a\\.b"}};
  write(tokenizer);
  EXPECT_EQ(import(kVocab).tokenizer_section, of_string);
}

TEST(ByteAlphabetTest, UndoesTheAlphabet) {
  EXPECT_EQ(bytes_of_alphabet("a!"), "a!");
  EXPECT_EQ(bytes_of_alphabet("\xC4\xA0"), " ");                   // U+0120
  EXPECT_EQ(bytes_of_alphabet("\xC4\x80"), std::string(1, '\0'));  // U+0100
  EXPECT_EQ(bytes_of_alphabet("\xC5\x83"), "\xAD");                // U+0143, the last
  EXPECT_EQ(bytes_of_alphabet("\xC3\xBF"), "\xFF");                // U+00FF
  for (const char* text : {" ", "\xC5\x84", "\xC2\xA0", "\xE2\x96\x81", "\xC4", "\n"}) {
    EXPECT_FALSE(bytes_of_alphabet(text)) << text;
  }
}

}  // namespace
}  // namespace cria::converter
