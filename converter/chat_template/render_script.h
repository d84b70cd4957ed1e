// converter/chat_template/render_template.py, as bytes of the program.
#pragma once

#include <string_view>

namespace cria::converter {

[[nodiscard]] std::string_view render_script();

}  // namespace cria::converter
