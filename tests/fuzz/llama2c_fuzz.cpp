// Hostile bytes as a model of llama2.c, and as a tokenizer of it.
#include <string>

#include "converter/llama2c/llama2c_checkpoint.h"
#include "converter/llama2c/llama2c_tokenizer.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
int fuzz_one(const uint8_t* data, size_t size) {
  const std::filesystem::path path = memory_folder() / "model.bin";
  write_bytes(path, {reinterpret_cast<const char*>(data), size});
  const TimeLimit limit(size);
  refuses_or([&] {
    converter::Llama2cCheckpoint checkpoint(path, {});
    checkpoint.open_weights();
    static_cast<void>(checkpoint.read_config());
    visit_end_rows(checkpoint, read_values);
  });
  constexpr uint32_t kPieces = 300;
  refuses_or([&] {
    static_cast<void>(converter::read_llama2c_tokenizer({data, size}, kPieces, "input"));
  });
  return 0;
}

}  // namespace cria::fuzz
