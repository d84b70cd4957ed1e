# What every target of this project is compiled with, and the functions that the folders share.

if(CMAKE_SIZEOF_VOID_P EQUAL 4)  # files over 2 GiB on 32-bit Linux
  add_compile_definitions(_FILE_OFFSET_BITS=64)
endif()

# Products and sums keep their two roundings, on every compiler: the tokens depend on it (design, numerics).
add_compile_options(-ffp-contract=off)

if(CRIA_SANITIZE)
  add_compile_options("-fsanitize=${CRIA_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer
    -D_GLIBCXX_ASSERTIONS)
  if(CRIA_SANITIZE MATCHES "address")  # which sees most of what this check guesses; a seventh of quantize.cpp's compile time
    add_compile_options(-fno-sanitize=object-size)
  endif()
  add_link_options("-fsanitize=${CRIA_SANITIZE}")
endif()

if(CRIA_INSTRUMENT STREQUAL "fuzz")
  add_compile_options(-fsanitize=fuzzer-no-link)  # the targets of tests/fuzz add libFuzzer when they are linked
  add_link_options(-fsanitize=fuzzer-no-link)
elseif(CRIA_INSTRUMENT STREQUAL "coverage")
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
elseif(CRIA_INSTRUMENT)
  message(FATAL_ERROR "CRIA_INSTRUMENT is fuzz, coverage or empty, not ${CRIA_INSTRUMENT}")
endif()

set(CRIA_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wdouble-promotion -Wvla)
if(PROJECT_IS_TOP_LEVEL)  # in another project a compiler that we have not met may say what it wants
  list(APPEND CRIA_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in plain std::string concatenation (its bug 105651).
  list(APPEND CRIA_WARNINGS -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^arm")
  list(APPEND CRIA_WARNINGS -Wno-psabi)  # notes on how GCC 6 passed arguments, about every container
endif()

# cria_options(<target>): warnings as errors, and includes by full path from the root of the repository.
function(cria_options target)
  target_compile_options(${target} PRIVATE ${CRIA_WARNINGS})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
endfunction()

# cria_device_options(<target>): for code that also runs on devices, where stacks are small.
function(cria_device_options target)
  cria_options(${target})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions> $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
  if(NOT CRIA_SANITIZE)  # the address sanitizer widens frames
    target_compile_options(${target} PRIVATE -Wframe-larger-than=16384)
  endif()
endfunction()

# cria_shared_library(<target> <name> <symbols...>): lib<name>.so.<major version>, which shows these symbols and no
# others, and leaves none open.
function(cria_shared_library target name)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
  list(JOIN ARGN ";\n    " symbols)
  file(CONFIGURE OUTPUT "${script}" @ONLY CONTENT "{\n  global:\n    @symbols@;\n  local: *;\n};\n")
  add_library(${target} SHARED)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME "${name}" DEFINE_SYMBOL "" VERSION "${PROJECT_VERSION}"
    SOVERSION "${PROJECT_VERSION_MAJOR}" BUILD_RPATH_USE_ORIGIN ON LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${script}" LINKER:-z,defs LINKER:-Bsymbolic)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")  # Raspberry Pi OS and Android have kernels with pages of 16 KB
    target_link_options(${target} PRIVATE LINKER:-z,max-page-size=16384)
  endif()
endfunction()
