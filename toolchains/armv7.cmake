# Armv7-A Linux with NEON and VFPv4, hard float, Debian's cross compiler, static; ctest runs the
# programs under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)

if(NOT CRIA_EMULATED_CPU)
  set(CRIA_EMULATED_CPU cortex-a15)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm -cpu ${CRIA_EMULATED_CPU})

set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
