// Why a file is refused, in words: "d_model"_reason. Firmware says only the status.
#pragma once

#include <cstddef>

#include "quant/format/built_in.h"

namespace cria {

consteval const char* operator""_reason(const char* text, size_t /*length*/) {
  return kHasReasons ? text : "a rule";
}

}  // namespace cria
