#include "tests/fuzz/noted_models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/base_models.h"
#include "tests/fuzz/folder_input.h"
#include "tests/support/guarded_source.h"
#include "tests/support/test_session.h"

namespace cria::fuzz {
namespace {

const char* notes_folder() {
  static const char* const folder = std::getenv("CRIA_FUZZ_NOTES");
  return folder;
}

// Lines of index.txt: file, status, what it is.
void write_note(std::span<const uint8_t> bytes, const char* ending, cria_status status) {
  static size_t n_noted = 0;
  const std::filesystem::path folder = notes_folder();
  const std::string name = std::to_string(n_noted++) + ending;
  write_bytes(folder / name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::ofstream(folder / "index.txt", std::ios::app)
      << name << ' ' << static_cast<int>(status) << '\n';
}

cria_status verify(const cria_source& source, const cria_model_info& info) {
  size_t n_bytes = CRIA_VERIFY_SCRATCH_BYTES;
  static_cast<void>(cria_verify_required(&info, &n_bytes));
  test::AlignedMemory scratch(n_bytes);
  return cria_verify(&source, scratch.data(), scratch.size(), nullptr, nullptr, nullptr);
}

}  // namespace

void note_model(std::span<const uint8_t> file) {
  constexpr uint64_t kBoardMemory = uint64_t{3} << 20;
  constexpr size_t kMostBytes = size_t{200} << 10;
  if (notes_folder() == nullptr || file.size() > kMostBytes) return;
  const test::GuardedSource source(file);
  cria_model_info info = {};
  cria_status status = cria_inspect(&source.source(), &info);
  if (status == CRIA_OK) {
    cria_config config = {};
    config.backend = CRIA_BACKEND_EXACT;
    cria_memory_plan plan = {};
    if (cria_plan(&info, &config, &plan) != CRIA_OK || plan.total > kBoardMemory) return;
    status = verify(source.source(), info);
  }
  write_note(file, ".cria", status);
}

void note_sections(std::span<const uint8_t> tokenizer, std::span<const uint8_t> chat) {
  if (notes_folder() == nullptr) return;
  ModelDraft draft(base_models().front());
  draft.replace(format::SectionKind::kTokenizer, tokenizer);
  draft.replace(format::SectionKind::kChatTemplate, chat);
  note_model(draft.assemble());
}

void note_state(std::span<const uint8_t> state, cria_status status) {
  if (notes_folder() == nullptr) return;
  static bool has_model = false;
  if (!has_model) write_note(base_models().front(), ".cria", CRIA_OK);
  has_model = true;
  write_note(state, ".state", status);
}

}  // namespace cria::fuzz
