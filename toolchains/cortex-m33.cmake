# Cortex-M33 with the DSP extension and FPU, without an operating system, on qemu's mps2-an505 board.
set(_core cortex-m33)
set(_arch armv8-m.main+dsp+fp)
set(CMAKE_SYSTEM_PROCESSOR cortex-m33)
set(CRIA_BOARD mps2-an505)
include("${CMAKE_CURRENT_LIST_DIR}/cortex_m_board.cmake")
