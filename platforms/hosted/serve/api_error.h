// Why a request cannot be answered, in the words of the API.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "platforms/hosted/serve/http_types.h"
#include "platforms/hosted/serve/wire_form.h"

namespace cria::hosted {

enum class ErrorKind {
  kInvalidRequest,
  kAuthentication,
  kPermission,
  kNotFound,
  kMethodNotAllowed,
  kTimeout,
  kLengthRequired,
  kTooLarge,
  kUnsupportedMedia,
  kContextSize,
  kTooMany,
  kHeaderTooLarge,
  kServer,
  kNotSupported,
  kUnavailable,
};

struct ContextSizes {
  uint64_t n_prompt_tokens;
  uint64_t n_ctx;
  const char* what_to_do;  // static text
};

// What is told of what there was no memory for.
inline constexpr const char* kOutOfMemory = "out of memory; try again";
// And of what failed otherwise.
inline constexpr const char* kServerFailed = "the server failed; its log says how";

class ApiError : public std::exception {
 public:
  ApiError(ErrorKind kind, std::string message, std::string param = {})
      : kind_(kind), message_(std::move(message)), param_(std::move(param)) {}
  // A prompt that the context has no room for.
  explicit ApiError(const ContextSizes& sizes);

  const char* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] int http_status() const;
  // {"error": {"message", "type", "param", "code"}}, or {"error": "message"}.
  [[nodiscard]] std::string json(WireForm form) const;
  // With an answer that may be had later, Retry-After.
  [[nodiscard]] Reply reply(WireForm form) const;

 private:
  ErrorKind kind_;
  std::string message_;
  std::string param_;  // the field that is to blame; empty: none
  std::optional<ContextSizes> sizes_;
};

}  // namespace cria::hosted
