// Hostile JSON, as the converter reads it from checkpoints.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "converter/error.h"
#include "converter/json_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
namespace {

// NaN or an infinity, which Python writes and JSON has not.
bool has_python_number(const converter::Json& json) {
  if (json.is_number_float()) return !std::isfinite(json.get<double>());
  if (!json.is_structured()) return false;
  return std::any_of(json.begin(), json.end(), has_python_number);
}

}  // namespace

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
  if (has_python_number(json)) {
    expect(text.find("NaN") != text.npos || text.find("Infinity") != text.npos,
           "a number that is no JSON stands in the text");
    return 0;
  }
  const converter::Json other = converter::Json::parse(text.begin(), text.end(), nullptr, false);
  expect(!other.is_discarded() && other == json, "what is taken is the text's value");
  const std::string written = json.dump();
  expect(converter::parse_json(written, "input", converter::kMaxJsonValues) == json,
         "written out, a value is read again");
  return 0;
}

}  // namespace cria::fuzz
