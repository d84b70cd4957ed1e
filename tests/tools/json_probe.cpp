// What runtime/json makes of schemas and documents, for tests that know it from elsewhere
// (tests/cli/json_schemas_test.py).
//
//   json_probe   reads lines of
//                  {"schema": HEX, "documents": [HEX...], "walks": N, "seed": N}
//                and writes a line of each:
//                  {"refused": KEYWORD, "reason": WHY, "offset": N}, or
//                  {"takes": [...], "walks": [...]}
//                of each document whether it is taken, and N documents made of random bytes among
//                those that can come, in hexadecimal; null for one that did not end.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/support/json_trial.h"

namespace {

using Json = nlohmann::json;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string to_hex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    hex += digits;
  }
  return hex;
}

Json answer(const Json& question) {
  const std::string schema = from_hex(question.at("schema"));
  cria::test::JsonTrial trial(schema);
  if (trial.status() != cria::Status::kOk) {
    const cria::json::Refusal& refusal = trial.refusal();
    return {{"refused", std::string(refusal.keyword)},
            {"reason", refusal.reason != nullptr ? refusal.reason : ""},
            {"offset", refusal.offset}};
  }
  Json takes = Json::array();
  for (const Json& document : question.value("documents", Json::array())) {
    takes.push_back(trial.takes(from_hex(document)));
  }
  Json walks = Json::array();
  std::mt19937 random(question.value("seed", 0U));
  for (int n = question.value("walks", 0); n > 0; --n) {
    const auto document = cria::test::random_document(&trial, &random);
    walks.push_back(document ? Json(to_hex(*document)) : Json(nullptr));
  }
  return {{"takes", takes}, {"walks", walks}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line)).dump(-1, ' ', true, Json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}
