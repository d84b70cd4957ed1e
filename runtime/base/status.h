// Error codes inside the runtime: the public cria_status under a C++ name, and CRIA_TRY.
#pragma once

#include <cria.h>

namespace cria {

enum class Status : int {
  kOk = CRIA_OK,
  kInvalidArgument = CRIA_INVALID_ARGUMENT,
  kNotAModel = CRIA_NOT_A_MODEL,
  kUnsupportedVersion = CRIA_UNSUPPORTED_VERSION,
  kCorrupt = CRIA_CORRUPT,
  kTruncated = CRIA_TRUNCATED,
  kReadFailed = CRIA_READ_FAILED,
  kMemoryTooSmall = CRIA_MEMORY_TOO_SMALL,
  kMisaligned = CRIA_MISALIGNED,
  kUnsupported = CRIA_UNSUPPORTED,
  kNoTokenizer = CRIA_NO_TOKENIZER,
  kNoChatTemplate = CRIA_NO_CHAT_TEMPLATE,
  kTextTooLong = CRIA_TEXT_TOO_LONG,
  kBufferTooSmall = CRIA_BUFFER_TOO_SMALL,
  kContextFull = CRIA_CONTEXT_FULL,
  kNothingToSample = CRIA_NOTHING_TO_SAMPLE,
  kBadState = CRIA_BAD_STATE,
  kBackendFailed = CRIA_BACKEND_FAILED,
  kInvalidModel = CRIA_INVALID_MODEL,
  kNoWeights = CRIA_NO_WEIGHTS,
  kCancelled = CRIA_CANCELLED,
  kForgotten = CRIA_FORGOTTEN,
  kRefusedByTemplate = CRIA_REFUSED_BY_TEMPLATE,
};

[[nodiscard]] constexpr cria_status to_public(Status status) {
  return static_cast<cria_status>(status);
}

[[nodiscard]] constexpr Status from_public(cria_status status) {
  return static_cast<Status>(status);
}

// Returns from the enclosing function when an expression is not Status::kOk.
#define CRIA_TRY(expression)                                 \
  do {                                                       \
    if (const ::cria::Status cria_try_status = (expression); \
        cria_try_status != ::cria::Status::kOk) {            \
      return cria_try_status;                                \
    }                                                        \
  } while (false)

}  // namespace cria
