// What happens when a mapped file loses bytes that are being used: the system raises SIGBUS.
#pragma once

#include <cstddef>
#include <string>

namespace cria::hosted {

// Ends the program with one line and exit code 4 on a SIGBUS inside a GuardedMapping, after
// removing temporary files; any other SIGBUS does what it does without a handler.
void install_bus_error_handler();

// Bytes [base, base + n_bytes) of the file at path, while the object lives. Up to four at a time;
// the handler does not know of more.
class GuardedMapping {
 public:
  GuardedMapping(const void* base, size_t n_bytes, const std::string& path);
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;

 private:
  size_t slot_;
};

}  // namespace cria::hosted
