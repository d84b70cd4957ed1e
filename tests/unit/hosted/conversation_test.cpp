#include "platforms/hosted/conversation.h"

#include <gtest/gtest.h>

#include <string>

namespace cria::hosted {
namespace {

// "S:be kind U:one A:two ..." of a view.
std::string shown(Conversation* conversation, size_t n_left_out) {
  std::string text;
  for (const cria_message& message : conversation->view(n_left_out)) {
    text += "SUA"[message.role];
    text += ':';
    text.append(message.text, message.n_bytes);
    text += ' ';
  }
  return text;
}

Conversation two_exchanges() {
  Conversation conversation(64, 8);
  conversation.add(CRIA_SYSTEM, "be kind");
  conversation.add(CRIA_USER, "one");
  conversation.add(CRIA_ASSISTANT, "two");
  conversation.add(CRIA_USER, "three");
  conversation.add(CRIA_ASSISTANT, "");
  conversation.append_to_last("four");
  return conversation;
}

TEST(Conversation, ViewsAllMessagesInOrder) {
  Conversation conversation = two_exchanges();
  EXPECT_EQ(shown(&conversation, 0), "S:be kind U:one A:two U:three A:four ");
  EXPECT_EQ(conversation.n_exchanges(), 2u);
}

TEST(Conversation, ViewLeavesOldestExchangesOutButNotTheSystemMessage) {
  Conversation conversation = two_exchanges();
  EXPECT_EQ(shown(&conversation, 1), "S:be kind U:three A:four ");
  EXPECT_EQ(shown(&conversation, 2), "S:be kind ");
  EXPECT_EQ(shown(&conversation, 3), "S:be kind ");
}

TEST(Conversation, DroppingRemovesTheText) {
  Conversation conversation = two_exchanges();
  conversation.drop_oldest(1);
  EXPECT_EQ(shown(&conversation, 0), "S:be kind U:three A:four ");
  EXPECT_EQ(conversation.text(), "be kindthreefour");
  conversation.drop_last();
  EXPECT_EQ(shown(&conversation, 0), "S:be kind U:three ");
}

TEST(Conversation, WorksWithoutASystemMessage) {
  Conversation conversation(0, 0);
  EXPECT_EQ(shown(&conversation, 0), "");
  conversation.add(CRIA_USER, "a");
  conversation.add(CRIA_ASSISTANT, "b");
  conversation.add(CRIA_USER, "c");
  EXPECT_EQ(shown(&conversation, 1), "U:c ");
  conversation.drop_oldest(1);
  EXPECT_EQ(shown(&conversation, 0), "U:c ");
  conversation.drop_oldest(0);
  EXPECT_EQ(shown(&conversation, 0), "U:c ");
}

}  // namespace
}  // namespace cria::hosted
