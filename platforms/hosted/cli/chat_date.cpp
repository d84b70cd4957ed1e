#include "platforms/hosted/cli/chat_date.h"

#include <array>
#include <ctime>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::hosted {

void set_chat_date(const ModelSession& model, const std::string& day) {
  std::tm time = {};
  const char* const end = strptime(day.c_str(), "%Y-%m-%d", &time);
  constexpr size_t kDayBytes = 10;
  if (end == nullptr || *end != '\0' || day.size() != kDayBytes) {
    throw ProgramError(ExitCode::kUsage, "--date " + shown(day) + " is not a day; give YYYY-MM-DD");
  }
  const std::tm asked = time;
  if (timegm(&time) == -1 || time.tm_mday != asked.tm_mday) {
    throw ProgramError(ExitCode::kUsage,
                       "--date " + shown(day) + " is not in the calendar; give YYYY-MM-DD");
  }
  size_t n_bytes = 0;
  const char* const format = cria_chat_date_format(model.model(), &n_bytes);
  if (format == nullptr) {
    throw ProgramError(
        ExitCode::kInvalidInput,
        model.path() + ": the chat template has no date that can be changed; leave out --date");
  }
  std::array<char, 256> text = {};
  const size_t n =
      std::strftime(text.data(), text.size(), std::string(format, n_bytes).c_str(), &time);
  model.check(cria_set_chat_date(model.workspace(), text.data(), n));
}

}  // namespace cria::hosted
