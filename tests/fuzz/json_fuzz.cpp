// Hostile JSON, as the converter reads it from checkpoints.
#include <nlohmann/json.hpp>
#include <string>

#include "converter/error.h"
#include "converter/json_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  converter::Json json;
  try {
    const TimeLimit limit(size);
    json = converter::parse_json(text, "input", converter::kMaxJsonValues);
  } catch (const converter::ProgramError& error) {
    expect(error.code() == converter::ExitCode::kInvalidInput, "broken JSON is invalid input");
    return 0;
  }
  // The library parses the same text to the same value: only refusals are the converter's own.
  const converter::Json other = converter::Json::parse(text.begin(), text.end(), nullptr, false);
  expect(!other.is_discarded() && other == json, "what is taken is the text's value");
  const std::string written = json.dump();
  expect(converter::parse_json(written, "input", converter::kMaxJsonValues) == json,
         "written out, a value is read again");
  return 0;
}

}  // namespace cria::fuzz
