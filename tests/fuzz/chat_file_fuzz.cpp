// Hostile chat files: what is not refused is what was saved, and a chat goes on from it.
//
//   kind u8: bit 0 leaves the checksum as it is, bit 1 takes the rest for a whole file; else edits
//   (tests/fuzz/model_draft.h) of a file that was saved
#include <cstring>
#include <string>

#include "platforms/hosted/chat_file.h"
#include "platforms/hosted/program_error.h"
#include "tests/fuzz/base_models.h"
#include "tests/fuzz/chat_trial.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"

namespace cria::fuzz {
namespace {

// platforms/hosted/chat_file.cpp
constexpr size_t kHeaderBytes = 56;
constexpr size_t kStateBytesOffset = 40;
constexpr size_t kChecksumOffset = 48;

void mend(Bytes* file) {
  if (file->size() < kHeaderBytes) return;
  uint64_t state_bytes = 0;
  std::memcpy(&state_bytes, file->data() + kStateBytesOffset, sizeof state_bytes);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (size_t i = kHeaderBytes; i < file->size() && file->size() - i > state_bytes; ++i) {
    hash = (hash ^ (*file)[i]) * 0x100000001b3;
  }
  std::memcpy(file->data() + kChecksumOffset, &hash, sizeof hash);
}

class SavedChat {
 public:
  SavedChat() : trial_(options()) {
    trial_.engine()->reset("Be brief.");
    trial_.say("the llama");
    trial_.say("ate");
    saved_ = trial_.saved();
  }
  [[nodiscard]] ChatTrial* trial() { return &trial_; }
  [[nodiscard]] const std::string& saved() const { return saved_; }

 private:
  static hosted::CommonOptions options() {
    const auto path = memory_folder() / "model.cria";
    const Bytes& model = base_models()[0];
    write_bytes(path, {reinterpret_cast<const char*>(model.data()), model.size()});
    return chat_options(path.string());
  }

  ChatTrial trial_;
  std::string saved_;
};

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr size_t kMostEdits = 32;
  constexpr uint8_t kKeepsChecksum = 1 << 0;
  constexpr uint8_t kWhole = 1 << 1;
  static SavedChat chat;
  ByteFeed feed(data, size);
  const uint8_t kind = feed.byte();
  Bytes file(chat.saved().begin(), chat.saved().end());
  if ((kind & kWhole) != 0) {
    file.assign(feed.rest().begin(), feed.rest().end());
  } else {
    for (size_t i = 0; i < kMostEdits && !feed.is_empty(); ++i) apply_edit(take_edit(&feed), &file);
  }
  if ((kind & kKeepsChecksum) == 0) mend(&file);
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  try {
    const hosted::ChatRecord record =
        hosted::parse_chat_file(bytes, chat.trial()->limits(), "input");
    expect(hosted::format_chat_file(record) == bytes, "a file that is read is what is written");
    chat.trial()->engine()->load(record);
    chat.trial()->say("and then?");
  } catch (const hosted::ProgramError&) {
    // One line for the user: what a hostile file gets.
  }
  return 0;
}

}  // namespace cria::fuzz
