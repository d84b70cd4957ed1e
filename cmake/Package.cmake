# Install rules, and Debian packages by CPack: cria (programs, manual pages, README) and libcria-dev (header, libraries,
# pkg-config). scripts/package.sh builds, checks and runs them. Manual pages and changelog are compressed where there is
# gzip, as Debian wants them; without it they are installed as they are.
if(NOT TARGET cria OR NOT TARGET cria-convert)
  return()
endif()
find_program(CRIA_GZIP gzip)

# cpack builds what it packs, not the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(_files "${CMAKE_SOURCE_DIR}/cmake/package")
set(_out "${CMAKE_BINARY_DIR}/package")
# For one processor, so that packages for several can be on one machine; where GNUInstallDirs would not say so in a
# cross build, the compiler does.
set(_libdir "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
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
  configure_file("${CMAKE_SOURCE_DIR}/docs/man/${_page}.1.in" "${_out}/${_page}.1" @ONLY)
  cria_compressed(_page_file "${_out}/${_page}.1")
  list(APPEND _pages "${_page_file}")
endforeach()

install(TARGETS cria cria-convert DESTINATION bin COMPONENT cria)
install(FILES ${_pages} DESTINATION share/man/man1 COMPONENT cria)
install(FILES README.md docs/command_line.md docs/server.md docs/memory.md DESTINATION share/doc/cria COMPONENT cria)
if(CMAKE_EXE_LINKER_FLAGS MATCHES "-static")
  install(FILES "${_files}/lintian-overrides" DESTINATION share/lintian/overrides RENAME cria COMPONENT cria)
endif()

# libcria.a's companions lie in a folder of their own: they are those it was tested with, not the system's.
set(_libraries zstd)
if(CRIA_WITH_XNNPACK)
  set(_libraries XNNPACK microkernels-prod pthreadpool cpuinfo zstd)
endif()
set(_private "")
foreach(_library IN LISTS _libraries)
  install(FILES "${CRIA_DEPS_PREFIX}/lib/lib${_library}.a" DESTINATION "${_libdir}/cria" COMPONENT dev)
  string(APPEND _private " -l${_library}")
endforeach()
if(CRIA_WITH_XNNPACK)
  string(APPEND _private " -lpthread")
endif()
configure_file("${_files}/cria.pc.in" "${_out}/cria.pc" @ONLY)
install(TARGETS cria_runtime ARCHIVE DESTINATION "${_libdir}" COMPONENT dev)
install(FILES runtime/include/cria.h runtime/include/cria_chat.h runtime/include/cria_json.h DESTINATION include COMPONENT dev)
install(FILES "${_out}/cria.pc" DESTINATION "${_libdir}/pkgconfig" COMPONENT dev)

foreach(_pair "cria cria" "dev libcria-dev")
  string(REPLACE " " ";" _pair "${_pair}")
  list(GET _pair 0 _component)
  list(GET _pair 1 _package)
  install(FILES "${_files}/copyright" "${_changelog}" DESTINATION "share/doc/${_package}" COMPONENT ${_component})
endforeach()

set(_architecture_x86_64 amd64)
set(_architecture_aarch64 arm64)
set(_architecture_armv7 armhf)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cria)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL cria dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE "${_architecture_${CMAKE_SYSTEM_PROCESSOR}}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${_maintainer}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_CRIA_PACKAGE_NAME cria)
set(CPACK_DEBIAN_CRIA_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_CRIA_DESCRIPTION "quantized LLaMA runtime for small devices
 cria-convert turns a LLaMA checkpoint into one compressed, checksummed int8 or
 int4 file. cria runs that file in memory whose size it prints beforehand:
 it continues prompts, chats, and measures speed and perplexity.")
# Static programs depend on nothing; the others on what dpkg-shlibdeps finds.
if(NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-static")
  set(CPACK_DEBIAN_CRIA_PACKAGE_SHLIBDEPS ON)
endif()

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libcria-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cria, pkgconf")
set(CPACK_COMPONENT_DEV_DESCRIPTION "quantized LLaMA runtime - development files
 A C library without heap, threads or system calls of its own: it runs a model
 file of cria-convert in one block of memory that the caller provides. Static
 library, C header, and the libraries it is linked with.")
include(CPack)
