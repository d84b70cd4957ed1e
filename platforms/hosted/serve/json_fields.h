// The JSON of requests: bounded before it is read, and its members by name and kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cria::hosted {

using Json = nlohmann::json;

// Every member that a request's own object can have; parse_object drops all others.
inline constexpr auto kRequestMembers = std::to_array<std::string_view>({
    "add_special",
    "audio",
    "background",
    "chat_template_kwargs",
    "content",
    "context",
    "conversation",
    "dimensions",
    "echo",
    "encoding_format",
    "format",
    "frequency_penalty",
    "function_call",
    "functions",
    "grammar",
    "ignore_eos",
    "image_data",
    "images",
    "input",
    "instructions",
    "json_schema",
    "keep_alive",
    "logit_bias",
    "logprobs",
    "lora",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "model",
    "n",
    "n_predict",
    "n_probs",
    "name",
    "options",
    "parallel_tool_calls",
    "parse_special",
    "presence_penalty",
    "previous_response_id",
    "prompt",
    "raw",
    "reasoning",
    "reasoning_effort",
    "repeat_penalty",
    "response_fields",
    "response_format",
    "return_tokens",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "suffix",
    "system",
    "temperature",
    "template",
    "text",
    "think",
    "timings_per_token",
    "tokens",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "truncate",
    "with_pieces",
});

constexpr bool is_request_member(std::string_view name) {
  return std::find(kRequestMembers.begin(), kRequestMembers.end(), name) != kRequestMembers.end();
}

// The name of a member that a request's own object can have. One that is not in the list does not
// compile: parse_object would drop it.
class MemberName {
 public:
  consteval MemberName(const char* name) : name_(name) {
    if (!is_request_member(name)) throw "add it to kRequestMembers";
  }
  constexpr operator const char*() const { return name_; }

 private:
  const char* name_;
};

// Members of an object. One that is null is one that is not there. Each throws ApiError, naming the
// member, for a value of another kind or out of range.
template <typename Name>
class BasicFields {
 public:
  explicit BasicFields(const Json& object) : object_(object) {}

  // Null: there is none.
  [[nodiscard]] const Json* find(Name name) const;
  [[nodiscard]] bool flag(Name name, bool usual) const;
  [[nodiscard]] std::optional<std::string> text(Name name) const;
  [[nodiscard]] std::optional<double> number(Name name, double low, double high) const;
  [[nodiscard]] std::optional<int64_t> integer(Name name, int64_t low, int64_t high) const;
  [[nodiscard]] const Json* list(Name name) const;
  [[nodiscard]] const Json* object(Name name) const;

 private:
  const Json& object_;
};

using RequestFields = BasicFields<MemberName>;  // of what parse_object gave
using Fields = BasicFields<const char*>;        // of an object inside it

// Also of 8.0, as some programs write 8; nothing where it is none, or none of 64 bits with a sign.
std::optional<int64_t> whole_number(const Json& json);

// Throws ApiError where the texts in json have more than so many bytes; param names the member.
void check_text_bytes(const Json& json, size_t most, const char* param);

// Throws ApiError unless json is a token id below vocab_size; param names the member.
uint32_t token_id(const Json& json, uint32_t vocab_size, const char* param);

}  // namespace cria::hosted
