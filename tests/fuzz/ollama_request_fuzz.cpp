// The body of a request in Ollama's words, by anybody: read, or refused with an error of the API.
// Each is taken for a chat and for a prompt, for a tiny model, whose name it may leave out.
#include <string>

#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "tests/fuzz/request_trial.h"

namespace cria::fuzz {

constexpr std::initializer_list<int> kStatuses = {400, 404, 413};

int fuzz_one(const uint8_t* data, size_t size) {
  static Served served(base_models()[0]);
  std::string body(reinterpret_cast<const char*>(data), size);
  const size_t open = body.find('{');
  const bool names_none = body.find("\"model\"") == std::string::npos;
  if (names_none && open != std::string::npos) {
    const size_t next = body.find_first_not_of(" \n\r\t", open + 1);
    const bool is_empty = next == std::string::npos || body[next] == '}';
    body.insert(open + 1, is_empty ? R"("model":"tiny")" : R"("model":"tiny",)");
  }
  for (const auto order : {&hosted::ollama_chat_order, &hosted::ollama_generate_order}) {
    read_order(served.context, order, body, kStatuses, [](const hosted::AnswerOrder& read) {
      if (!read.prompts.empty()) return check_order(served.context, read);
      const Json told = Json::parse(read.whole_answer, nullptr, false);
      expect(!told.is_discarded() && told["done"] == true, "an answer without a text is JSON");
    });
  }
  for (const auto order : {&hosted::ollama_embed_order, &hosted::ollama_embeddings_order}) {
    read_order(served.context, order, body, kStatuses, [](const hosted::AnswerOrder& read) {
      if (!read.prompts.empty()) return check_order(served.context, read);
      const Json told = Json::parse(read.whole_answer, nullptr, false);
      expect(told.contains("embeddings") || told.contains("embedding"), "and so is one of no text");
    });
  }
  return 0;
}

}  // namespace cria::fuzz
