// Metadata as a hostile author writes it, through the programs' commands: what info prints is
// bounded and JSON, what verify and info refuse is one line with the exit code of bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/metadata_text.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria {
namespace {

using Json = nlohmann::ordered_json;
using test::Bytes;

const Bytes& tiny_model() {
  static const Bytes file = [] {
    const auto folder = test::temporary_folder() / "tiny-metadata";
    test::write_tiny_checkpoint(folder);
    return test::convert_folder(folder,
                                {format::NumberFormat::kInt8, 0, format::Compression::kZstd, true});
  }();
  return file;
}

// The model with other metadata, which is the file's last section; all checksums hold.
Bytes with_metadata(const std::string& text) {
  Bytes file = tiny_model();
  format::FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const size_t at = sizeof header + (header.section_count - 1) * sizeof(format::SectionEntry);
  format::SectionEntry last;
  std::memcpy(&last, file.data() + at, sizeof last);
  EXPECT_EQ(last.kind, static_cast<uint32_t>(format::SectionKind::kMetadata));
  file.resize(last.offset);
  file.insert(file.end(), text.begin(), text.end());
  last.bytes = text.size();
  header.file_bytes = file.size();
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + at, &last, sizeof last);
  test::mend_checksums(file);
  return file;
}

struct Result {
  int code;
  std::string out;
  std::string err;
};

Result run(const Bytes& file, std::vector<const char*> arguments) {
  const std::string path = (test::temporary_folder() / "hostile.cria").string();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  arguments.insert(arguments.begin(), "cria");
  arguments.push_back(path.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = hosted::run_program(static_cast<int>(arguments.size()), arguments.data());
  Result result = {code, testing::internal::GetCapturedStdout(),
                   testing::internal::GetCapturedStderr()};
  return result;
}

std::string repeated(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

TEST(HostileMetadata, IsRefusedByInfoVerifyAndRun) {
  const std::string texts[] = {
      repeated("[", 100000) + repeated("]", 100000),
      repeated("[", 20000),
      repeated("{\"a\":", 17) + "1" + repeated("}", 17),
      "{",
      "nonsense",
      std::string("\"\xff\""),
      std::string("{}\0", 3),
      std::string(format::kMaxMetadataBytes + 1, ' '),
  };
  for (const std::string& text : texts) {
    const Bytes file = with_metadata(text);
    for (const std::vector<const char*>& arguments :
         {std::vector<const char*>{"info", "--json"}, {"verify"}, {"run", "-p", "a"}}) {
      const Result result = run(file, arguments);
      EXPECT_EQ(result.code, 3) << arguments[0] << ' ' << text.substr(0, 40);
      EXPECT_EQ(result.out, "");
      EXPECT_NE(result.err.find("breaks a rule of its format"), std::string::npos) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
}

TEST(HostileMetadata, IsPrintedWithoutSwelling) {
  constexpr size_t kMostOutput = 12 * size_t{format::kMaxMetadataBytes};
  const std::string deep = repeated("[", format::kMaxMetadataNesting - 1);
  const std::string deep_end = repeated("]", format::kMaxMetadataNesting - 1);
  const std::string texts[] = {
      "{}",
      "[ ]",
      " null ",
      "[[],{},[[]]]",
      R"({"a":{"b":{"c":[1,2,{"d":[]}]}},"e":"\"]}\\","f":-1.5e3})",
      "[" + deep + "1" + repeated(",1", 500000) + deep_end + "]",
      "[1" + repeated(",1", 500000) + "]",
      "[" + repeated("{},", 300000) + "{}]",
      "{\"k\":0" + repeated(",\"k\":0", 100000) + "}",
  };
  for (const std::string& text : texts) {
    ASSERT_LE(text.size(), format::kMaxMetadataBytes);
    const Result result = run(with_metadata(text), {"info", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_LT(result.out.size(), kMostOutput);
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json.at("metadata"), nlohmann::json::parse(text));
    EXPECT_EQ(run(with_metadata(text), {"verify"}).code, 0);
  }
}

TEST(HostileMetadata, IsLaidOutTwoLevelsDeep) {
  EXPECT_EQ(hosted::indented_json(R"({ "a":1,"b":[ {"c":[1,2]},{} ],"d":[]})"),
            "{\n"
            "    \"a\": 1,\n"
            "    \"b\": [\n"
            "      {\"c\": [1, 2]},\n"
            "      {}\n"
            "    ],\n"
            "    \"d\": []\n"
            "  }");
}

TEST(HostileMetadata, ControlCharactersOfATerminalAreEscaped) {
  const std::string text = "[\"a\x7f\xc2\x9b\xc2\xa0z\"]";
  const std::string shown = hosted::indented_json(text);
  EXPECT_EQ(shown, "[\n    \"a\\u007f\\u009b\xc2\xa0z\"\n  ]");
  EXPECT_EQ(Json::parse(shown), Json::parse(text));
}

TEST(RefusedConfig, IsToldWithTheNameOfItsField) {
  Bytes file = tiny_model();
  const std::span<uint8_t> config = test::section_bytes(file, format::SectionKind::kConfig);
  config[sizeof(format::ModelScalars) + offsetof(format::LayerKind, n_key_heads)] = 77;
  test::mend_checksums(file);
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"info"}, {"verify"}, {"run", "-p", "a"}}) {
    const Result result = run(file, arguments);
    EXPECT_EQ(result.code, 3);
    EXPECT_NE(result.err.find("hostile.cria: the file breaks a rule of its format: n_key_heads"),
              std::string::npos)
        << result.err;
  }
}

}  // namespace
}  // namespace cria
