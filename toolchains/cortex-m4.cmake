# Cortex-M4 with FPU, without an operating system, on qemu's mps2-an386 board.
set(_core cortex-m4)
set(_arch armv7e-m+fp)
set(CMAKE_SYSTEM_PROCESSOR cortex-m4)
set(CRIA_BOARD mps2-an386)
include("${CMAKE_CURRENT_LIST_DIR}/cortex_m_board.cmake")
