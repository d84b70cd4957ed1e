// A file that becomes another model between its inspection and its opening: what was sized by the
// first is not used with the second.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/session/model_session.h"
#include "tests/support/model_files.h"
#include "tests/support/test_session.h"
#include "tests/system/tiny_chat_model.h"

namespace cria::hosted {
namespace {

TEST(ChangedFile, AnotherVocabularyIsNoticed) {
  const test::Bytes small = test::tiny_model();
  const test::Bytes demo = test::convert_folder(
      test::demo_folder(), {format::NumberFormat::kInt8, 0, format::Compression::kStored, true});
  const auto path = test::temporary_folder() / "changed.cria";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(small.data()),
             static_cast<std::streamsize>(small.size()));
  const ModelFile inspected(path.string(), Mapping::kNever);
  const test::MemorySource same_source(small);
  const test::MemorySource other_source(demo);
  test::TestSession same(same_source, {});
  test::TestSession other(other_source, {});
  EXPECT_EQ(cria_vocab_size(same.model()), inspected.info().vocab_size);
  EXPECT_EQ(cria_vocab_size(other.model()), other.info().vocab_size);
  EXPECT_NE(cria_vocab_size(same.model()), cria_vocab_size(other.model()));
  EXPECT_NO_THROW(check_is_inspected(inspected, same.model()));
  try {
    check_is_inspected(inspected, other.model());
    ADD_FAILURE() << "it was taken for the same model";
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
    EXPECT_NE(std::string(error.what()).find("changed.cria"), std::string::npos);
  }
  std::filesystem::remove(path);
}

TEST(ChangedFile, NoSessionHasNoVocabulary) { EXPECT_EQ(cria_vocab_size(nullptr), 0u); }

}  // namespace
}  // namespace cria::hosted
