// A conversation in which the model may call tools: calls are printed, results are said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "platforms/hosted/chat/conversation.h"
#include "platforms/hosted/cli/cli_options.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/engine/json_schemas.h"
#include "platforms/hosted/session/answer_parts.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// What an answer may do with tools.
struct ToolChoice {
  cria_tool_choice choice = CRIA_TOOLS_AUTO;
  std::string name;   // of CRIA_TOOLS_NAMED
  std::string where;  // the file of the tools, for messages
};

class ToolTalk {
 public:
  // conversation is what was said so far, with its tools. Throws ProgramError kInvalidInput where
  // the model calls no tools, or its template does not take what calls came to.
  ToolTalk(const ModelSession& model, Conversation conversation, ToolChoice choice);

  // Longest text that a workspace encodes for it.
  static uint64_t text_bytes(const Conversation& conversation, uint32_t context);

  // Says a question, or where calls have no result yet, the result of the first of them.
  void say(const std::string& text);
  // Whether calls wait for results: there is nothing to answer yet.
  [[nodiscard]] bool waits() const { return n_open_ > 0; }
  // Takes back what was said last and could not be answered.
  void take_back() { conversation_.messages.pop_back(); }
  // Forgets what was said after the beginning.
  void reset();

  // Answers what was said last, and writes it: text as it comes, each call as a line of JSON,
  // {"name", "arguments"}; thinking is left out. Throws ProgramError where it cannot be asked.
  // Of a call that is cut what came of it is written as the model wrote it.
  Generation answer(const cria_sampling& sampling, uint32_t max_tokens, TextStream* out);
  // Whether the newest answer ended inside a call, or before one that must come.
  [[nodiscard]] bool is_cut() const { return is_cut_; }

 private:
  void read_prompt(const std::vector<uint32_t>& tokens) const;

  const ModelSession& model_;
  const JsonSchemas schemas_;
  const std::shared_ptr<const CallWriting> writing_;
  const Conversation beginning_;
  const ToolChoice choice_;
  Conversation conversation_;
  bool takes_several_ = false;  // calls in one answer
  bool is_cut_ = false;
  size_t n_open_ = 0;  // calls of the last answer without a result
};

}  // namespace cria::hosted
