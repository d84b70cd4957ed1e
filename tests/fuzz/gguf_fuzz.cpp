// Hostile GGUF files: opened, their config and tokenizer taken, every tensor read.
#include <algorithm>
#include <string>

#include "converter/config_import.h"
#include "converter/gguf/gguf_checkpoint.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
namespace {

void check_entries(const converter::GgufFile& file) {
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const converter::GgufEntry& entry : file.tensors()) {
    expect(entry.offset <= file.file().size_bytes() &&
               entry.bytes <= file.file().size_bytes() - entry.offset,
           "every tensor lies inside the file");
    if (entry.bytes != 0) places.emplace_back(entry.offset, entry.bytes);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    expect(places[i - 1].first + places[i - 1].second <= places[i].first,
           "no two tensors share bytes");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::filesystem::path path = memory_folder() / "model.gguf";
  write_bytes(path, {reinterpret_cast<const char*>(data), size});
  const TimeLimit limit(size);
  refuses_or([&] { check_entries(converter::GgufFile(path)); });
  refuses_or([&] {
    converter::GgufCheckpoint checkpoint(path);
    refuses_or([&] { static_cast<void>(converter::import_config(checkpoint.read_config())); });
    checkpoint.open_weights();
    static_cast<void>(checkpoint.weights_text());
    visit_end_rows(checkpoint, read_values);
    static_cast<void>(checkpoint.read_tokenizer(format::kMaxVocab, {}, nullptr));
  });
  return 0;
}

}  // namespace cria::fuzz
