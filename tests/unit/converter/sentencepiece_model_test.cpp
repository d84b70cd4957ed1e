// tokenizer.model: the wire format, hostile bytes, and what the pieces become.
#include "converter/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "converter/error.h"
#include "tests/support/seeds.h"

namespace cria::converter {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr char kMark[] = "\xE2\x96\x81";

void put_varint(uint64_t value, Bytes* out) {
  for (; value > 0x7f; value >>= 7) out->push_back(static_cast<uint8_t>(value | 0x80));
  out->push_back(static_cast<uint8_t>(value));
}

void put_number(uint32_t field, uint64_t value, Bytes* out) {
  put_varint(uint64_t{field} << 3, out);
  put_varint(value, out);
}

void put_bytes(uint32_t field, std::span<const uint8_t> bytes, Bytes* out) {
  put_varint(uint64_t{field} << 3 | 2, out);
  put_varint(bytes.size(), out);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

void put_text(uint32_t field, const std::string& text, Bytes* out) {
  put_bytes(field, Bytes(text.begin(), text.end()), out);
}

Bytes piece(const std::string& text, float score, uint32_t type) {
  Bytes out;
  put_text(1, text, &out);
  uint8_t bytes[sizeof(score)];
  std::memcpy(bytes, &score, sizeof(score));
  put_varint(2u << 3 | 5, &out);
  out.insert(out.end(), std::begin(bytes), std::end(bytes));
  if (type != 1) put_number(3, type, &out);
  return out;
}

struct ModelBytes {
  Bytes pieces;
  Bytes trainer;
  Bytes normalizer;

  void add(const std::string& text, float score, uint32_t type) {
    put_bytes(1, piece(text, score, type), &pieces);
  }
  [[nodiscard]] Bytes bytes() const {
    Bytes out = pieces;
    put_bytes(2, trainer, &out);
    put_bytes(3, normalizer, &out);
    return out;
  }
};

// Control pieces, a byte, letters, and "ab" above "bc" above "abc".
ModelBytes good_model() {
  ModelBytes model;
  put_number(3, 2, &model.trainer);   // BPE
  put_number(35, 1, &model.trainer);  // byte fallback
  put_text(1, "identity", &model.normalizer);
  put_number(3, 1, &model.normalizer);  // dummy prefix
  put_number(4, 0, &model.normalizer);  // extra spaces stay
  model.add("<unk>", 0, 2);
  model.add("<s>", 0, 3);
  model.add("</s>", 0, 3);
  model.add("<0x0A>", 0, 6);
  model.add("ab", -1, 1);
  model.add("bc", -2, 1);
  model.add("abc", -3, 1);
  model.add("a", -4, 1);
  model.add("b", -5, 1);
  model.add("c", -6, 1);
  model.add(kMark, -7, 1);
  model.add("<user>", 0, 4);
  return model;
}

SentencePieceModel parse(const Bytes& bytes) { return parse_sentencepiece_model(bytes, "m"); }

std::string error_of(const Bytes& bytes) {
  try {
    static_cast<void>(tokenizer_from_sentencepiece(parse(bytes), "m"));
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(SentencePieceModelTest, ReadsTheFieldsItKnows) {
  ModelBytes source = good_model();
  put_number(41, uint64_t{0xffffffffffffffff}, &source.trainer);  // bos_id -1
  put_number(42, 7, &source.trainer);
  put_text(99, "unknown field", &source.trainer);
  const SentencePieceModel model = parse(source.bytes());
  ASSERT_EQ(model.pieces.size(), 12U);
  EXPECT_EQ(model.pieces[5].text, "bc");
  EXPECT_EQ(model.pieces[5].score, -2.0f);
  EXPECT_EQ(model.pieces[5].type, PieceType::kNormal);
  EXPECT_EQ(model.pieces[3].type, PieceType::kByte);
  EXPECT_EQ(model.model_type, 2U);
  EXPECT_TRUE(model.byte_fallback);
  EXPECT_TRUE(model.add_dummy_prefix);
  EXPECT_FALSE(model.remove_extra_whitespaces);
  EXPECT_EQ(model.bos_id, -1);
  EXPECT_EQ(model.eos_id, 7);
}

TEST(SentencePieceModelTest, EveryTruncationIsRefusedOrShorter) {
  const Bytes bytes = good_model().bytes();
  size_t refused = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    const Bytes part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    try {
      EXPECT_LE(parse(part).pieces.size(), 12U);
    } catch (const ProgramError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, bytes.size() / 2);
}

void parse_damaged_bytes(uint32_t seed) {
  std::mt19937 random(seed);
  const Bytes good = good_model().bytes();
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = good;
    for (size_t flips = random() % 4 + 1; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1u << random() % 8);
    }
    static_cast<void>(error_of(bytes));
  }
}

TEST(SentencePieceModelTest, DamagedBytesDoNoHarm) {
  test::for_each_seed({11}, parse_damaged_bytes);
}

TEST(SentencePieceModelTest, HugeLengthsAreRefused) {
  Bytes bytes = {1 << 3 | 2};
  put_varint(uint64_t{1} << 62, &bytes);
  EXPECT_NE(error_of(bytes), "");
  EXPECT_NE(error_of(Bytes(20, 0xff)), "");
  EXPECT_NE(error_of({}), "");
}

TEST(SentencePieceModelTest, MakesAMergeOfEveryPairRankedByScore) {
  const TokenizerModel model = tokenizer_from_sentencepiece(parse(good_model().bytes()), "m");
  std::vector<std::string> merges;
  for (const TokenizerMerge& merge : model.merges) {
    merges.push_back(std::to_string(merge.rank) + " " + model.tokens[merge.left].text + "+" +
                     model.tokens[merge.right].text + "=" + model.tokens[merge.result].text);
  }
  std::sort(merges.begin(), merges.end());
  EXPECT_EQ(merges, (std::vector<std::string>{"0 a+b=ab", "1 b+c=bc", "2 a+bc=abc", "2 ab+c=abc"}));
}

TEST(SentencePieceModelTest, MapsTheTypesOfPieces) {
  const TokenizerModel model = tokenizer_from_sentencepiece(parse(good_model().bytes()), "m");
  EXPECT_EQ(model.kind, format::TokenizerKind::kSentencePieceBpe);
  EXPECT_EQ(model.flags, format::kFuseUnknown | format::kByteFallback | format::kPrependSpace |
                             format::kStripSpace);
  EXPECT_EQ(model.pre_tokenizer, format::PreTokenizer::kSpaceRuns);
  EXPECT_EQ(model.unknown_token, 0U);
  EXPECT_EQ(model.bos_token, 1U);
  EXPECT_EQ(model.eos_token, 2U);
  constexpr uint8_t kControl = format::kTokenAdded | format::kTokenSpecial;
  EXPECT_EQ(model.tokens[1].flags, kControl);
  EXPECT_EQ(model.tokens[3].flags, format::kTokenByte);
  EXPECT_EQ(model.tokens[3].text, "\n");
  EXPECT_EQ(model.byte_tokens['\n'], 3U);
  EXPECT_EQ(model.tokens[11].flags, format::kTokenAdded);
  EXPECT_FALSE(model.tokens[11].is_word);
}

TEST(SentencePieceModelTest, RefusesWhatItDoesNotSupportByName) {
  ModelBytes unigram = good_model();
  put_number(3, 1, &unigram.trainer);
  EXPECT_NE(error_of(unigram.bytes()).find("unigram"), std::string::npos);
  ModelBytes folded = good_model();
  put_text(1, "nmt_nfkc", &folded.normalizer);
  put_text(2, "map", &folded.normalizer);
  EXPECT_NE(error_of(folded.bytes()).find("nmt_nfkc"), std::string::npos);
  ModelBytes spaces = good_model();
  put_number(4, 1, &spaces.normalizer);
  EXPECT_NE(error_of(spaces.bytes()).find("removes spaces"), std::string::npos);
  ModelBytes suffix = good_model();
  put_number(24, 1, &suffix.trainer);
  EXPECT_NE(error_of(suffix.bytes()).find("U+2581"), std::string::npos);
  ModelBytes unused = good_model();
  unused.add("x", 0, 5);
  EXPECT_NE(error_of(unused.bytes()).find("unused"), std::string::npos);
  ModelBytes bad_byte = good_model();
  bad_byte.add("<0xG0>", 0, 6);
  EXPECT_NE(error_of(bad_byte.bytes()).find("<0xG0>"), std::string::npos);
}

}  // namespace
}  // namespace cria::converter
