# Install rules of the programs, and Debian packages by CPack: cria (programs, manual pages, README), libcria0 (shared
# libraries), libcria-dev (headers, static libraries, CMake package, pkg-config) and python3-cria; cmake/Install.cmake has
# what is in the last three. scripts/package.sh builds, checks and runs them. Manual pages and changelog are compressed
# where there is gzip, as Debian wants them; without it they are installed as they are.
if(NOT TARGET cria OR NOT TARGET cria-convert OR NOT TARGET cria_host)
  return()
endif()
find_program(CRIA_GZIP gzip)

# cpack builds what it packs, not the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

string(TIMESTAMP _date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, where that is set
set(_maintainer "cria maintainers <maintainers@cria.example>")

# cria_compressed(<out variable> <source>): the file beside it, compressed without a date; without gzip, the source.
function(cria_compressed out source)
  if(CRIA_GZIP)
    execute_process(COMMAND "${CRIA_GZIP}" -9nc "${source}" OUTPUT_FILE "${source}.gz" COMMAND_ERROR_IS_FATAL ANY)
    string(APPEND source ".gz")
  endif()
  set(${out} "${source}" PARENT_SCOPE)
endfunction()

configure_file("${_files}/changelog.in" "${_out}/changelog" @ONLY)
cria_compressed(_changelog "${_out}/changelog")
set(_pages "")
foreach(_page cria cria-convert)
  configure_file("${PROJECT_SOURCE_DIR}/docs/man/${_page}.1.in" "${_out}/${_page}.1" @ONLY)
  cria_compressed(_page_file "${_out}/${_page}.1")
  list(APPEND _pages "${_page_file}")
endforeach()

install(TARGETS cria cria-convert DESTINATION bin COMPONENT cria)
install(FILES ${_pages} DESTINATION share/man/man1 COMPONENT cria)
# All of the documents, as their links know each other; what they say of sources leads nowhere here.
install(FILES README.md SECURITY.md CHANGELOG.md DESTINATION share/doc/cria COMPONENT cria)
install(DIRECTORY docs DESTINATION share/doc/cria COMPONENT cria
  FILES_MATCHING PATTERN "*.md" PATTERN "*.json" PATTERN "*.svg" PATTERN "*.png" PATTERN man EXCLUDE)
# Of packages alone: it names /usr/bin/cria, and systemd looks into no other prefix. The maintainer's scripts enable and start
# nothing.
install(CODE "if(\"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" MATCHES \"/_CPack_Packages/\")
  file(INSTALL \"${_files}/cria-serve.service\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\")
endif()" COMPONENT cria)
if(CMAKE_EXE_LINKER_FLAGS MATCHES "-static")
  install(FILES "${_files}/lintian-overrides" DESTINATION share/lintian/overrides RENAME cria COMPONENT cria)
endif()

foreach(_pair "cria cria" "library libcria0" "dev libcria-dev" "python python3-cria")
  string(REPLACE " " ";" _pair "${_pair}")
  list(GET _pair 0 _component)
  list(GET _pair 1 _package)
  install(FILES "${_files}/copyright" "${_changelog}" DESTINATION "share/doc/${_package}" COMPONENT ${_component})
endforeach()

# What is said of a package alone; its links lead to the documents of the package cria.
foreach(_row "embedding dev libcria-dev" "python python python3-cria")
  string(REPLACE " " ";" _row "${_row}")
  list(GET _row 0 _page)
  list(GET _row 1 _component)
  list(GET _row 2 _package)
  set(_source "${PROJECT_SOURCE_DIR}/docs/${_page}.md")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_source}")
  file(READ "${_source}" _text)
  string(REGEX REPLACE "\\]\\(([a-z_]+\\.md)" "](../cria/docs/\\1" _text "${_text}")
  string(REPLACE "](../runtime/include/" "](../../../include/" _text "${_text}")
  string(REPLACE "](../examples/python)" "](examples)" _text "${_text}")
  string(REPLACE "](../examples/" "](examples/" _text "${_text}")
  file(WRITE "${_out}/${_page}.md" "${_text}")
  install(FILES "${_out}/${_page}.md" DESTINATION "share/doc/${_package}" COMPONENT ${_component})
endforeach()
install(DIRECTORY examples/minimal examples/two_conversations DESTINATION share/doc/libcria-dev/examples COMPONENT dev
  FILES_MATCHING PATTERN "*.[cS]")
install(DIRECTORY examples/python/ DESTINATION share/doc/python3-cria/examples COMPONENT python FILES_MATCHING PATTERN "*.py")

set(_architecture_x86_64 amd64)
set(_architecture_aarch64 arm64)
set(_architecture_armv7 armhf)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cria)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL cria library dev python)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE "${_architecture_${CMAKE_SYSTEM_PROCESSOR}}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${_maintainer}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_CRIA_PACKAGE_NAME cria)
set(CPACK_DEBIAN_CRIA_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_CRIA_PACKAGE_RECOMMENDS python3-jinja2)  # for chat templates
set(CPACK_COMPONENT_CRIA_DESCRIPTION "quantized LLaMA runtime for small devices
 cria-convert turns a LLaMA checkpoint into one compressed, checksummed int8 or
 int4 file. cria runs that file in memory whose size it prints beforehand:
 it continues prompts, chats, and measures speed and perplexity.")
set(CPACK_DEBIAN_CRIA_PACKAGE_CONTROL_EXTRA "${_files}/postinst" "${_files}/prerm" "${_files}/postrm")
# Static programs depend on nothing; the others on what dpkg-shlibdeps finds.
if(NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-static")
  set(CPACK_DEBIAN_CRIA_PACKAGE_SHLIBDEPS ON)
endif()

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libcria0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# With a trigger, as Debian wants it. Where CPack asks dpkg-shlibdeps it adds scripts that call ldconfig all the same; lintian
# warns of them.
configure_file("${_files}/shlibs.in" "${_out}/shlibs" @ONLY)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${_out}/shlibs" "${_files}/triggers")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "quantized LLaMA runtime - shared library
 A C library without heap, threads or system calls of its own: it runs a model
 file of cria-convert in one block of memory that the caller provides.
 libcria_host opens such a file with threads and memory of this machine, for
 programs in other languages.")
if(CMAKE_CROSSCOMPILING)  # dpkg-shlibdeps would look for the packages of another machine
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1 (>= 3.0), libstdc++6 (>= 12)")
else()
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
endif()

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-cria)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), libcria0 (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-numpy, cria")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "quantized LLaMA runtime - Python 3 module
 Chats, completions, JSON by a schema, tokens and logits of a model file of
 cria-convert, in memory whose size is known beforehand. Pure Python over the
 shared library.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libcria-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libcria0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cria, cmake, pkgconf")
set(CPACK_COMPONENT_DEV_DESCRIPTION "quantized LLaMA runtime - development files
 A C library without heap, threads or system calls of its own: it runs a model
 file of cria-convert in one block of memory that the caller provides. C
 headers, static library with the libraries it is linked with, and what CMake
 and pkg-config need to find them.")
include(CPack)
