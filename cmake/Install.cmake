# cmake --install: the library for other programs, wherever the prefix is and goes. Headers, libcria.a with the libraries it is
# linked with, libcria.so, a CMake package, a pkg-config file; the Python module and what it loads.
#
# For one processor, so that packages for several can be on one machine; where GNUInstallDirs would not say so in a
# cross build, the compiler does.
set(_libdir lib)
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(_libdir "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
if(CMAKE_INSTALL_LIBDIR AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(_libdir "${CMAKE_INSTALL_LIBDIR}")
endif()
set(_files "${PROJECT_SOURCE_DIR}/cmake/package")
set(_out "${PROJECT_BINARY_DIR}/package")

# libcria.a's companions lie in a folder of their own: they are those it was tested with, not the system's.
set(_libraries)
if(CRIA_WITH_XNNPACK)
  list(APPEND _libraries XNNPACK microkernels-prod pthreadpool cpuinfo)
endif()
if(CRIA_WITH_COMPRESSION)
  list(APPEND _libraries zstd)
endif()
set(_system_libraries m)
if(CRIA_WITH_XNNPACK)
  list(PREPEND _system_libraries pthread)
endif()
set(_private)
foreach(_library IN LISTS _libraries _system_libraries)
  list(APPEND _private "-l${_library}")
endforeach()
list(JOIN _private " " _private)
foreach(_library IN LISTS _libraries)
  install(FILES "${CRIA_DEPS_PREFIX}/lib/lib${_library}.a" DESTINATION "${_libdir}/cria" COMPONENT dev)
endforeach()
install(TARGETS cria_runtime ARCHIVE DESTINATION "${_libdir}" COMPONENT dev)
install(FILES runtime/include/cria.h runtime/include/cria_chat.h runtime/include/cria_json.h runtime/include/cria_calls.h
  runtime/include/cria_call_grammar.h DESTINATION include COMPONENT dev)

if(CRIA_WITH_SHARED)
  install(TARGETS cria_shared LIBRARY DESTINATION "${_libdir}" COMPONENT library NAMELINK_COMPONENT dev)
endif()
if(TARGET cria_host)
  install(TARGETS cria_host LIBRARY DESTINATION "${_libdir}" COMPONENT library NAMELINK_SKIP)
  install(DIRECTORY python/cria DESTINATION lib/python3/dist-packages COMPONENT python
    FILES_MATCHING PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
endif()

# Both find the prefix from where they lie: no path in them is absolute.
set(_cmakedir "${_libdir}/cmake/cria")
file(RELATIVE_PATH _prefix_of_cmake "/prefix/${_cmakedir}" /prefix)
file(RELATIVE_PATH _prefix_of_pkgconfig "/prefix/${_libdir}/pkgconfig" /prefix)
configure_file("${_files}/cria.pc.in" "${_out}/cria.pc" @ONLY)
configure_file("${_files}/cria-config.cmake.in" "${_out}/cria-config.cmake" @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${_out}/cria-config-version.cmake" VERSION "${PROJECT_VERSION}"
  COMPATIBILITY SameMinorVersion)
install(FILES "${_out}/cria.pc" DESTINATION "${_libdir}/pkgconfig" COMPONENT dev)
install(FILES "${_out}/cria-config.cmake" "${_out}/cria-config-version.cmake" DESTINATION "${_cmakedir}" COMPONENT dev)
