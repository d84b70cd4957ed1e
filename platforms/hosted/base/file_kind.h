// What stands where a regular file was wanted.
#pragma once

#include <sys/types.h>

namespace cria::hosted {

// Of st_mode: "a folder", "a named pipe", "a socket", "a device" or "a regular file".
const char* file_kind(mode_t mode);

}  // namespace cria::hosted
