// The header of a safetensors file comes from outside: whatever it says, it is read or refused.
#include "converter/safetensors.h"

#include <gtest/gtest.h>

#include "tests/support/seeds.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::SafetensorsFile;
using converter::SourceType;

class Safetensors : public ::testing::Test {
 protected:
  SafetensorsFile open(const std::string& bytes) {
    write_file(folder_ / "t.safetensors", bytes);
    return SafetensorsFile(folder_ / "t.safetensors");
  }
  SafetensorsFile open(const std::string& header, const std::string& data) {
    return open(safetensors_bytes(header, data));
  }
  void refuses(const std::string& what, const std::string& header, const std::string& data) {
    SCOPED_TRACE(header);
    expect_invalid({"t.safetensors", what}, [&] { (void)open(header, data); });
  }
  void open_damaged(uint32_t seed);

  TempFolder folder_;
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST_F(Safetensors, ATensorIsFoundWithItsTypeShapeAndPlace) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const SafetensorsFile file = open(header, std::string(16, 'x'));
  ASSERT_EQ(file.tensors().size(), 2u);
  const auto& a = file.tensors().at("a");
  EXPECT_EQ(a.type, SourceType::kBf16);
  EXPECT_EQ(a.shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(a.offset, 8 + header.size() + 4);
  EXPECT_EQ(a.bytes, 12u);
}

TEST_F(Safetensors, AScalarAndAnEmptyTensorAreRead) {
  EXPECT_EQ(open(entry("F32", "[]", "[0,4]"), "abcd").tensors().at("a").bytes, 4u);
  EXPECT_EQ(open(entry("F32", "[0,7]", "[0,0]"), "").tensors().at("a").bytes, 0u);
}

TEST_F(Safetensors, AKnownTypeThatIsNotReadIsKeptByName) {
  const SafetensorsFile file = open(entry("I64", "[1]", "[0,8]"), "abcdefgh");
  EXPECT_FALSE(file.tensors().at("a").type.has_value());
  EXPECT_EQ(file.tensors().at("a").dtype, "I64");
}

TEST_F(Safetensors, AnUnknownTypeIsRefusedByName) {
  refuses("dtype F7", entry("F7", "[1]", "[0,4]"), "abcd");
}

TEST_F(Safetensors, AFileShorterThanItsHeaderSaysSo) {
  expect_invalid({"too short"}, [&] { (void)open("abc"); });
  std::string bytes = safetensors_bytes(entry("F32", "[1]", "[0,4]"), "");
  bytes.resize(bytes.size() - 10);
  expect_invalid({"truncated"}, [&] { (void)open(bytes); });
}

TEST_F(Safetensors, AHugeHeaderIsRefusedBeforeItIsRead) {
  expect_invalid({"not a safetensors file"}, [&] { (void)open(std::string(64, '\x7f')); });
  // 2^64 - 1 and 2^63, with which sloppy sums wrap.
  expect_invalid({"not a safetensors file"}, [&] { (void)open(std::string(64, '\xff')); });
  expect_invalid({"not a safetensors file"},
                 [&] { (void)open(std::string(7, '\0') + '\x80' + "{}"); });
}

TEST_F(Safetensors, ABrokenHeaderIsRefused) {
  refuses("not valid JSON", "{", "");
  refuses("not valid JSON", "", "");
  refuses("not valid JSON", R"({"a":)" + std::string("\xff\xfe") + "}", "");
  refuses("not a JSON object", "[1]", "");
  refuses("no dtype", R"({"a":1})", "");
  refuses("no dtype", R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", "abcd");
  refuses("broken shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "abcd");
  refuses("broken data_offsets", R"({"a":{"dtype":"F32","shape":[1]}})", "abcd");
}

TEST_F(Safetensors, ADeeplyNestedHeaderIsRefused) {
  refuses("nested too deeply", R"({"a":)" + std::string(100000, '['), "");
}

TEST_F(Safetensors, TheSameTensorTwiceIsRefused) {
  const std::string once = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  refuses("appears twice", "{" + once + "," + once + "}", "abcd");
}

TEST_F(Safetensors, NumbersThatAreNoSizesAreRefused) {
  refuses("broken shape", entry("F32", "[-1]", "[0,4]"), "abcd");
  refuses("broken shape", entry("F32", "[1.5]", "[0,4]"), "abcd");
  refuses("broken shape", entry("F32", "[\"1\"]", "[0,4]"), "abcd");
  refuses("broken shape", entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "abcd");
  refuses("broken data_offsets", entry("F32", "[1]", "[-4,0]"), "abcd");
  refuses("broken data_offsets", entry("F32", "[1]", "[4,0]"), "abcd");
  refuses("broken data_offsets", entry("F32", "[1]", "[0]"), "abcd");
  refuses("broken data_offsets", entry("F32", "[1]", "[0,4,8]"), "abcd");
  refuses("broken shape", entry("F32", "[18446744073709551616]", "[0,4]"), "abcd");
}

TEST_F(Safetensors, AShapeWhoseProductWrapsIsRefused) {
  refuses("huge shape", entry("F32", "[4294967296,4294967296]", "[0,0]"), "");
  refuses("huge shape", entry("F32", "[4611686018427387905]", "[0,4]"), "abcd");
}

TEST_F(Safetensors, AShapeThatDoesNotFitItsBytesIsRefused) {
  refuses("asks for 8", entry("F32", "[2]", "[0,4]"), "abcd");
  refuses("asks for 2", entry("BF16", "[1]", "[0,4]"), "abcd");
}

TEST_F(Safetensors, ATensorPastTheEndOfTheFileSaysTruncated) {
  refuses("truncated", entry("F32", "[2]", "[0,8]"), "abcd");
  refuses("truncated", entry("F32", "[1]", "[18446744073709551611,18446744073709551615]"), "abcd");
}

TEST_F(Safetensors, TensorsThatOverlapAreRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  refuses("overlaps tensor a", header, "abcdefgh");
}

void Safetensors::open_damaged(uint32_t seed) {
  constexpr int kRounds = 2000;
  const std::string good = safetensors_bytes(
      R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"F16",)"
      R"("shape":[3],"data_offsets":[8,14]}})",
      std::string(14, 'x'));
  constexpr char kBytes[] = "0123456789-[]{},:\"e.\xff";
  std::mt19937 rng(seed);
  int n_refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = good;
    for (uint32_t i = 0; i <= rng() % 3; ++i) {
      bytes[rng() % bytes.size()] = kBytes[rng() % sizeof(kBytes)];
    }
    if (rng() % 8 == 0) bytes.resize(rng() % bytes.size());
    try {
      const SafetensorsFile file = open(bytes);
      for (const auto& [name, tensor] : file.tensors()) {
        ASSERT_LE(tensor.offset + tensor.bytes, bytes.size()) << "round " << round;
      }
    } catch (const converter::ProgramError&) {
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, kRounds / 2);
}

TEST_F(Safetensors, AnyDamageIsReadOrRefused) {
  test::for_each_seed({3}, [this](uint32_t seed) { open_damaged(seed); });
}

TEST_F(Safetensors, AFileThatIsNotThereOrNoFileIsRefused) {
  expect_invalid({"none.safetensors", "no such file"},
                 [&] { (void)SafetensorsFile(folder_ / "none.safetensors"); });
  expect_invalid({"is a folder; give a regular file"},
                 [&] { (void)SafetensorsFile(folder_.path()); });
}

}  // namespace
}  // namespace cria::test
