# Compiles through ccache where it is installed (scripts/setup.sh installs it), so that a second clone, another build folder of
# the same clone and a branch gone back to compile only what differs. For that no object may depend on the folder of the clone:
# CCACHE_BASEDIR makes paths relative before they are compared, and the prefix maps do the same to what the compiler writes into
# objects (__FILE__, debug information). Paths that a test needs come from its environment (tests/support/folders.h).
# Not for coverage: llvm-cov finds sources by the paths in the objects.
set(_with_ccache ${PROJECT_IS_TOP_LEVEL})
if(CRIA_INSTRUMENT STREQUAL "coverage")
  set(_with_ccache OFF)
endif()
cria_option(CRIA_WITH_CCACHE "Compile through ccache where it is installed" ${_with_ccache})
if(CRIA_WITH_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CRIA_CCACHE ccache)
  mark_as_advanced(CRIA_CCACHE)
endif()
if(CRIA_WITH_CCACHE AND CRIA_CCACHE)
  # pch_defines, time_macros: what ccache asks for before it caches what includes a precompiled header.
  set(CMAKE_C_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros "${CRIA_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_C_COMPILER_LAUNCHER}")
  message(STATUS "Compiler cache: ${CRIA_CCACHE}")
elseif(PROJECT_IS_TOP_LEVEL)
  message(STATUS "Compiler cache: none")
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT CRIA_INSTRUMENT STREQUAL "coverage")
  file(RELATIVE_PATH _to_source "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${_to_source}=")
endif()
