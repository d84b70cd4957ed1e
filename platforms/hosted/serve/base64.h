// Bytes as base64 (RFC 4648), with padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cria::hosted {

std::string base64_of(std::span<const uint8_t> bytes);

}  // namespace cria::hosted
