#include "converter/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/converter/gguf_writer.h"

namespace cria::converter {
namespace {

using test::GgufWriter;

void expect_refused(const std::string& bytes, const std::string& part) {
  const test::TempFolder folder;
  test::write_file(folder / "m.gguf", bytes);
  test::expect_invalid({"m.gguf", part}, [&] { const GgufFile file(folder / "m.gguf"); });
}

GgufWriter small_file() {
  GgufWriter writer;
  writer.put_text("name", "x");
  writer.tensors.push_back({"a", {2, 32}, 8, std::string(68, '\1')});
  writer.tensors.push_back({"b", {3}, 0, std::string(12, '\2')});
  return writer;
}

TEST(GgufFile, HasMetadataAndTensors) {
  const test::TempFolder folder;
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer = small_file();
    writer.version = version;
    writer.put("signed", 5, GgufWriter::bytes_of_number(int32_t{-3}));
    writer.put_numbers("list", 5, std::vector<int32_t>{1, -1});
    test::write_file(folder / "m.gguf", writer.bytes());
    const GgufFile file(folder / "m.gguf");
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.metadata()["name"], "x");
    EXPECT_EQ(file.metadata()["signed"], -3);
    EXPECT_EQ(file.metadata()["list"], Json({1, -1}));
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors()[0].shape, (std::vector<uint64_t>{2, 32}));
    EXPECT_EQ(file.tensors()[0].bytes, 68u);
    EXPECT_EQ(file.tensors()[1].offset - file.tensors()[0].offset, 96u);
  }
}

TEST(GgufFile, OfAnotherVersionOrOrderIsRefused) {
  GgufWriter writer = small_file();
  writer.version = 1;
  expect_refused(writer.bytes(), "GGUF version 1; versions 2 and 3 are read");
  writer.version = 4;
  expect_refused(writer.bytes(), "GGUF version 4");
  writer.version = 0x03000000;
  expect_refused(writer.bytes(), "big-endian");
  expect_refused("GGXF" + writer.bytes().substr(4), "is not a GGUF file");
}

TEST(GgufFile, ThatIsCutOffIsRefusedAtEveryByte) {
  const std::string bytes = small_file().bytes();
  const test::TempFolder folder;
  // The last tensor's alignment is not missed.
  for (size_t n = 0; n < bytes.size() - 20; ++n) {
    test::write_file(folder / "m.gguf", bytes.substr(0, n));
    EXPECT_THROW(const GgufFile file(folder / "m.gguf"), ProgramError) << n;
  }
}

TEST(GgufFile, OfHugeCountsIsRefusedBeforeAnythingIsReserved) {
  const std::string bytes = small_file().bytes();
  std::string many_tensors = bytes;
  many_tensors[14] = '\x7f';
  expect_refused(many_tensors, "tensors; at most");
  std::string many_values = bytes;
  many_values[22] = '\x7f';
  expect_refused(many_values, "metadata values; at most");
  GgufWriter writer;
  writer.put_list("l", 0, uint64_t{1} << 60, "");
  expect_refused(writer.bytes(), "list items; at most");
  writer = GgufWriter();
  writer.put_list("l", 0, 1 << 20, "few");
  expect_refused(writer.bytes(), "truncated");
  writer = GgufWriter();
  writer.put("t", 8, GgufWriter::bytes_of_number(uint64_t{1} << 40));
  expect_refused(writer.bytes(), "has a text of 1099511627776 bytes");
}

TEST(GgufFile, WithABrokenHeaderIsRefused) {
  GgufWriter writer;
  writer.put_count("k", 1);
  writer.put_count("k", 1);
  expect_refused(writer.bytes(), "key k appears twice");
  writer = GgufWriter();
  writer.put_list("l", 9, 1, "");
  expect_refused(writer.bytes(), "list of lists");
  writer = GgufWriter();
  writer.put("k", 13, "");
  expect_refused(writer.bytes() + std::string(32, '\0'), "unknown value type 13");
  writer = GgufWriter();
  writer.put_count("general.alignment", 24);
  expect_refused(writer.bytes(), "general.alignment must be a power of two");
}

TEST(GgufFile, WithMisplacedTensorsIsRefused) {
  GgufWriter writer = small_file();
  writer.tensors[1].name = "a";
  expect_refused(writer.bytes(), "tensor a appears twice");
  writer = small_file();
  writer.tensors[0].shape = {2, 31};
  expect_refused(writer.bytes(), "do not divide into blocks of Q8_0");
  writer = small_file();
  writer.tensors[0].shape = {uint64_t{1} << 40, uint64_t{1} << 40};
  expect_refused(writer.bytes(), "huge shape");
  writer = small_file();
  writer.tensors[0].shape = {64, 32};
  expect_refused(writer.bytes(), "truncated, download it again");
  writer = small_file();
  writer.tensors[0].shape = {4, 32};
  writer.tensors.push_back({"c", {64}, 0, std::string(256, '\3')});
  expect_refused(writer.bytes(), "tensor b overlaps tensor a");
  writer = small_file();
  writer.tensors[1].shape = {0};
  expect_refused(writer.bytes(), "has no values");
  std::string misaligned = small_file().bytes();
  const size_t name = misaligned.find(GgufWriter::text("b"));
  misaligned[name + 9 + 4 + 8 + 4] = 97;
  expect_refused(misaligned, "tensor b is not aligned");
}

}  // namespace
}  // namespace cria::converter
