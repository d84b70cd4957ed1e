// Hostile chat files: what is not refused is what was saved, and a chat goes on from it.
//
//   kind u8: bit 0 leaves the checksum as it is, bit 1 takes the rest for a whole file; else edits
//   (tests/fuzz/model_draft.h) of a file that was saved; bit 2: by a chat with a small context,
//   whose questions are longer than it
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/base_models.h"
#include "tests/fuzz/chat_trial.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/sealed.h"

namespace cria::fuzz {
namespace {

// The header of runtime/chat/chat_state.cpp: magic, checksum, then counts of messages, bytes of
// text, messages in the context and pending tokens; how it thinks.
constexpr size_t kHeaderBytes = 40;
constexpr size_t kCountsOffset = 16;
constexpr uint64_t kMessageBytes = 16;

void mend(Bytes* file) {
  if (file->size() < kHeaderBytes) return;
  uint32_t counts[4];
  std::memcpy(counts, file->data() + kCountsOffset, sizeof counts);
  const uint64_t body =
      kMessageBytes * counts[0] + counts[1] + sizeof(uint32_t) * uint64_t{counts[3]};
  if (body > file->size() - kHeaderBytes) return;
  test::seal(file, test::kChatChecksum, kHeaderBytes + static_cast<size_t>(body));
}

class SavedChat {
 public:
  explicit SavedChat(uint32_t context) : trial_(options(context), false) {
    constexpr std::string_view kSystem = "Be brief.";
    static_cast<void>(cria_chat_begin(trial_.chat(), kSystem.data(), kSystem.size()));
    static_cast<void>(trial_.say("the llama"));
    static_cast<void>(trial_.say("ate"));
    saved_ = trial_.saved();
  }
  [[nodiscard]] ChatTrial* trial() { return &trial_; }
  [[nodiscard]] const std::vector<uint8_t>& saved() const { return saved_; }

 private:
  static hosted::CommonOptions options(uint32_t context) {
    const auto path = memory_folder() / "model.cria";
    const Bytes& model = base_models()[0];
    write_bytes(path, {reinterpret_cast<const char*>(model.data()), model.size()});
    hosted::CommonOptions options = chat_options(path.string());
    if (context != 0) options.context = context;
    return options;
  }

  ChatTrial trial_;
  std::vector<uint8_t> saved_;
};

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr size_t kMostEdits = 32;
  constexpr uint8_t kKeepsChecksum = 1 << 0;
  constexpr uint8_t kWhole = 1 << 1;
  constexpr uint8_t kSmall = 1 << 2;
  constexpr uint32_t kSmallContext = 32;
  constexpr size_t kLongText = 600;
  static SavedChat chats[] = {SavedChat(0), SavedChat(kSmallContext)};
  ByteFeed feed(data, size);
  const uint8_t kind = feed.byte();
  SavedChat& chat = chats[(kind & kSmall) != 0 ? 1 : 0];
  Bytes file(chat.saved().begin(), chat.saved().end());
  if ((kind & kWhole) != 0) {
    file.assign(feed.rest().begin(), feed.rest().end());
  } else {
    for (size_t i = 0; i < kMostEdits && !feed.is_empty(); ++i) apply_edit(take_edit(&feed), &file);
  }
  if ((kind & kKeepsChecksum) == 0) mend(&file);
  cria_chat* const loaded = chat.trial()->chat();
  if (cria_chat_load(loaded, file.data(), file.size()) != CRIA_OK) return 0;
  size_t n_text = 0;
  for (size_t i = 0; i < cria_chat_n_messages(loaded); ++i) {
    n_text += cria_chat_message(loaded, i).n_bytes;
  }
  expect(n_text <= file.size(), "the messages are those of the file");
  if ((kind & kSmall) != 0) static_cast<void>(chat.trial()->say(std::string(kLongText, 'x')));
  for (int i = 0; i < 4; ++i) static_cast<void>(chat.trial()->say("and then?"));
  return 0;
}

}  // namespace cria::fuzz
