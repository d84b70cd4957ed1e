// The parts of an answer: text, thinking, calls of tools, as its model writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>
#include <cria_calls.h>
#include "platforms/hosted/session/aligned_bytes.h"

namespace cria::hosted {

// How the model of a file writes them.
struct CallWriting {
  std::string format;                                    // of cria_calls.h; empty: it is not known
  std::shared_ptr<const std::vector<uint32_t>> markers;  // special tokens in it, in order

  // Looks at every token of the vocabulary.
  static CallWriting of(const cria_model* model);
  [[nodiscard]] bool writes(uint32_t what) const {
    return (cria_calls_written(format.data(), format.size()) & what) != 0;
  }
};

struct AnswerPart {
  cria_calls_kind kind;
  std::string text;
  std::string id;  // of CRIA_CALLS_BEGIN: as the model wrote it
};

// What one answer is read with.
struct CallReading {
  std::shared_ptr<const CallWriting> writing;  // with a format
  std::string tools;                           // JSON, as cria_calls.h has it; empty: none
  std::string opened;                          // of the answer, by the prompt
  bool takes_calls;
};

class CallReader {
 public:
  // The reading outlives it. Throws std::invalid_argument where its tools cannot be read.
  explicit CallReader(const CallReading& reading, size_t hold_bytes = kHoldBytes);

  // What is told of the next piece. Texts of one kind that follow each other are one part.
  std::vector<AnswerPart> read(std::string_view text);
  // is_cut: the model had no more tokens.
  std::vector<AnswerPart> finish(bool is_cut);
  // After finish: whether the answer ended inside nothing.
  [[nodiscard]] bool is_complete() const { return ending_ == CRIA_CALLS_STOPPED; }

  // What one takes. Throws as the constructor.
  static size_t bytes_for(const CallReading& reading, size_t hold_bytes = kHoldBytes);

 private:
  // Longer calls are told as they come.
  static constexpr size_t kHoldBytes = size_t{4} << 10;
  static void tell(void* context, const cria_calls_event* event) noexcept;
  void add(const cria_calls_event& event);
  std::vector<AnswerPart> take_parts();

  AlignedBytes memory_;
  cria_calls* calls_ = nullptr;
  std::vector<AnswerPart> parts_;
  bool lacks_memory_ = false;
  cria_calls_ending ending_ = CRIA_CALLS_STOPPED;
};

}  // namespace cria::hosted
