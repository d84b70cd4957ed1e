// A compiled schema driven byte by byte, a reading of schemas that knows nothing of the runtime's,
// and schemas made up at random: what tests of runtime/json share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/json/automaton.h"
#include "tests/support/test_session.h"

namespace cria::test {

class JsonTrial {
 public:
  // Compiles; status() says how that went. Null: any JSON value.
  explicit JsonTrial(const char* schema, size_t n_bytes);
  explicit JsonTrial(const std::string& schema) : JsonTrial(schema.data(), schema.size()) {}

  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] const json::Refusal& refusal() const { return refusal_; }
  [[nodiscard]] const json::Schema& schema() const { return schema_; }

  void begin();
  // Whether the byte can come next, and then it has.
  bool step(char byte);
  [[nodiscard]] bool can_step(char byte);
  [[nodiscard]] bool may_end() const;
  [[nodiscard]] uint32_t n_readings() const { return n_readings_; }

  // The whole text is a document.
  [[nodiscard]] bool takes(std::string_view document);
  // The text can become one.
  [[nodiscard]] bool takes_beginning(std::string_view text);

 private:
  json::Walk walk();

  AlignedMemory memory_;
  json::Schema schema_ = {};
  json::Refusal refusal_ = {};
  Status status_ = Status::kOk;
  std::vector<json::Reading> room_;
  std::vector<json::Frame> frame_room_;
  json::Reading readings_[json::kMostReadings];
  json::Frame frames_[json::kMostFrames];
  uint32_t n_readings_ = 0;
  uint32_t n_frames_ = 0;
};

// A document of random bytes among those that can come; empty where the automaton left none.
// Nothing when it got too long: chance seldom ends what waits for one character.
[[nodiscard]] std::optional<std::string> random_document(JsonTrial* trial, std::mt19937* random);

// Parses and refuses names that stand twice; discarded when it is no JSON.
[[nodiscard]] nlohmann::json parse_strictly(const std::string& text);

// Whether a value satisfies a schema, by the words of the specification.
[[nodiscard]] bool satisfies(const nlohmann::json& schema, const nlohmann::json& root,
                             const nlohmann::json& value);

[[nodiscard]] std::string random_schema(std::mt19937* random);

}  // namespace cria::test
