# AArch64 Linux with Debian's cross compiler, static: one binary for Raspberry Pi OS, any other Linux, and adb shell.
# It needs an Armv8.0 core (Cortex-A53, A72); the kernels for dot products and i8mm are chosen at run time, and atomics
# go through libgcc's functions, which ask the CPU for LSE before they use it (tests/cross/lse_atomics.py).
# ctest runs the programs under qemu-user. CRIA_EMULATED_CPU chooses the CPU: cortex-a53 (NEON), cortex-a76 (dot
# products), max (all).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)

if(NOT CRIA_EMULATED_CPU)
  set(CRIA_EMULATED_CPU max)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${CRIA_EMULATED_CPU})

# Libraries and headers of the target only; header-only packages of the host are looked up by name.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
