#include "converter/calibration/token_sequences.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "converter/calibration/calibration_request.h"
#include "converter/error.h"
#include "converter/input_file.h"
#include "platforms/hosted/base/token_ids.h"

namespace cria::converter {
namespace {

constexpr size_t kMostBytes = size_t{1} << 26;

std::vector<uint32_t> read_line(const std::filesystem::path& path, size_t number,
                                std::string_view line, uint32_t vocab_size) {
  std::vector<uint32_t> ids;
  const std::string problem = hosted::read_token_ids(line, vocab_size, &ids);
  if (problem.empty()) return ids;
  refuse(path, "line " + std::to_string(number) + " " + problem +
                   "; `cria tokenize` makes ids of a text");
}

// Cuts a line and takes pieces while there is room.
void take_pieces(const std::vector<uint32_t>& ids, size_t length, size_t n_tokens, size_t* n_taken,
                 TokenSequences* sequences) {
  constexpr size_t kFewest = 2;
  for (size_t first = 0; first < ids.size(); first += length) {
    const size_t n = std::min({length, ids.size() - first, n_tokens - *n_taken});
    if (n < kFewest) continue;
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
    sequences->emplace_back(begin, begin + static_cast<std::ptrdiff_t>(n));
    *n_taken += n;
  }
}

}  // namespace

size_t token_count(const TokenSequences& sequences) {
  size_t n = 0;
  for (const std::vector<uint32_t>& tokens : sequences) n += tokens.size();
  return n;
}

TokenSequences read_token_file(const std::filesystem::path& path, uint32_t vocab_size,
                               size_t length, size_t n_tokens) {
  const std::string text = read_small_file(path, kMostBytes);
  TokenSequences sequences;
  size_t n_taken = 0;
  size_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<uint32_t> ids =
        read_line(path, number, std::string_view(text).substr(begin, end - begin), vocab_size);
    take_pieces(ids, length, n_tokens, &n_taken, &sequences);
    begin = end + 1;
  }
  if (sequences.size() < kCalibrationSequences) {
    refuse(path, "gives " + std::to_string(sequences.size()) + " of the " +
                     std::to_string(kCalibrationSequences) +
                     " sequences needed: give more lines of two tokens or more, or lines of more "
                     "than " +
                     std::to_string(length) + " tokens, which are cut");
  }
  return sequences;
}

}  // namespace cria::converter
