#include "platforms/hosted/cli/message_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "platforms/hosted/base/json_source.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/chat/chat_refusal.h"
#include "platforms/hosted/chat/conversation_json.h"
#include "platforms/hosted/chat/json_fault.h"
#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/cli/chat_date.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

// Of a list of messages: a schema of a tool, or arguments of a call, have 32 of their own.
constexpr int kMaxDepth = 48;

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

Json parse(const std::string& bytes, const std::string& where, const char* what) {
  const auto [text, end_of_wrong] = json_source(bytes);
  if (text.empty()) refuse(where, std::string("is empty; give ") + what);
  if (depth_of(text) > kMaxDepth) refuse(where, std::string("is nested too deep for ") + what);
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || end_of_wrong != 0) {
    refuse(where, "is not JSON: " + json_fault(bytes) + "; give " + what);
  }
  return json;
}

// Calls read, and throws what it throws with where in front.
template <typename Read>
void read_at(const std::string& where, const Read& read) {
  try {
    read();
  } catch (const ConversationError& error) {
    refuse(where, error.what());
  }
}

void read_list(const Json& list, std::string_view raw, const std::string& where,
               Conversation* conversation) {
  if (!list.is_array()) refuse(where, "is not a list of messages");
  if (list.size() > kMaxInputMessages) refuse(where, "has too many messages");
  read_at(where, [&] { read_messages(list, raw, conversation); });
}

uint64_t first_guess(const Conversation& conversation) {
  constexpr uint64_t kMore = 128;  // of what a template writes around a message
  uint64_t n_parts = conversation.messages.size() + conversation.tools.size() + 1;
  for (const ConversationMessage& m : conversation.messages) n_parts += m.calls.size();
  return bytes_of(conversation) + kMore * n_parts;
}

}  // namespace

Conversation parse_conversation(const std::string& json, const std::string& where) {
  const Json root = parse(json, where, "a list of {\"role\", \"content\"}");
  Conversation conversation;
  const auto messages = root.is_object() ? root.find("messages") : root.end();
  if (!root.is_object() || messages == root.end()) {
    read_list(root, json, where, &conversation);
    return conversation;
  }
  read_list(*messages, raw_path(json, "messages"), where, &conversation);
  read_at(where, [&] {
    read_tools(root.value("tools", Json()), raw_path(json, "tools"), &conversation);
    read_functions(root.value("functions", Json()), raw_path(json, "functions"), &conversation);
    read_template_args(root.value("chat_template_kwargs", Json()), &conversation);
  });
  return conversation;
}

void parse_tools(const std::string& json, const std::string& where, Conversation* conversation) {
  const Json list = parse(json, where, "a list of tools");
  conversation->tools.clear();
  read_at(where, [&] { read_tools(list, json, conversation); });
}

void parse_template_args(const std::string& json, const std::string& where,
                         Conversation* conversation) {
  const Json args = parse(json, where, "an object such as {\"enable_thinking\": false}");
  read_at(where, [&] { read_template_args(args, conversation); });
}

std::vector<uint32_t> encode_conversation(const CommonOptions& options, const std::string& date,
                                          Conversation conversation, cria_chat_ending ending) {
  // Of U+2581 and U+FFFD, where a vocabulary has no token for what a space or an invalid byte is.
  constexpr uint64_t kTokensOfAByte = 3;
  // How long a template makes the text is known when it is made.
  for (uint64_t most = first_guess(conversation);; most *= 2) {
    const ModelSession model(options, {.max_text_bytes = most, .text_only = true});
    if (!date.empty()) set_chat_date(model, date);
    if (const auto refusal = complete_for(model.workspace(), &conversation, ending)) {
      refuse(model.path(), refusal->text);
    }
    const ConversationView view(conversation, ending);
    std::vector<uint32_t> tokens(static_cast<size_t>(kTokensOfAByte * most));
    size_t n_tokens = 0;
    const cria_status status =
        cria_encode_chat(model.workspace(), view.get(), 0, tokens.data(), tokens.size(), &n_tokens);
    if (status == CRIA_TEXT_TOO_LONG || status == CRIA_BUFFER_TOO_SMALL) continue;
    model.check(status);
    tokens.resize(n_tokens);
    return tokens;
  }
}

std::vector<uint32_t> encode_question(const ModelSession& model, Conversation* conversation,
                                      std::string* opened) {
  if (const auto refusal = complete_for(model.workspace(), conversation, CRIA_TURN_OPENED)) {
    refuse(model.path(), refusal->text);
  }
  const ConversationView view(*conversation, CRIA_TURN_OPENED);
  const auto need_room = [&](cria_status status) {
    if (status != CRIA_TEXT_TOO_LONG && status != CRIA_BUFFER_TOO_SMALL) return model.check(status);
    refuse(model.path(), text_of("the conversation does not fit the context of %u tokens; %s",
                                 cria_context(model.session()), model.advice_on_length()));
  };
  size_t n_bytes = 0;
  (void)cria_chat_opening(model.workspace(), view.get(), nullptr, 0, &n_bytes);
  opened->resize(n_bytes);
  need_room(cria_chat_opening(model.workspace(), view.get(), opened->data(), n_bytes, &n_bytes));
  std::vector<uint32_t> tokens(cria_context(model.session()));
  size_t n_tokens = 0;
  need_room(
      cria_encode_chat(model.workspace(), view.get(), 0, tokens.data(), tokens.size(), &n_tokens));
  tokens.resize(n_tokens);
  return tokens;
}

}  // namespace cria::hosted
