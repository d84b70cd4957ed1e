#include "platforms/hosted/serve/logprobs_json.h"

#include <algorithm>
#include <utility>

namespace cria::hosted {
namespace {

constexpr float kLeastLogprob = -9999.0f;  // JSON has no infinity

JsonText list_of_bytes(const std::string& text) {
  return JsonText::array(text, [](char c) { return static_cast<unsigned char>(c); });
}

}  // namespace

// One that is no number, of a model whose logits are none, is told as the least.
float told_logprob(float logprob) {
  return logprob > kLeastLogprob ? std::min(logprob, 0.0f) : kLeastLogprob;
}

JsonText logprobs_of(const TextService& text, const DrawnToken& drawn) {
  const auto row_of = [&text](uint32_t token, float logprob) {
    return JsonText::object({{"id", token},
                             {"token", text.token_text(token)},
                             {"bytes", list_of_bytes(text.token_bytes(token))},
                             {"logprob", told_logprob(logprob)}});
  };
  JsonText row = row_of(drawn.token, drawn.logprob);
  row.put("top_logprobs", JsonText::array(drawn.top, [&](const TokenLogprob& top) {
            return row_of(top.token, top.logprob);
          }));
  return row;
}

JsonText logprobs_of(const TextService& text, const std::vector<DrawnToken>& tokens) {
  return JsonText::array(tokens,
                         [&text](const DrawnToken& drawn) { return logprobs_of(text, drawn); });
}

// Of tokens with the same text the first counts, which is the likeliest.
JsonText top_of(const TextService& text, const DrawnToken& drawn) {
  JsonText top = JsonText::object();
  std::vector<std::string> names;
  for (const TokenLogprob& each : drawn.top) {
    std::string name = text.token_text(each.token);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    top.put(name, told_logprob(each.logprob));
    names.push_back(std::move(name));
  }
  return top;
}

}  // namespace cria::hosted
