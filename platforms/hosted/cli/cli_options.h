// What the command line asks for, one struct a command (cria bench has its own in
// platforms/hosted/bench/bench_options.h). platforms/hosted/cli/command_line.h fills them;
// docs/command_line.md describes them for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "platforms/hosted/bench/bench_options.h"
#include "platforms/hosted/session/session_options.h"

namespace cria::hosted {

struct SamplingOptions {
  float temperature = 0.8f;
  float top_p = 0.95f;
  float min_p = 0.05f;
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  uint32_t top_k = 40;
  std::optional<uint64_t> seed;        // none: from the system's random source
  std::optional<uint32_t> max_tokens;  // none: no limit of its own
  bool greedy = false;
};

// What becomes of text between <think> and </think>.
enum class Thinking { kDim, kHide, kPlain };

// Whether the model thinks, where its template has a switch for it, and what becomes of that.
struct ThinkingChoice {
  cria_thinking wanted = CRIA_THINKING_DEFAULT;
  Thinking shown = Thinking::kDim;
};

struct InfoOptions {
  CommonOptions common;
  bool json = false;
  uint32_t n_sessions = 1;
};

struct VerifyOptions {
  std::string model_path;
};

// What a model is told of tools, and may do with them.
struct ToolOptions {
  std::string tools;            // a file; empty: none
  std::string choice = "auto";  // or "none", "required", a tool's name
};

struct RunOptions {
  CommonOptions common;
  SamplingOptions sampling;
  ToolOptions tools;                  // the prompt is a question then
  std::optional<std::string> prompt;  // "-": standard input
  std::vector<uint32_t> ids;          // instead of a prompt
  std::string prompt_cache;           // a file; empty: none
  bool echo = true;
  bool parse_special = false;
  bool ignore_end = false;
  bool json = false;                       // the answer is a JSON document
  std::optional<std::string> json_schema;  // ... of this schema: a file, "-": standard input
};

struct ChatOptions {
  CommonOptions common;
  SamplingOptions sampling;
  std::string system;  // empty: none
  bool exact_context = false;
  bool history = true;
  ThinkingChoice thinking;
  ToolOptions tools;
  std::string date;          // that the template names; empty: its own
  std::string prompt_cache;  // of the system text: a file; empty: none
};

struct TokenizeOptions {
  CommonOptions common;
  std::string input = "-";
  bool is_chat = false;  // input is a conversation
  bool closed = false;
  std::string tools;          // of the conversation: a file; empty: none beside its own
  std::string template_args;  // JSON; empty: none
  std::string date;
  bool add_special = false;
  bool parse_special = false;
};

struct CallsOptions {
  CommonOptions common;
  std::string input = "-";  // an answer
  std::string tools;        // a file; empty: none
  std::string opened;       // what the prompt opened of the answer
};

struct LogitsOptions {
  CommonOptions common;
  std::vector<uint32_t> ids;
  std::optional<std::string> text;
  std::string output;
};

struct EmbedOptions {
  CommonOptions common;
  std::string input = "-";          // a file; "-": standard input
  std::optional<std::string> text;  // instead of it: one text
  uint32_t dimensions = 0;          // 0: all of the model's
  bool whole = false;               // the input is one text, not one a line
};

inline constexpr const char* kDocumentsName = "documents";
inline constexpr const char* kHalvesName = "halves";

struct EvalOptions {
  CommonOptions common;
  std::string text_path;  // one of both
  std::string ids_path;
  std::string protocol = kDocumentsName;
  std::string reference_path;  // empty: none
  std::optional<cria_kv_format> reference_kv_format;
  bool json = false;
};

struct ServeOptions {
  CommonOptions common;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;      // 0: any free one
  uint32_t n_sessions = 0;   // 0: four, or what fits
  uint32_t queue = 16;       // requests that wait for a session
  std::string api_key_file;  // empty: nobody needs a key
  std::vector<std::string> origins;
  std::string alias;  // what the model is called; empty: its file's name
  bool metrics = false;
  std::string prefix_cache;  // a folder; empty: none
  uint32_t prefix_cache_megabytes = 4000;
};

using Command =
    std::variant<InfoOptions, VerifyOptions, RunOptions, ChatOptions, BenchOptions, TokenizeOptions,
                 CallsOptions, LogitsOptions, EmbedOptions, EvalOptions, ServeOptions>;

}  // namespace cria::hosted
