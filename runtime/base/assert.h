// CRIA_ASSERT: conditions the code relies on, checked in debug builds only. Safety against hostile
// files never depends on it: those are checked once, by the reader, with an error code.
#pragma once

#ifdef NDEBUG
#define CRIA_ASSERT(condition) static_cast<void>(0)
#else
#define CRIA_ASSERT(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())
#endif
