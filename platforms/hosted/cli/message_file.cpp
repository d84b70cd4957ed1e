#include "platforms/hosted/cli/message_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "platforms/hosted/base/json_source.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 8;
constexpr const char* kNoTools = "has tools, which the stored chat template does not know";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw ProgramError(ExitCode::kInvalidInput, where + ": " + what);
}

// How many lists and objects stand inside each other. Looked at before the text is parsed: a parser
// that is watched goes through a list again for each of its objects.
int depth_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

Json parse(const std::string& bytes, const std::string& where) {
  const auto [text, end_of_wrong] = json_source(bytes);
  if (depth_of(text) > kMaxDepth) refuse(where, "is nested too deep for a list of messages");
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || end_of_wrong != 0) {
    refuse(where, "is no JSON; give a list of {\"role\", \"content\"}");
  }
  return json;
}

std::string content_of(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(where, "its content is neither a text nor a list of parts");
  std::string text;
  for (const Json& part : content) {
    const auto type = part.is_object() ? part.find("type") : part.end();
    const auto value = part.is_object() ? part.find("text") : part.end();
    const bool is_text =
        type != part.end() && *type == "text" && value != part.end() && value->is_string();
    if (!is_text) refuse(where, "has a part that is no text");
    text += value->get<std::string>();
  }
  return text;
}

std::vector<cria_message> view_of(const std::vector<InputMessage>& messages) {
  std::vector<cria_message> view;
  view.reserve(messages.size());
  for (const InputMessage& m : messages) {
    view.push_back({m.role, m.content.data(), m.content.size()});
  }
  return view;
}

}  // namespace

std::vector<InputMessage> parse_messages(const std::string& json, const std::string& where) {
  const Json root = parse(json, where);
  const auto named = root.is_object() ? root.find("messages") : root.end();
  const Json& list = root.is_object() && named != root.end() ? *named : root;
  if (!list.is_array()) refuse(where, "is no list of messages");
  if (&list != &root && root.contains("tools")) refuse(where, kNoTools);
  if (list.size() > kMaxInputMessages) refuse(where, "has too many messages");
  std::vector<InputMessage> messages;
  for (const Json& entry : list) {
    const std::string place = where + ": message " + std::to_string(messages.size() + 1);
    if (!entry.is_object()) refuse(place, "is no object with role and content");
    for (const char* key : {"tool_calls", "tools"}) {
      if (const auto found = entry.find(key); found != entry.end() && !found->is_null()) {
        refuse(place, kNoTools);
      }
    }
    const auto role = entry.find("role");
    const auto content = entry.find("content");
    if (role == entry.end() || !role->is_string()) refuse(place, "has no role");
    if (content == entry.end()) refuse(place, "has no content");
    const std::string name = role->get<std::string>();
    const std::optional<cria_role> known = role_of(name);
    if (!known) {
      refuse(place, "has the role '" + shown(name) + "'; system, user and assistant are known");
    }
    messages.push_back({*known, content_of(*content, place)});
  }
  return messages;
}

uint64_t conversation_bytes(const cria_model_info& info,
                            const std::vector<InputMessage>& messages) {
  constexpr uint64_t kMore = 64;  // dates, and what a message takes beside its text
  uint64_t n_bytes = 2 * (info.chat_template_bytes + kMore);
  for (const InputMessage& m : messages) {
    n_bytes += m.content.size() + info.chat_template_bytes + kMore;
  }
  return n_bytes;
}

std::vector<uint32_t> encode_messages(const ModelSession& model,
                                      const std::vector<InputMessage>& messages,
                                      cria_chat_ending ending) {
  const std::vector<cria_message> view = view_of(messages);
  const cria_conversation conversation = conversation_of(view, ending);
  if (const char* reason = cria_chat_refusal(model.workspace(), &conversation)) {
    refuse(model.path(), std::string("the chat template ") + reason);
  }
  // Of U+2581 and U+FFFD, where a vocabulary has no token for what a space or an invalid byte is.
  constexpr size_t kTokensOfAByte = 3;
  const uint64_t most = kTokensOfAByte * conversation_bytes(model.info(), messages);
  std::vector<uint32_t> tokens(static_cast<size_t>(most));
  size_t n_tokens = 0;
  model.check(cria_encode_chat(model.workspace(), &conversation, 0, tokens.data(), tokens.size(),
                               &n_tokens));
  tokens.resize(n_tokens);
  return tokens;
}

}  // namespace cria::hosted
