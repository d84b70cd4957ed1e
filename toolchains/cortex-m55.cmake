# Cortex-M55 without an operating system, Debian's arm-none-eabi compiler; ctest runs the images on qemu's mps3-an547
# board, whose standard output, input and exit status are this machine's by semihosting.
# CRIA_HELIUM=ON has the vector instructions (MVE) used, by kernels of their own and by the compiler.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # no program links without the platform's linker script

option(CRIA_HELIUM "Use the vector instructions of Armv8.1-M" OFF)
set(_cpu armv8.1-m.main+dsp+fp)  # +fp: single precision; double is computed by the compiler's library
# The name chooses the kernels (cmake/KernelFlags.cmake).
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
if(CRIA_HELIUM)
  set(CMAKE_SYSTEM_PROCESSOR cortex-m55-helium)
  string(APPEND _cpu +mve.fp)
endif()
set(_flags "-march=${_cpu} -mtune=cortex-m55 -mthumb -mfloat-abi=hard -ffunction-sections -fdata-sections")
# sqrt is one instruction when nobody asks for errno.
string(APPEND _flags " -fno-math-errno")
set(CMAKE_C_FLAGS_INIT "${_flags}")
# Static objects of functions need no guard against other threads: there are none.
set(CMAKE_CXX_FLAGS_INIT "${_flags} -fno-threadsafe-statics")
set(CMAKE_ASM_FLAGS_INIT "${_flags}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CRIA_HELIUM)

# The console is this machine's standard input and output; options behind the image go to qemu as well.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -M mps3-an547 -display none -monitor none -serial none
  -chardev file,id=console,path=/dev/stdout,append=on -semihosting-config enable=on,target=native,chardev=console -kernel)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
