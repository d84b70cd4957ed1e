#include "platforms/hosted/serve/styles/ollama/rfc3339.h"

#include <chrono>
#include <cmath>

#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {

std::string rfc3339(int64_t unix_ns) {
  using std::chrono::days;
  using std::chrono::floor;
  using std::chrono::nanoseconds;
  using std::chrono::sys_time;
  const sys_time<nanoseconds> time{nanoseconds(unix_ns)};
  const std::chrono::sys_days day = floor<days>(time);
  const std::chrono::year_month_day date = day;
  const std::chrono::hh_mm_ss clock(time - day);
  return text_of(
      "%04d-%02u-%02uT%02ld:%02ld:%02ld.%09ldZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<long>(clock.hours().count()), static_cast<long>(clock.minutes().count()),
      static_cast<long>(clock.seconds().count()), static_cast<long>(clock.subseconds().count()));
}

int64_t ns_of(double seconds) {
  constexpr double kNsOfSecond = 1e9;
  return std::llround(seconds * kNsOfSecond);
}

}  // namespace cria::hosted
