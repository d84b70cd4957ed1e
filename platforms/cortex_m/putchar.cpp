// C's own putchar would want a heap for its buffer.
#include "platforms/cortex_m/semihosting.h"

extern "C" int putchar(int c) {
  const char byte = static_cast<char>(c);
  cria::cortex_m::write_console(&byte, 1);
  return c;
}
