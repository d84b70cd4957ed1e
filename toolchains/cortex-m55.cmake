# Cortex-M55 without an operating system, on qemu's mps3-an547 board.
# CRIA_HELIUM=ON has the vector instructions (MVE) used, by kernels of their own and by the compiler.
option(CRIA_HELIUM "Use the vector instructions of Armv8.1-M" OFF)
set(_core cortex-m55)
set(_arch armv8.1-m.main+dsp+fp)  # +fp: single precision; double is computed by the compiler's library
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
if(CRIA_HELIUM)
  set(CMAKE_SYSTEM_PROCESSOR cortex-m55-helium)
  string(APPEND _arch +mve.fp)
endif()
set(CRIA_BOARD mps3-an547)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CRIA_HELIUM)
include("${CMAKE_CURRENT_LIST_DIR}/cortex_m_board.cmake")
