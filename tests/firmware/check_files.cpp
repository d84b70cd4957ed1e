// Many small files, each verified and opened: what the device says of bad and of valid ones.
#include <cstring>
#include <iterator>

#include "platforms/cortex_m/console.h"
#include "tests/firmware/device_checks.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling_of.h"

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

// Text, a chat and a drawn token, each as far as the model has what it takes.
void use(const cria_instance& cria) {
  constexpr std::string_view kText = "the <|eot_id|> llama </s> \xf0\x9f\xa6\x99\xff";
  const cria_message message = {CRIA_USER, kText.data(), kText.size()};
  constexpr uint32_t kFlags = CRIA_ENCODE_SPECIAL | CRIA_ENCODE_PARSE;
  const cria_sampling sampling = test::sampling_of(0.8f, 0.9f, 0.05f, 1.1f, 20);
  static uint32_t tokens[128];
  static char text[CRIA_TEXT_BYTES];
  size_t n = 0;
  uint32_t token = 0;
  cria_text_state state = {};
  static_cast<void>(cria_encode(cria.workspace, kText.data(), kText.size(), kFlags, tokens,
                                std::size(tokens), &n));
  static_cast<void>(
      test::encode_chat(cria.workspace, &message, 1, 0, 1, tokens, std::size(tokens), &n));
  static_cast<void>(cria_sample(cria.workspace, cria.session, &sampling, &token));
  static_cast<void>(cria_decode_token(cria.model, &state, token, text, sizeof text, &n));
}

// A session that opens also computes.
cria_status open(const Bench& bench, const cria_source& source) {
  cria_config config = {};
  config.prefill_chunk = 4;
  config.source_is_mapped = source.map != nullptr ? 1 : 0;
  cria_instance cria = {};
  const cria_status status =
      cria_open(bench.arena.data(), bench.arena.size(), &source, &config, &cria);
  if (status != CRIA_OK) return status;
  const uint32_t tokens[] = {0, 5, 1};
  const cria_status fed = cria_prefill(cria.workspace, cria.session, tokens, std::size(tokens));
  if (fed == CRIA_OK) use(cria);
  return fed;
}

// File i of the many.
Bench part_of(const Bench& bench, size_t i) {
  const size_t begin = word_at(bench.model, 2 * i + 1);
  const size_t size = word_at(bench.model, 2 * i + 2);
  if (begin > bench.model.size() || size > bench.model.size() - begin) fail("no such file");
  Bench part = bench;
  part.model = bench.model.subspan(begin, size);
  return part;
}

}  // namespace

void check_files(const Bench& bench, std::string_view /*words*/) {
  const uint32_t n_files = word_at(bench.model, 0);
  for (size_t i = 0; i < n_files; ++i) {
    const Bench one = part_of(bench, i);
    const cria_source mapped = source_of(one);
    cria_source copied = mapped;
    copied.map = nullptr;
    copied.read = read;
    print("file ", verify(one, copied), " ", verify(one, mapped), " ", open(one, copied), " ",
          open(one, mapped), "\n");
  }
}

void check_states(const Bench& bench, std::string_view /*words*/) {
  const Bench model = part_of(bench, 0);
  const cria_instance cria = open_model(model, {});
  cria_session* const session = cria.session;
  for (size_t i = 1; i < word_at(bench.model, 0); ++i) {
    const std::span<const uint8_t> state = part_of(bench, i).model;
    const cria_status status = cria_state_load(session, state.data(), state.size());
    const uint32_t token = 1;
    if (status == CRIA_OK && cria_position(session) < cria_context(session)) {
      need(cria_prefill(cria.workspace, session, &token, 1));
    }
    print("state ", status, "\n");
  }
}

}  // namespace cria::firmware_test
