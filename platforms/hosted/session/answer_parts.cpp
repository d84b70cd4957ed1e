#include "platforms/hosted/session/answer_parts.h"

#include <new>
#include <stdexcept>
#include <utility>

namespace cria::hosted {
namespace {

void check(cria_status status) {
  if (status != CRIA_OK) throw std::invalid_argument(cria_status_message(status));
}

bool is_piece(cria_calls_kind kind) {
  return kind == CRIA_CALLS_TEXT || kind == CRIA_CALLS_THINKING || kind == CRIA_CALLS_ARGUMENTS;
}

}  // namespace

CallWriting CallWriting::of(const cria_model* model) {
  CallWriting writing;
  size_t n_bytes = 0;
  if (const void* const format = cria_call_format(model, &n_bytes)) {
    writing.format.assign(static_cast<const char*>(format), n_bytes);
  }
  std::vector<uint32_t> markers;
  for (uint32_t token = 0; !writing.format.empty() && token < cria_vocab_size(model); ++token) {
    if (cria_token_is_special(model, token) == 0) continue;
    size_t n = 0;
    const char* const text = cria_token_text(model, token, &n);
    if (n > 1 && writing.format.find(std::string_view(text, n)) != std::string::npos) {
      markers.push_back(token);
    }
  }
  writing.markers = std::make_shared<const std::vector<uint32_t>>(std::move(markers));
  return writing;
}

size_t CallReader::bytes_for(const CallReading& reading, size_t hold_bytes) {
  const std::string& format = reading.writing->format;
  size_t n_bytes = 0;
  check(cria_calls_required(format.data(), format.size(), reading.tools.data(),
                            reading.tools.size(), hold_bytes, &n_bytes));
  return n_bytes;
}

CallReader::CallReader(const CallReading& reading, size_t hold_bytes) {
  const size_t n_bytes = bytes_for(reading, hold_bytes);
  memory_ = aligned_bytes(n_bytes);
  const std::string& format = reading.writing->format;
  check(cria_calls_make(memory_.get(), n_bytes, format.data(), format.size(), reading.tools.data(),
                        reading.tools.size(), hold_bytes, &calls_));
  cria_calls_take(calls_, reading.takes_calls ? 1 : 0);
  check(cria_calls_begin(calls_, reading.opened.data(), reading.opened.size()));
}

// Nothing is thrown through the runtime.
void CallReader::tell(void* context, const cria_calls_event* event) noexcept {
  CallReader& reader = *static_cast<CallReader*>(context);
  try {
    reader.add(*event);
  } catch (const std::bad_alloc&) {
    reader.lacks_memory_ = true;
  }
}

void CallReader::add(const cria_calls_event& event) {
  const std::string_view text(event.text == nullptr ? "" : event.text, event.n_bytes);
  if (is_piece(event.kind) && !parts_.empty() && parts_.back().kind == event.kind) {
    parts_.back().text += text;
    return;
  }
  const std::string_view id(event.id == nullptr ? "" : event.id, event.n_id);
  parts_.push_back({event.kind, std::string(text), std::string(id)});
}

std::vector<AnswerPart> CallReader::read(std::string_view text) {
  check(cria_calls_read(calls_, text.data(), text.size(), &tell, this));
  return take_parts();
}

std::vector<AnswerPart> CallReader::finish(bool is_cut) {
  check(cria_calls_finish(calls_, is_cut ? CRIA_CALLS_CUT : CRIA_CALLS_STOPPED, &tell, this,
                          &ending_));
  return take_parts();
}

std::vector<AnswerPart> CallReader::take_parts() {
  if (lacks_memory_) throw std::bad_alloc();
  return std::exchange(parts_, {});
}

}  // namespace cria::hosted
