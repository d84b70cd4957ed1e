# Files as bytes of a program.
#
# cria_embed(<out variable> <file> <header> <namespace> <function>): a source in the build folder that defines
# `std::string_view <namespace>::<function>()`, which <header> declares.
#
# The same file is the script that writes it: cmake -DINPUT=... -DOUTPUT=... -DHEADER=... -DNAMESPACE=... -DFUNCTION=... -P.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(_cria_embed "${CMAKE_CURRENT_LIST_FILE}")
  function(cria_embed out file header namespace function)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
    add_custom_command(OUTPUT "${source}"
      COMMAND "${CMAKE_COMMAND}" "-DINPUT=${file}" "-DOUTPUT=${source}" "-DHEADER=${header}" "-DNAMESPACE=${namespace}"
        "-DFUNCTION=${function}" -P "${_cria_embed}"
      DEPENDS "${file}" "${_cria_embed}" VERBATIM)
    set(${out} "${source}" PARENT_SCOPE)
  endfunction()
  return()
endif()

file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace ${NAMESPACE}
")
