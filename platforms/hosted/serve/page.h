// The page that the server shows: platforms/hosted/serve/page/index.html.
#pragma once

#include <string_view>

#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

// As it is in the repository.
std::string_view page_bytes();

// With a policy that runs what the page itself holds and loads nothing from elsewhere.
Reply page_reply();

}  // namespace cria::hosted
