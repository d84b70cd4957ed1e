# cmake -DINPUT=index.html -DOUTPUT=page_bytes.cpp -P embed_page.cmake: a file as an array of C++.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"platforms/hosted/serve/page.h\"

namespace cria::hosted {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

std::string_view page_bytes() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace cria::hosted
")
