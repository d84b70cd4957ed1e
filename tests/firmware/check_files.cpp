// Many small files, each verified and opened: what the device says of bad and of valid ones.
#include <cstring>
#include <iterator>

#include "platforms/cortex_m/console.h"
#include "tests/firmware/device_checks.h"

namespace cria::firmware_test {

using cortex_m::fail;
using cortex_m::print;

namespace {

uint32_t word_at(std::span<const uint8_t> bytes, size_t index) {
  uint32_t word = 0;
  if ((index + 1) * sizeof word > bytes.size()) fail("the table of files is cut off");
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

int read(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  const std::span<uint8_t> file = static_cast<const Bench*>(context)->model;
  if (offset > file.size() || n_bytes > file.size() - offset) return 1;
  std::memcpy(destination, file.data() + offset, n_bytes);
  return 0;
}

cria_status verify(const Bench& bench, const cria_source& source) {
  return cria_verify(&source, bench.work.data(), bench.work.size(), nullptr, nullptr, nullptr);
}

// A session that opens also computes.
cria_status open(const Bench& bench, const cria_source& source) {
  cria_config config = {};
  config.prefill_chunk = 4;
  config.source_is_mapped = source.map != nullptr ? 1 : 0;
  cria_session* session = nullptr;
  const cria_status status =
      cria_open(bench.arena.data(), bench.arena.size(), &source, &config, &session);
  if (status != CRIA_OK) return status;
  const uint32_t tokens[] = {0, 5, 1};
  return cria_prefill(session, tokens, std::size(tokens));
}

}  // namespace

void check_files(const Bench& bench, std::string_view /*words*/) {
  const uint32_t n_files = word_at(bench.model, 0);
  for (size_t i = 0; i < n_files; ++i) {
    const size_t begin = word_at(bench.model, 2 * i + 1);
    const size_t size = word_at(bench.model, 2 * i + 2);
    if (begin > bench.model.size() || size > bench.model.size() - begin) fail("no such file");
    Bench one = bench;
    one.model = bench.model.subspan(begin, size);
    const cria_source mapped = source_of(one);
    cria_source copied = mapped;
    copied.map = nullptr;
    copied.read = read;
    print("file ", verify(one, copied), " ", verify(one, mapped), " ", open(one, copied), " ",
          open(one, mapped), "\n");
  }
}

}  // namespace cria::firmware_test
