// A model served until somebody ends it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/serve/guard.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

struct ServerOptions {
  std::string host;
  uint16_t port;
  uint32_t n_sessions;  // 0: four, or what fits
  uint32_t max_waiting;
  bool has_metrics;
  std::string alias;          // of the model; empty: its file's name
  std::string chat_template;  // its own text where the file has it
  std::vector<std::string> origins;
  std::vector<std::string> keys;
  std::string prefix_folder;  // states of prefixes; empty: none are kept
  uint64_t prefix_bytes;      // of all of them
  cria_sampling usual;        // where a request says nothing
};

// Says what it takes and where it listens through tell, a line each; then serves until SIGINT or
// SIGTERM. Throws ProgramError.
ExitCode serve(const CommonOptions& common, const ServerOptions& options,
               void (*tell)(const std::string& line), void (*log)(const std::string& line));

}  // namespace cria::hosted
