// A question to a cria_chat: what has to be read for it, and how it is taken back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/chat/chat.h"

namespace cria {

// The step that reads what was planned.
void give_entry(cria_chat* c, cria_batch_entry* entry);

// Whether what was planned has been read.
[[nodiscard]] bool is_plan_read(const cria_chat& c);

// What was planned and read is what the context holds by right.
void commit_plan(cria_chat* c);

// The messages are those before the question was asked.
void take_question_back(cria_chat* c);

struct Question {
  const char* text;  // null: the newest question is asked anew
  size_t n_bytes;
  bool is_instead;  // of the newest question, which makes way
  uint32_t max_tokens;
};

// Makes a question the newest message, and plans what is to be read. On an error everything is as
// it was, but for exchanges that had to leave.
Status ask_question(cria_chat* c, cria_workspace* w, const Question& question,
                    cria_batch_entry* entry);

}  // namespace cria
