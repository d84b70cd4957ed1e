// Hostile bytes as a model of llama2.c, and as a tokenizer of it.
#include <string>

#include "converter/error.h"
#include "converter/llama2c/llama2c_checkpoint.h"
#include "converter/llama2c/llama2c_tokenizer.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
namespace {

template <typename Step>
void refuses_or(const Step& step) {
  try {
    step();
  } catch (const converter::ProgramError& error) {
    expect(error.code() == converter::ExitCode::kInvalidInput,
           "a broken file is invalid input, not a failure of the system");
  }
}

void read_all(const converter::Checkpoint& checkpoint) {
  std::vector<uint8_t> scratch;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    std::vector<float> row(tensor->n_cols());
    for (const uint64_t place : {uint64_t{0}, tensor->n_rows() - 1}) {
      tensor->read_rows(place, 1, &scratch, row.data());
    }
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::filesystem::path path = memory_folder() / "model.bin";
  write_bytes(path, {reinterpret_cast<const char*>(data), size});
  const TimeLimit limit(size);
  refuses_or([&] {
    converter::Llama2cCheckpoint checkpoint(path, {});
    checkpoint.open_weights();
    static_cast<void>(checkpoint.read_config());
    read_all(checkpoint);
  });
  constexpr uint32_t kPieces = 300;
  refuses_or([&] {
    static_cast<void>(converter::read_llama2c_tokenizer({data, size}, kPieces, "input"));
  });
  return 0;
}

}  // namespace cria::fuzz
