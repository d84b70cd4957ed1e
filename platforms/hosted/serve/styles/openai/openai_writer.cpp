#include "platforms/hosted/serve/styles/openai/openai_writer.h"

#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/random_bits.h"

namespace cria::hosted {
namespace {

// What answers say computed them.
const char* system_fingerprint() {
  static const std::string text = std::string("build-cria-") + cria_version();
  return text.c_str();
}

}  // namespace

OpenAiWriter::OpenAiWriter(AnswerOrder order, const TextService* text, const Names& names)
    : AnswerWriter(std::move(order), text),
      names_(names),
      id_(names.id_prefix + text_of("%016llx%08x", static_cast<unsigned long long>(random_bits()),
                                    static_cast<unsigned>(random_bits()))),
      created_(unix_seconds()) {}

JsonText OpenAiWriter::head(const char* object) const {
  return JsonText::object({{"id", id_},
                           {"object", object},
                           {"created", created_},
                           {"model", order_.model},
                           {"system_fingerprint", system_fingerprint()}});
}

JsonText OpenAiWriter::chunk_of(const JsonText& choice) const {
  JsonText json = head(names_.chunk);
  json.put("choices", JsonText::array_of(choice));
  return json;
}

JsonText OpenAiWriter::counted_head(const char* object) const {
  const Sums all = sums();
  JsonText json = head(object);
  json.put("usage", JsonText::object({{"prompt_tokens", all.n_prompt},
                                      {"completion_tokens", all.n_made},
                                      {"total_tokens", all.n_prompt + all.n_made},
                                      {"prompt_tokens_details",
                                       JsonText::object({{"cached_tokens", all.n_cached}})}}));
  json.put("timings", timings_of(choices_[0].summary));
  return json;
}

std::string OpenAiWriter::closing() {
  std::string events;
  if (order_.includes_usage) {
    JsonText json = counted_head(names_.chunk);
    json.put("choices", JsonText::array());
    events = event_of(json);
  }
  return events + framed(order_.form, "[DONE]");
}

void OpenAiWriter::put_first() {
  put_open(counted_head(names_.object));
  put("\"choices\":[");
}

}  // namespace cria::hosted
