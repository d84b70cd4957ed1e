// cria serve: the model for many, over HTTP.
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/metadata_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/serve/guard.h"
#include "platforms/hosted/serve/server.h"

namespace cria::hosted {
namespace {

void log_line(const std::string& line) {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  write_stderr(text_of("%04d-%02d-%02dT%02d:%02d:%02dZ ", utc.tm_year + 1900, utc.tm_mon + 1,
                       utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec) +
               printable(line) + "\n");
}

// Where nobody reads what it prints the log has it: the server starts all the same.
void tell(const std::string& line) {
  if (!has_room(STDOUT_FILENO)) return log_line(line);
  TextStream out(STDOUT_FILENO);
  out.put(line + "\n");
  out.flush();
}

// The template's own text, or the name of the form that the file keeps of it.
std::string chat_template_of(const CommonOptions& common) {
  ModelFile file(common.model_path, common.mapping);
  const cria_model_info& info = file.info();
  if (info.chat_template == 0) return {};
  const std::string text = read_metadata(file.copying_source(), info, file.path());
  const auto metadata = nlohmann::json::parse(text, nullptr, false);
  const auto found = metadata.is_object() ? metadata.find("chat_template_jinja") : metadata.end();
  if (metadata.is_object() && found != metadata.end() && found->is_string()) {
    return found->get<std::string>();
  }
  return cria_chat_template_name(info.chat_template);
}

std::vector<std::string> read_keys(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  if (path.empty()) return {};
  return keys_of(read_regular_file(path, kMostBytes, "give a file with one key a line"), path);
}

constexpr uint64_t kBytesOfMegabyte = 1000000;

}  // namespace

ExitCode run_command(const ServeOptions& options) {
  for (const std::string& origin : options.origins) {
    if (is_origin(origin)) continue;
    throw ProgramError(ExitCode::kUsage,
                       "--allow-origin " + shown(origin) +
                           " is not an origin; give one like https://chat.example");
  }
  write_stderr_in_background();
  return serve(options.common,
               {
                   .host = options.host,
                   .port = options.port,
                   .n_sessions = options.n_sessions,
                   .max_waiting = options.queue,
                   .has_metrics = options.metrics,
                   .alias = options.alias,
                   .chat_template = chat_template_of(options.common),
                   .origins = options.origins,
                   .keys = read_keys(options.api_key_file),
                   .prefix_folder = options.prefix_cache,
                   .prefix_bytes = options.prefix_cache_megabytes * kBytesOfMegabyte,
                   .usual = sampling_of(SamplingOptions()),
               },
               &tell, &log_line);
}

}  // namespace cria::hosted
