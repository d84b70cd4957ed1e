# What the firmware toolchain files share. Each sets before:
#   CMAKE_SYSTEM_PROCESSOR  the core: its name chooses the kernels (cmake/KernelFlags.cmake)
#   CRIA_BOARD              qemu's machine; its memory is in platforms/cortex_m/boards
#   _arch, _core            for -march and -mtune
# Debian's arm-none-eabi compiler; ctest runs the images on the emulated board, whose standard output, input and exit
# status are this machine's by semihosting.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # no program links without the platform's linker script

set(_flags "-march=${_arch} -mtune=${_core} -mthumb -mfloat-abi=hard -ffunction-sections -fdata-sections")
# sqrt is one instruction when nobody asks for errno.
string(APPEND _flags " -fno-math-errno")
set(CMAKE_C_FLAGS_INIT "${_flags}")
# Static objects of functions need no guard against other threads: there are none.
set(CMAKE_CXX_FLAGS_INIT "${_flags} -fno-threadsafe-statics")
set(CMAKE_ASM_FLAGS_INIT "${_flags}")

# The console is this machine's standard input and output; options behind the image go to qemu as well.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -M ${CRIA_BOARD} -display none -monitor none -serial none
  -chardev file,id=console,path=/dev/stdout,append=on -semihosting-config enable=on,target=native,chardev=console -kernel)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
