// Replies and targets as they stand on the line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

// "Not Found"
const char* reason_of(int status);

// A whole answer, after which the connection closes.
std::string closing_text(const Reply& reply);

// Only letters of ASCII, as names of hosts, media and codings are compared.
std::string lower(std::string_view text);

// Of a path or a part of a query: "my%20model" is "my model". Nothing for an escape that is none,
// and for that of NUL.
std::optional<std::string> percent_decoded(std::string_view text);

// Of a path. An escaped slash separates nothing: a path that has one is empty, as none that is
// served has it.
std::string decoded_path(std::string_view path);

// What stands in a path after prefix, which ends with a slash: slashes of either kind are part of
// it. Nothing where prefix is not there.
std::optional<std::string> decoded_behind(std::string_view prefix, std::string_view path);

// Whether a query has name=value; either may be written with escapes.
bool query_has(std::string_view query, std::string_view name, std::string_view value);

}  // namespace cria::hosted
