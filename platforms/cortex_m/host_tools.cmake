# Configures (once) and builds the host's programs and fuzz targets in BUILD_DIR, with SOURCE_DIR's preset release.
#   cmake -DBUILD_DIR=... -DSOURCE_DIR=... -P host_tools.cmake
set(ENV{CFLAGS} "")
set(ENV{CXXFLAGS} "")
if(NOT EXISTS "${BUILD_DIR}/CMakeCache.txt")
  execute_process(COMMAND "${CMAKE_COMMAND}" --preset release -B "${BUILD_DIR}" WORKING_DIRECTORY "${SOURCE_DIR}"
    COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD_DIR}" --parallel 2 --target cria cria-convert fuzz_targets
  COMMAND_ERROR_IS_FATAL ANY)
