// The model was put into memory by someone else; the command line says "model ADDRESS BYTES". On a
// product these two numbers stand in a partition table.
#include "platforms/cortex_m/console.h"
#include "platforms/cortex_m/model_bytes.h"
#include "platforms/cortex_m/semihosting.h"

namespace cria::cortex_m {

std::span<const uint8_t> model_bytes() {
  static char line[1024];  // the image's path comes first
  read_command_line(line, sizeof line);
  std::string_view words = line;
  while (!words.empty()) {
    if (take_word(&words) != "model") continue;
    const auto address = static_cast<uintptr_t>(number_of(take_word(&words)));
    const auto n_bytes = static_cast<size_t>(number_of(take_word(&words)));
    return {reinterpret_cast<const uint8_t*>(address), n_bytes};
  }
  fail("the command line names no model: model ADDRESS BYTES");
}

}  // namespace cria::cortex_m
