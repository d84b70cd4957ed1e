// What the writer finished is read back before it is put in place.
#include "converter/model_writer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;
using format::SectionKind;

constexpr size_t kConfigBytes = 472;
const std::vector<uint8_t> kTokenizer = {1, 2, 3, 4, 5};
const std::vector<uint8_t> kMetadata = {'{', '}'};

// The parts of a file without tensors, which nobody but the writer would take for a model.
void fill(ModelWriter* writer) {
  const std::vector<uint8_t> config(kConfigBytes, 7);
  writer->write_section(SectionKind::kConfig, config);
  writer->write_section(SectionKind::kTokenizer, kTokenizer);
}

std::vector<SectionSize> sizes() {
  return {{SectionKind::kConfig, kConfigBytes},
          {SectionKind::kTokenizer, kTokenizer.size()},
          {SectionKind::kChunkTable, 0}};
}

TEST(ModelWriter, ReadsBackWhatItWrote) {
  const test::TempFolder folder;
  ModelWriter writer((folder / "m.cria").string(), sizes());
  fill(&writer);
  static_cast<void>(writer.finish(kMetadata));
  const WrittenParts parts = writer.read_back();
  EXPECT_EQ(parts.config, std::vector<uint8_t>(kConfigBytes, 7));
  EXPECT_EQ(parts.tokenizer, kTokenizer);
  EXPECT_TRUE(parts.chat_template.empty());
}

// A disk that loses or changes bytes: each byte of the file that is not a gap.
TEST(ModelWriter, TellsOfBytesThatAreNotWhatItWrote) {
  const test::TempFolder folder;
  ModelWriter writer((folder / "m.cria").string(), sizes());
  fill(&writer);
  const uint64_t size = writer.finish(kMetadata);
  fs::path temporary;
  for (const auto& entry : fs::directory_iterator(folder.path())) temporary = entry.path();
  std::fstream file(temporary, std::ios::in | std::ios::out | std::ios::binary);
  size_t n_told = 0;
  for (uint64_t place = 0; place < size; ++place) {
    const auto put = [&](char byte) {
      file.seekp(static_cast<std::streamoff>(place));
      file.put(byte).flush();
    };
    file.seekg(static_cast<std::streamoff>(place));
    const auto byte = static_cast<char>(file.get());
    put(static_cast<char>(byte ^ 0x10));
    try {
      static_cast<void>(writer.read_back());
    } catch (const ProgramError& error) {
      EXPECT_EQ(error.code(), ExitCode::kIo);
      ++n_told;
    }
    put(byte);
  }
  constexpr size_t kSections = 5;  // with data and metadata
  const size_t n_used = sizeof(format::FileHeader) + kSections * sizeof(format::SectionEntry) +
                        kConfigBytes + kTokenizer.size() + kMetadata.size();
  EXPECT_EQ(n_told, n_used);
  EXPECT_NO_THROW(static_cast<void>(writer.read_back()));
}

TEST(ModelWriter, TellsOfAFileThatBecameShorter) {
  const test::TempFolder folder;
  ModelWriter writer((folder / "m.cria").string(), sizes());
  fill(&writer);
  const uint64_t size = writer.finish(kMetadata);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    fs::resize_file(entry.path(), size - 1);
  }
  EXPECT_THROW(static_cast<void>(writer.read_back()), hosted::OutputError);
}

}  // namespace
}  // namespace cria::converter
