// A conversation as cria chat has it, with a hostile model: an input of open_fuzz
// (tests/fuzz/hostile_input.h) whose text is the messages, one a line; a line that begins
// with a plus answers again, one that begins with a minus takes as many messages back as it has.
#include <algorithm>
#include <string>
#include <vector>

#include "platforms/hosted/base/program_error.h"
#include "tests/fuzz/chat_trial.h"
#include "tests/fuzz/folder_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hostile_input.h"

namespace cria::fuzz {
namespace {

void chat(const HostileInput& input, const hosted::CommonOptions& options) {
  constexpr size_t kMostMessages = 6;
  constexpr uint64_t kMostMemory = uint64_t{16} << 20;
  const hosted::ModelFile file(options.model_path, options.mapping);
  if (hosted::plan_for(file, hosted::config_for(options, file)).total > kMostMemory) return;
  ChatTrial trial(options, input.settings[3] % 4 >= 2);
  std::string_view text = input.text;
  for (size_t i = 0; i < kMostMessages && !text.empty(); ++i) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (i == 0 && input.settings[3] % 2 != 0) {
      static_cast<void>(cria_chat_begin(trial.chat(), line.data(), line.size()));
    } else if (line.starts_with('+')) {
      trial.answer_again();
    } else if (line.starts_with('-')) {
      trial.take_back(static_cast<size_t>(std::count(line.begin(), line.end(), '-')));
    } else {
      static_cast<void>(trial.say(line));
    }
  }
  const std::vector<uint8_t> saved = trial.saved();
  expect(cria_chat_load(trial.chat(), saved.data(), saved.size()) == CRIA_OK,
         "a chat loads what it saved");
  expect(trial.saved() == saved, "a loaded conversation is the saved one");
  static_cast<void>(trial.say("and then?"));
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const HostileInput input = read_hostile_input(data, size);
  const std::string path = (memory_folder() / "model.cria").string();
  write_bytes(path, {reinterpret_cast<const char*>(input.file.data()),
                     static_cast<size_t>(input.source_bytes)});
  hosted::CommonOptions options = chat_options(path);
  options.context = input.config.context;
  options.kv_format = static_cast<cria_kv_format>(input.config.kv_format);
  if (input.access == test::Access::kRead) options.mapping = hosted::Mapping::kNever;
  try {
    chat(input, options);
  } catch (const hosted::ProgramError&) {
    // One line for the user: what a hostile file gets.
  }
  return 0;
}

}  // namespace cria::fuzz
