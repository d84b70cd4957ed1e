// How a style of the API tells errors and streams.
#pragma once

#include <string>

namespace cria::hosted {

enum class WireForm {
  kEvents,  // {"error": {"message", ...}}; server-sent events, with comments between them
  kLines,   // Ollama's: {"error": "message"}; an object a line
};

// One object of a stream.
inline std::string framed(WireForm form, const std::string& json) {
  return form == WireForm::kEvents ? "data: " + json + "\n\n" : json + "\n";
}

// Of a stream.
inline const char* content_type_of(WireForm form) {
  return form == WireForm::kEvents ? "text/event-stream; charset=utf-8" : "application/x-ndjson";
}

}  // namespace cria::hosted
