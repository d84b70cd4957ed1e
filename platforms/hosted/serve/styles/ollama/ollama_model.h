// The model that is served, by the names and in the words of Ollama.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/route.h"

namespace cria::hosted {

// "demo:latest", of "demo.cria"; a name with a tag keeps it.
std::string ollama_name(std::string_view name);

// The model that a request names, as it names it. Throws ApiError unless it is the one that is
// served: letters of either case, with ".cria" and a tag "latest" or without.
std::string ollama_model(const OrderContext& context, const RequestFields& fields);

// What the model can do, of "completion", "tools", "thinking" and "embedding".
std::vector<const char*> ollama_capabilities(const OrderContext& context);
bool has_ollama_capability(const OrderContext& context, std::string_view capability);

// "1.2B", "134.5M".
std::string ollama_parameter_size(uint64_t n_parameters);

// An entry of /api/tags, of /api/ps, and the answer of /api/show.
JsonText ollama_listed(const Service& service);
JsonText ollama_loaded(const Service& service);
JsonText ollama_shown(const Service& service);

}  // namespace cria::hosted
