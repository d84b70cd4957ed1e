# What can be chosen about a build. Inside another project cria is the library alone and adds nothing to the cache: the
# other project chooses by variables of these names, set before add_subdirectory(cria).

# cria_option(<name> <help> <default>): an option of the cache at the top, else a variable.
macro(cria_option name help default)
  if(PROJECT_IS_TOP_LEVEL)
    option(${name} "${help}" ${default})
  elseif(NOT DEFINED ${name})
    set(${name} ${default})
  endif()
endmacro()

# cria_setting(<name> <type> <help> <default>): the same for what is not ON or OFF.
macro(cria_setting name type help default)
  if(PROJECT_IS_TOP_LEVEL)
    set(${name} "${default}" CACHE ${type} "${help}")
  elseif(NOT DEFINED ${name})
    set(${name} "${default}")
  endif()
endmacro()

cria_option(CRIA_WITH_XNNPACK "Build the XNNPACK backend" ${PROJECT_IS_TOP_LEVEL})
cria_option(CRIA_WITH_THREADS "Build platforms/hosted (threads, cpuinfo, the cria program)" ${PROJECT_IS_TOP_LEVEL})
cria_option(CRIA_BUILD_CONVERTER "Build cria-convert" ${PROJECT_IS_TOP_LEVEL})
cria_option(CRIA_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
cria_option(CRIA_BUILD_BENCHMARKS "Build the benchmarks when Google Benchmark is found" ${PROJECT_IS_TOP_LEVEL})
cria_setting(CRIA_SANITIZE STRING "Sanitizers of the whole build, as -fsanitize= takes them" "")
cria_setting(CRIA_INSTRUMENT STRING "What clang counts for: fuzz (tests/fuzz), coverage, or nothing" "")

# Programs that are not sanitized cannot load a sanitized library.
set(_with_shared "${PROJECT_IS_TOP_LEVEL}")
if(CMAKE_SYSTEM_NAME STREQUAL "Generic" OR CRIA_SANITIZE OR CRIA_INSTRUMENT)
  set(_with_shared OFF)
endif()
cria_option(CRIA_WITH_SHARED "Build libcria.so, and with CRIA_WITH_THREADS libcria_host.so" ${_with_shared})
