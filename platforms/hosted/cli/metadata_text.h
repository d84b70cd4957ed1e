// The metadata of a model file, read and laid out for people.
#pragma once

#include <string>
#include <string_view>

#include <cria.h>

namespace cria::hosted {

// The checked JSON that the file carries; empty when there is none. Throws the ProgramError of a
// file whose metadata is damaged or no JSON.
std::string read_metadata(const cria_source& source, const cria_model_info& info,
                          const std::string& path);

// JSON that read_metadata gave, as the value of a member of an object that stands at the margin:
// two levels of it are put on lines of their own, indented by two spaces a level, and what lies
// deeper is put on one line, so that no nesting can swell the text. Control characters that JSON
// allows unescaped are escaped: a terminal would obey them.
std::string indented_json(std::string_view json);

}  // namespace cria::hosted
