#include "platforms/hosted/serve/page.h"

#include <cstddef>
#include <string>

#include "platforms/hosted/serve/random_bits.h"

namespace cria::hosted {
namespace {

// Stands in the page where each answer has a word of its own, without which no script runs.
constexpr std::string_view kNoncePlace = "CRIA_NONCE";

}  // namespace

Reply page_reply() {
  const std::string nonce = random_hex();
  Reply reply;
  reply.content_type = "text/html; charset=utf-8";
  reply.body = page_bytes();
  for (size_t at = 0; (at = reply.body.find(kNoncePlace, at)) != std::string::npos;) {
    reply.body.replace(at, kNoncePlace.size(), nonce);
    at += nonce.size();
  }
  reply.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
           "'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
           "frame-ancestors 'none'"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"},
  };
  return reply;
}

}  // namespace cria::hosted
