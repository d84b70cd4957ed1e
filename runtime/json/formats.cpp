#include "runtime/json/formats.h"

#include <algorithm>
#include <iterator>

#include "runtime/json/number_range.h"

namespace cria::json {
namespace {

// Years 0001 to 9999. 29 February is one of leap years.
#define CRIA_YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define CRIA_FOURTH "(?:0[48]|[2468][048]|[13579][26])"
#define CRIA_DATE                                                       \
  "(?:" CRIA_YEAR                                                       \
  "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"                   \
  "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))" \
  "|(?:[0-9]{2}" CRIA_FOURTH "|" CRIA_FOURTH "00)-02-29)"
// RFC 3339's full-time, without leap seconds.
#define CRIA_CLOCK "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define CRIA_TIME CRIA_CLOCK ":[0-5][0-9](?:[.][0-9]{1,6})?(?:Z|[+-]" CRIA_CLOCK ")"
#define CRIA_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define CRIA_HEX "[0-9a-fA-F]"
// Groups of an IPv6 address; up to n + 1 of them after "::".
#define CRIA_GROUP CRIA_HEX "{1,4}"
#define CRIA_GROUPS(n) "(?:" CRIA_GROUP "(?::" CRIA_GROUP "){0," n "})?"
#define CRIA_LABEL "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,30}"

constexpr uint32_t kMostAddress = 254;  // of a mailbox, by RFC 5321

constexpr Format kTable[] = {
    {"date", "^" CRIA_DATE "$", 0},
    {"time", "^" CRIA_TIME "$", 0},
    {"date-time", "^" CRIA_DATE "T" CRIA_TIME "$", 0},
    // Of the versions and the variant that RFC 9562 has.
    {"uuid",
     "^" CRIA_HEX "{8}-" CRIA_HEX "{4}-[1-8]" CRIA_HEX "{3}-[89abAB]" CRIA_HEX "{3}-" CRIA_HEX
     "{12}$",
     0},
    {"email", "^[A-Za-z0-9_](?:[.]?[A-Za-z0-9_+-]){0,31}@(?:" CRIA_LABEL "[.])+[A-Za-z]{2,24}$",
     kMostAddress},
    {"ipv4", "^(?:" CRIA_OCTET "[.]){3}" CRIA_OCTET "$", 0},
    {"ipv6",
     "^(?:::" CRIA_GROUPS("6") "|" CRIA_GROUP "(?:::" CRIA_GROUPS(
         "5") "|:" CRIA_GROUP
              "(?:::" CRIA_GROUPS("4") "|:" CRIA_GROUP "(?:::" CRIA_GROUPS(
                  "3") "|:" CRIA_GROUP
                       "(?:::" CRIA_GROUPS("2") "|:" CRIA_GROUP "(?:::" CRIA_GROUPS(
                           "1") "|:" CRIA_GROUP "(?:::" CRIA_GROUPS("0") "|:" CRIA_GROUP
                                                                         "(?:::|:" CRIA_GROUP
                                                                         "))))))))$",
     0}};
static_assert(std::size(kTable) == kFormats);

constexpr NumberFormat kNumberTable[] = {{"int8", 0x80, 0x7f, true, false},
                                         {"int16", 0x8000, 0x7fff, true, false},
                                         {"int32", 0x80000000, 0x7fffffff, true, false},
                                         {"int64", kDigitsLimit, kDigitsLimit, true, false},
                                         {"uint8", 0, 0xff, true, false},
                                         {"uint16", 0, 0xffff, true, false},
                                         {"uint32", 0, 0xffffffff, true, false},
                                         {"uint64", 0, kDigitsLimit, true, false},
                                         {"float", kDigitsLimit, kDigitsLimit, false, true},
                                         {"double", kDigitsLimit, kDigitsLimit, false, false}};

}  // namespace

uint32_t find_format(std::string_view name) {
  uint32_t i = 0;
  while (i < kFormats && kTable[i].name != name) ++i;
  return i;
}

const NumberFormat* find_number_format(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kNumberTable), std::end(kNumberTable),
                                         [&](const NumberFormat& f) { return f.name == name; });
  return found == std::end(kNumberTable) ? nullptr : found;
}

const Format& format_at(uint32_t i) { return kTable[i]; }

}  // namespace cria::json
