#include "platforms/hosted/base/system_error.h"

#include <cerrno>
#include <cstring>

namespace cria::hosted {
namespace {

const char* advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or write elsewhere";
    case EMFILE:
      return "; raise ulimit -n";
    case ENFILE:
      return "; end a program that holds many open";
    default:
      return "";
  }
}

}  // namespace

std::string system_error_text(int error_number) {
  return std::string(std::strerror(error_number)) + advice(error_number);
}

}  // namespace cria::hosted
