# Third-party libraries as imported targets: cria::zstd, cria::xnnpack, cria::cpuinfo.
#
# They are compiled once by cmake/deps into ${CRIA_DEPS_DIR}/prefix/<key>, where the key names everything that
# changes the result: system, processor, compiler, flags, toolchain file, sources. Sources are the tarballs that
# scripts/setup.sh unpacked into ${CRIA_DEPS_DIR}/src, else the same commits from upstream.
include(cmake/dependency_versions.cmake)

set(_default "$ENV{CRIA_DEPS_DIR}")
if(NOT _default)
  set(_default "$ENV{HOME}/.cache/cria/deps")
endif()
cria_setting(CRIA_DEPS_DIR PATH "Folder of the third-party sources and the libraries built from them" "${_default}")

# Sets CRIA_SOURCE_<name> for each wanted dependency and appends the arguments for the nested build.
set(_deps_wanted zstd)
if(CRIA_WITH_XNNPACK OR CRIA_WITH_THREADS)
  list(APPEND _deps_wanted cpuinfo)
endif()
if(CRIA_WITH_XNNPACK)
  list(APPEND _deps_wanted xnnpack pthreadpool fxdiv)
endif()

set(_deps_args)
set(_deps_pins)
set(_deps_missing)
foreach(_row IN LISTS CRIA_DEPENDENCIES)
  string(REPLACE "|" ";" _row "${_row}")
  list(GET _row 0 _name)
  list(GET _row 4 _sha256)
  list(GET _row 5 _url)
  list(GET _row 6 _commit)
  if(NOT _name IN_LIST _deps_wanted)
    continue()
  endif()
  set(_source "${CRIA_DEPS_DIR}/src/${_name}-${_sha256}")
  if(EXISTS "${_source}/.cria-unpacked")
    list(APPEND _deps_pins "${_name}=${_sha256}")
  else()
    list(APPEND _deps_pins "${_name}=${_commit}")
    list(APPEND _deps_missing "${_name}|${_url}|${_commit}")
    string(TOLOWER "cria_${_name}" _lower)
    set(_source "${FETCHCONTENT_BASE_DIR}/${_lower}-src")
    if(NOT FETCHCONTENT_BASE_DIR)
      set(_source "${CMAKE_BINARY_DIR}/_deps/${_lower}-src")
    endif()
  endif()
  list(APPEND _deps_args "-DCRIA_SOURCE_${_name}=${_source}")
endforeach()

# ThreadSanitizer understands only atomics that it compiled, so its build gets instrumented libraries.
set(_deps_flags "")
if(CRIA_SANITIZE STREQUAL "thread")
  set(_deps_flags "-fsanitize=thread -g")
endif()
# XNNPACK reads past its buffers by design, so it is never built with the address sanitizer.

set(_toolchain_hash none)
if(CMAKE_TOOLCHAIN_FILE)
  file(SHA256 "${CMAKE_TOOLCHAIN_FILE}" _toolchain_hash)
endif()
# What the NDK's toolchain file is told by variables.
foreach(_name ANDROID_ABI ANDROID_PLATFORM ANDROID_STL)
  if(DEFINED ${_name})
    list(APPEND _deps_args "-D${_name}=${${_name}}")
    list(APPEND _deps_pins "${_name}=${${_name}}")
  endif()
endforeach()
file(SHA256 "${PROJECT_SOURCE_DIR}/cmake/deps/CMakeLists.txt" _recipe_hash)
string(SHA256 _key
  "${CMAKE_CXX_COMPILER};${CMAKE_C_COMPILER};${CMAKE_C_FLAGS};${CMAKE_CXX_FLAGS};${_deps_flags};${_toolchain_hash};${_recipe_hash};${_deps_pins};${CRIA_WITH_XNNPACK};${CRIA_WITH_THREADS}")
string(SUBSTRING "${_key}" 0 12 _key)
set(_key "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}-${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}-${_key}")

set(_cache "${CRIA_DEPS_DIR}/prefix")
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}")
execute_process(COMMAND "${CMAKE_COMMAND}" -E make_directory "${_cache}/build" RESULT_VARIABLE _failed OUTPUT_QUIET ERROR_QUIET)
if(NOT _failed)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E touch "${_cache}/build/.writable" RESULT_VARIABLE _failed OUTPUT_QUIET ERROR_QUIET)
endif()
if(_failed AND NOT EXISTS "${_cache}/${_key}/.cria-built")
  set(_cache "${PROJECT_BINARY_DIR}/deps")
endif()
set(CRIA_DEPS_PREFIX "${_cache}/${_key}")

if(NOT EXISTS "${CRIA_DEPS_PREFIX}/.cria-built")
  file(MAKE_DIRECTORY "${_cache}/build")
  file(LOCK "${_cache}/build/${_key}.lock" GUARD FILE TIMEOUT 3600)
endif()
if(NOT EXISTS "${CRIA_DEPS_PREFIX}/.cria-built")
  include(FetchContent)
  foreach(_row IN LISTS _deps_missing)
    string(REPLACE "|" ";" _row "${_row}")
    list(GET _row 0 _name)
    list(GET _row 1 _url)
    list(GET _row 2 _commit)
    message(STATUS "Fetching ${_name} ${_commit} from upstream (scripts/setup.sh takes it from Debian)")
    FetchContent_Declare(cria_${_name} GIT_REPOSITORY "${_url}" GIT_TAG "${_commit}")
    FetchContent_GetProperties(cria_${_name})
    if(NOT cria_${_name}_POPULATED)
      FetchContent_Populate(cria_${_name})
    endif()
  endforeach()

  message(STATUS "Building the third-party libraries, once for all clones (about two minutes): ${CRIA_DEPS_PREFIX}")
  set(_build "${_cache}/build/${_key}")
  set(_log "${_build}.log")
  file(REMOVE_RECURSE "${_build}" "${CRIA_DEPS_PREFIX}.partial")
  if(CMAKE_TOOLCHAIN_FILE)
    list(APPEND _deps_args "-DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE}")
  else()
    list(APPEND _deps_args "-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}")
  endif()
  cmake_host_system_information(RESULT _jobs QUERY NUMBER_OF_LOGICAL_CORES)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${PROJECT_SOURCE_DIR}/cmake/deps" -B "${_build}" -G "${CMAKE_GENERATOR}"
      "-DCMAKE_BUILD_TYPE=Release" "-DCMAKE_INSTALL_PREFIX=${CRIA_DEPS_PREFIX}.partial"
      "-DCMAKE_C_FLAGS=${CMAKE_C_FLAGS} ${_deps_flags}" "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS} ${_deps_flags}"
      "-DCMAKE_C_FLAGS_RELEASE=-O2 -DNDEBUG" "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG"
      "-DCRIA_WITH_XNNPACK=${CRIA_WITH_XNNPACK}" "-DCRIA_WITH_THREADS=${CRIA_WITH_THREADS}" ${_deps_args}
      -Wno-dev --no-warn-unused-cli
    OUTPUT_FILE "${_log}" ERROR_FILE "${_log}" RESULT_VARIABLE _failed)
  if(NOT _failed)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" --build "${_build}" --parallel ${_jobs} --target cria_deps
      OUTPUT_FILE "${_log}" ERROR_FILE "${_log}" RESULT_VARIABLE _failed)
  endif()
  if(NOT _failed)
    # The script of this folder alone: the subprojects' install rules install what cria does not use.
    execute_process(
      COMMAND "${CMAKE_COMMAND}" "-DCMAKE_INSTALL_LOCAL_ONLY=1" -P "${_build}/cmake_install.cmake"
      OUTPUT_FILE "${_log}.install" ERROR_FILE "${_log}.install" RESULT_VARIABLE _failed)
  endif()
  if(_failed)
    file(READ "${_log}" _tail)
    string(LENGTH "${_tail}" _length)
    if(_length GREATER 3000)
      math(EXPR _begin "${_length} - 3000")
      string(SUBSTRING "${_tail}" ${_begin} -1 _tail)
    endif()
    message(FATAL_ERROR "Building the third-party libraries failed; the end of ${_log}:\n${_tail}")
  endif()
  file(TOUCH "${CRIA_DEPS_PREFIX}.partial/.cria-built")
  file(REMOVE_RECURSE "${CRIA_DEPS_PREFIX}")
  file(RENAME "${CRIA_DEPS_PREFIX}.partial" "${CRIA_DEPS_PREFIX}")
  file(REMOVE_RECURSE "${_build}")
endif()
message(STATUS "Third-party libraries: ${CRIA_DEPS_PREFIX}")

# cria_import(<target> <library file> [linked targets...])
function(cria_import target file)
  add_library(cria::${target} STATIC IMPORTED GLOBAL)
  set_target_properties(cria::${target} PROPERTIES
    IMPORTED_LOCATION "${CRIA_DEPS_PREFIX}/lib/${file}"
    INTERFACE_INCLUDE_DIRECTORIES "${CRIA_DEPS_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

if(CRIA_WITH_XNNPACK OR CRIA_WITH_THREADS)
  find_package(Threads REQUIRED)
endif()
cria_import(zstd libzstd.a)
if(CRIA_WITH_XNNPACK OR CRIA_WITH_THREADS)
  cria_import(cpuinfo libcpuinfo.a)
endif()
if(CRIA_WITH_XNNPACK)
  cria_import(pthreadpool libpthreadpool.a Threads::Threads)  # XNNPACK's symbols; nothing of it runs
  cria_import(xnnpack_kernels libmicrokernels-prod.a)
  cria_import(xnnpack libXNNPACK.a cria::xnnpack_kernels cria::pthreadpool cria::cpuinfo m)
endif()

# Header-only, from Debian; imported targets are SYSTEM includes.
if(CRIA_BUILD_CONVERTER OR CRIA_WITH_THREADS)
  if(CMAKE_CROSSCOMPILING)
    # The host's copies, each through a link of its own: with /usr/include itself the host's libc would come along.
    function(cria_import_headers target folder header)
      find_path(CRIA_HOST_${folder} "${folder}/${header}" PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
      file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/host_headers")
      file(CREATE_LINK "${CRIA_HOST_${folder}}/${folder}" "${PROJECT_BINARY_DIR}/host_headers/${folder}" SYMBOLIC)
      add_library(${target} INTERFACE IMPORTED GLOBAL)
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${PROJECT_BINARY_DIR}/host_headers")
    endfunction()
    cria_import_headers(nlohmann_json::nlohmann_json nlohmann json.hpp)
    cria_import_headers(CLI11::CLI11 CLI CLI.hpp)
    if(CRIA_WITH_THREADS)
      cria_import_headers(cria::boost boost asio.hpp)
    endif()
  else()
    find_package(nlohmann_json REQUIRED)
    find_package(CLI11 REQUIRED)
    if(CRIA_WITH_THREADS)
      find_path(CRIA_BOOST_INCLUDE boost/asio.hpp REQUIRED)
      mark_as_advanced(CRIA_BOOST_INCLUDE)
      add_library(cria::boost INTERFACE IMPORTED GLOBAL)
      # /usr/include itself must not be named again: its place in the order of folders matters.
      if(NOT CRIA_BOOST_INCLUDE STREQUAL "/usr/include")
        set_target_properties(cria::boost PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CRIA_BOOST_INCLUDE}")
      endif()
    endif()
  endif()
  # ThreadSanitizer knows no fences; the one thread that runs asio's handlers needs none.
  if(CRIA_WITH_THREADS AND CRIA_SANITIZE STREQUAL "thread")
    set_target_properties(cria::boost PROPERTIES INTERFACE_COMPILE_DEFINITIONS BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
