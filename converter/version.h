// The version that the converter writes into files and prints; the project's version in
// CMakeLists.txt, which a test compares.
#pragma once

namespace cria::converter {

inline constexpr const char* kConverterVersion = "0.1.0";

}  // namespace cria::converter
