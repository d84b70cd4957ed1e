// Error codes inside the runtime: the public cria_status under a C++ name, and CRIA_TRY.
#pragma once

#include <cria.h>

namespace cria {

enum class Status : int {
#define CRIA_STATUS_VALUE(cpp_name, c_name, value, text) cpp_name = value,
  CRIA_STATUS_LIST(CRIA_STATUS_VALUE)
#undef CRIA_STATUS_VALUE
};

// Returns from the enclosing function when an expression is not Status::kOk.
#define CRIA_TRY(expression)                                 \
  do {                                                       \
    if (const ::cria::Status cria_try_status = (expression); \
        cria_try_status != ::cria::Status::kOk) {            \
      return cria_try_status;                                \
    }                                                        \
  } while (false)

}  // namespace cria
