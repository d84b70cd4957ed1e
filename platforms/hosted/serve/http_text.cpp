#include "platforms/hosted/serve/http_text.h"

#include <boost/beast/http/status.hpp>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/network_names.h"

namespace cria::hosted {

const char* reason_of(int status) {
  return status == 429 ? "Too Many Requests"
                       : http::obsolete_reason(static_cast<http::status>(status)).data();
}

std::string closing_text(const Reply& reply) {
  std::string text = text_of("HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", reply.status,
                             reason_of(reply.status), reply.content_type.c_str());
  for (const HeaderField& field : reply.headers) text += field.name + ": " + field.value + "\r\n";
  text += text_of("Connection: close\r\nContent-Length: %zu\r\n\r\n", reply.body.size());
  return text + reply.body;
}

}  // namespace cria::hosted
