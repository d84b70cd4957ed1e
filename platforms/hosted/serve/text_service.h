// Tokens and texts of the model that is served, in workspaces of its own, so that the engine's is
// never waited for. From any thread: short texts have a workspace of their own, so that they do not
// wait for long ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/chat/conversation.h"
#include "platforms/hosted/session/answer_parts.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/tool_rounds.h"

namespace cria::hosted {

// Of a text that is too long for any context tokens are only counted, in parts.
struct Encoded {
  std::vector<uint32_t> tokens;  // empty where is_counted
  uint64_t n_tokens;
  bool is_counted;
};

// Members of a request that its conversation comes from.
struct ConversationMembers {
  const char* messages = "messages";
  const char* tools = "tools";
};

// Throws ApiError where so much is written of the tokens of a request, whose ids may be shorter.
void check_token_bytes(size_t n_bytes);

class TextService {
 public:
  explicit TextService(const ModelSession& model);

  // What workspaces for texts take, of a model with this configuration.
  static uint64_t bytes_for(const ModelFile& file, cria_config config);

  // That it took.
  [[nodiscard]] uint64_t n_bytes() const;

  [[nodiscard]] bool has_tokenizer() const { return model_.info().has_tokenizer != 0; }
  [[nodiscard]] bool has_chat() const {
    return has_tokenizer() && model_.info().chat_template != 0 && !is_for_embeddings();
  }

  // How the model writes calls and thinking; and whether its template takes rounds of calls and
  // their results (session/tool_rounds.h), also of several at once.
  [[nodiscard]] const std::shared_ptr<const CallWriting>& writing() const { return writing_; }
  [[nodiscard]] bool calls_tools() const { return rounds_.are_taken; }
  [[nodiscard]] bool calls_several() const { return rounds_.of_several; }
  [[nodiscard]] bool thinks() const { return writing_->writes(CRIA_WRITES_THINKING); }

  // Such a model was not trained to answer.
  [[nodiscard]] bool is_for_embeddings() const { return model_.info().pooling != 0; }

  // Of the longest that encode gives tokens of.
  [[nodiscard]] size_t max_text_bytes() const { return max_text_bytes_; }

  // Of all texts of one request together.
  [[nodiscard]] size_t max_request_bytes() const {
    return std::max(max_text_bytes_, kLeastRequestBytes);
  }

  // Flags of cria_encode. A BOS that the text writes out is not doubled. Throws ApiError.
  Encoded encode(std::string_view text, uint32_t flags);
  // Gives calls and results what the template asks for. Throws as encode_chat.
  void complete(Conversation* conversation, const ConversationMembers& members);
  // Of a conversation and the opening of the assistant's turn. Throws ApiError with the template's
  // reason, naming the member that is to blame.
  Encoded encode_chat(const Conversation& conversation, const ConversationMembers& members);
  // Tokens of a conversation that encode_chat takes and of all that go on from it; 0: unknown.
  uint32_t n_lasting(const Conversation& conversation, const std::vector<uint32_t>& tokens);
  // What the template has opened of the answer to a conversation that encode_chat takes: the end
  // of this.
  std::string opening(const Conversation& conversation);
  // Throws ApiError for a prompt that was only counted, or that has no room in the context.
  [[noreturn]] void refuse_length(uint64_t n_tokens) const;
  // The text of a conversation, whose tokens, with special ones read, are those of encode_chat; but
  // for messages that spell one out. Throws ApiError where the tokenizer has no such text.
  std::string chat_text(const Conversation& conversation, const ConversationMembers& members);

  // The text of tokens, special ones written out; as the beginning of a text there is no space
  // before its first word.
  [[nodiscard]] std::string decode(const std::vector<uint32_t>& tokens, bool begins) const;
  // One token's text; what is no whole character as U+FFFD.
  [[nodiscard]] std::string token_text(uint32_t token) const;
  [[nodiscard]] std::string token_bytes(uint32_t token) const;

 private:
  static constexpr size_t kLeastRequestBytes = size_t{1} << 20;
  // For texts of up to so many bytes; one thread at a time.
  struct Place {
    explicit Place(size_t most) : max_bytes(most) {}
    const size_t max_bytes;
    std::optional<ArenaMemory> memory;
    cria_workspace* workspace = nullptr;
    std::mutex mutex;
  };
  void make(Place* place);
  // As long_ writes it.
  using WriteText = decltype(&cria_chat_text);
  std::string text_by(WriteText write, const Conversation& conversation);
  Place& place_for(uint64_t n_bytes) { return n_bytes <= short_.max_bytes ? short_ : long_; }
  uint64_t count(std::string_view text, uint32_t flags);
  void need_tokenizer() const;

  const ModelSession& model_;
  size_t max_text_bytes_;
  Place short_;
  Place long_;
  std::shared_ptr<const CallWriting> writing_;
  ToolRounds rounds_;
};

}  // namespace cria::hosted
