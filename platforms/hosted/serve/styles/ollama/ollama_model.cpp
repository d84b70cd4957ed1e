#include "platforms/hosted/serve/styles/ollama/ollama_model.h"

#include <algorithm>
#include <limits>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/http_text.h"
#include "platforms/hosted/serve/styles/ollama/rfc3339.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kFileEnd = ".cria";

// Ollama names models by SHA-256. These digits only tell files apart: none is read for it.
std::string digest_of(const Service& service) {
  const cria_model_info& info = service.context.model.info();
  const auto number = [](auto value) { return static_cast<unsigned long long>(value); };
  return text_of("%016llx%016llx%016llx%016llx", number(service.modified_ns),
                 number(info.file_bytes), number(info.n_parameters), number(info.weight_bytes));
}

JsonText details_of(const OrderContext& context) {
  const cria_model_info& info = context.model.info();
  const JsonText family = cria_architecture_name(info.architecture);
  JsonText families = JsonText::array();
  families.push_back(family);
  return JsonText::object({{"parent_model", ""},
                           {"format", "cria"},
                           {"family", family},
                           {"families", families},
                           {"parameter_size", ollama_parameter_size(info.n_parameters)},
                           {"quantization_level", cria_number_format_name(info.weight_format)}});
}

JsonText capabilities_of(const OrderContext& context) {
  return JsonText::array(ollama_capabilities(context),
                         [](const char* capability) { return JsonText(capability); });
}

// The defaults, a line each, as a Modelfile has them.
std::string parameters_of(const OrderContext& context) {
  const cria_sampling& s = context.usual;
  const auto number = [](float value) { return JsonText(value).take(); };
  return "num_ctx " + std::to_string(cria_context(context.model.session())) + "\ntemperature " +
         number(s.temperature) + "\ntop_k " + std::to_string(s.top_k) + "\ntop_p " +
         number(s.top_p) + "\nmin_p " + number(s.min_p) + "\nrepeat_penalty " +
         number(s.repeat_penalty);
}

}  // namespace

std::string ollama_name(std::string_view name) {
  const size_t slash = name.find_last_of('/');
  const size_t tag =
      std::min(name.find(':', slash == std::string_view::npos ? 0 : slash), name.size());
  std::string_view base = name.substr(0, tag);
  if (base.size() > kFileEnd.size() && base.ends_with(kFileEnd))
    base.remove_suffix(kFileEnd.size());
  return std::string(base) + (tag < name.size() ? std::string(name.substr(tag)) : ":latest");
}

std::string ollama_model(const OrderContext& context, const RequestFields& fields) {
  std::string asked = fields.text("model").value_or(fields.text("name").value_or(std::string()));
  if (lower(ollama_name(asked)) == lower(ollama_name(context.model_name))) return asked;
  throw ApiError(
      ErrorKind::kNotFound,
      "model '" + shown(asked) + "' not found; this server has '" + shown(context.model_name) + "'",
      "model");
}

std::vector<const char*> ollama_capabilities(const OrderContext& context) {
  std::vector<const char*> capabilities;
  if (context.text->is_for_embeddings()) {
    if (context.text->has_tokenizer()) capabilities.push_back("embedding");
    return capabilities;
  }
  if (context.text->has_tokenizer()) capabilities.push_back("completion");
  if (context.text->calls_tools()) capabilities.push_back("tools");
  if (context.text->has_chat() && context.text->thinks()) capabilities.push_back("thinking");
  return capabilities;
}

bool has_ollama_capability(const OrderContext& context, std::string_view capability) {
  const std::vector<const char*> all = ollama_capabilities(context);
  return std::find(all.begin(), all.end(), capability) != all.end();
}

std::string ollama_parameter_size(uint64_t n_parameters) {
  constexpr double kThousand = 1e3;
  constexpr const char* kLetters[] = {"", "K", "M", "B"};
  auto n = static_cast<double>(n_parameters);
  size_t i = 0;
  for (; n >= kThousand && i + 1 < std::size(kLetters); ++i) n /= kThousand;
  return text_of("%.*f%s", i == 0 ? 0 : 1, n, kLetters[i]);
}

JsonText ollama_listed(const Service& service) {
  const std::string name = ollama_name(service.context.model_name);
  return JsonText::object({{"name", name},
                           {"model", name},
                           {"modified_at", rfc3339(service.modified_ns)},
                           {"size", service.context.model.info().file_bytes},
                           {"digest", digest_of(service)},
                           {"details", details_of(service.context)},
                           {"capabilities", capabilities_of(service.context)}});
}

// It never leaves: the latest time that nanoseconds of 64 bits have.
JsonText ollama_loaded(const Service& service) {
  const std::string name = ollama_name(service.context.model_name);
  return JsonText::object({{"name", name},
                           {"model", name},
                           {"size", service.budget.total() + service.budget.in_place},
                           {"digest", digest_of(service)},
                           {"details", details_of(service.context)},
                           {"expires_at", rfc3339(std::numeric_limits<int64_t>::max())},
                           {"size_vram", 0},
                           {"context_length", cria_context(service.context.model.session())}});
}

JsonText ollama_shown(const Service& service) {
  const OrderContext& context = service.context;
  const cria_model_info& info = context.model.info();
  const std::string family = cria_architecture_name(info.architecture);
  JsonText model_info = JsonText::object(
      {{"general.architecture", family}, {"general.parameter_count", info.n_parameters}});
  model_info.put(family + ".block_count", info.n_layers);
  model_info.put(family + ".context_length", info.max_context);
  model_info.put(family + ".embedding_length", info.d_model);
  model_info.put(family + ".vocab_size", info.vocab_size);
  return JsonText::object({{"modelfile", "FROM " + ollama_name(context.model_name) + "\n"},
                           {"parameters", parameters_of(context)},
                           {"template", service.chat_template},
                           {"details", details_of(context)},
                           {"model_info", model_info},
                           {"capabilities", capabilities_of(context)},
                           {"modified_at", rfc3339(service.modified_ns)}});
}

}  // namespace cria::hosted
