// The body of a request to the server, by anybody: read, or refused with an error of the API. Each
// is taken for a chat, a text, llama.cpp's native form and texts to embed, for a tiny model. What
// reading it allocates is counted: a server reads for anybody.
#include <string>

#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/styles/native/native.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "tests/fuzz/request_trial.h"

namespace cria::fuzz {

constexpr std::initializer_list<int> kStatuses = {400, 413};

int fuzz_one(const uint8_t* data, size_t size) {
  static Served served(base_models()[0]);
  const std::string body(reinterpret_cast<const char*>(data), size);
  const auto refuses = [](const auto& read) { read_or_refuse(read, kStatuses); };
  refuses([&] {
    const hosted::ParsedJson parsed = hosted::parse_object(body);
    const Json& request = parsed.json;
    for (const auto& [name, value] : request.items()) {
      const std::optional<std::string_view> raw = hosted::raw_member(body, {name});
      expect(raw.has_value(), "what was parsed is found in the text");
      expect(Json::parse(*raw, nullptr, false) == value, "a member's text is its value");
    }
    const hosted::Fields fields(request);
    for (const char* name : {"a", "n", "seed", "stream", "temperature"}) {
      refuses([&] { (void)fields.integer(name, -1, 100); });
      refuses([&] { (void)fields.number(name, 0.0, 1.0); });
      refuses([&] { (void)fields.flag(name, false); });
      refuses([&] { (void)fields.text(name); });
    }
  });
  for (const auto order : {&hosted::chat_order, &hosted::text_order, &hosted::response_order,
                           &hosted::native_order, &hosted::embedding_order}) {
    read_order(served.context, order, body, kStatuses,
               [&](const hosted::AnswerOrder& read) { check_order(served.context, read); });
  }
  return 0;
}

}  // namespace cria::fuzz
