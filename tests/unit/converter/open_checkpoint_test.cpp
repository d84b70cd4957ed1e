#include <gtest/gtest.h>

#include "converter/checkpoint.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::converter {
namespace {

using namespace std::string_literals;

TEST(OpenCheckpoint, RefusesOtherFilesWithAdvice) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* part;
  };
  const Case cases[] = {
      {"consolidated.00.pth", "PK\x03\x04rest", "take the model as safetensors"},
      {"pytorch_model.bin", "PK\x03\x04rest", "take the model as safetensors"},
      {"old.bin", "\x80\x02}q", "take the model as safetensors"},
      {"model.pt", "anything", "take the model as safetensors"},
      {"model.ckpt", "anything", "take the model as safetensors"},
      {"ggml-model.bin", "tjgg\1\0\0\0"s, "a format before GGUF"},
      {"model.ggml", "anything", "a format before GGUF"},
      {"model.ONNX", "\x08\x07", "ONNX"},
      {"model.safetensors", "anything", "give its folder"},
      {"demo.cria", "CRIA\r\n\x1a\n", "a model file of cria already"},
      {"notes.txt", "hello", "of a kind that is not known"},
      {"empty", "", "of a kind that is not known"},
      {"other.bin", "hello", "truncated inside its header"},
  };
  const test::TempFolder folder;
  for (const Case& c : cases) {
    test::write_file(folder / c.name, c.bytes);
    test::expect_invalid({c.name, c.part},
                         [&] { static_cast<void>(open_checkpoint(folder / c.name)); });
  }
}

TEST(OpenCheckpoint, RefusesMetasOwnFolders) {
  const test::TempFolder folder;
  test::write_file(folder / "params.json", "{}");
  test::write_file(folder / "consolidated.00.pth", "PK");
  test::expect_invalid({"consolidated.*.pth", "safetensors"},
                       [&] { static_cast<void>(open_checkpoint(folder.path())->read_config()); });
}

TEST(OpenCheckpoint, WantsATokenizerOnlyWhereItHasAPlace) {
  const test::TempFolder folder;
  test::expect_refused(ExitCode::kUsage, {"--tokenizer belongs to"}, [&] {
    static_cast<void>(open_checkpoint(folder.path(), folder / "tok.bin"));
  });
}

}  // namespace
}  // namespace cria::converter
