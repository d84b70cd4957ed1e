// Tables of a pre-tokenizer as docs/model_format.md describes them, made without the converter: the
// regex of GPT-2 with every character past ASCII as a letter.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "quant/text/pre_tokenizer_format.h"

namespace cria::test {

// One stage, in parts that a test may put wrong.
struct WordTables {
  format::PreTokenizerHeader header = {};
  std::vector<uint32_t> runs;
  std::vector<format::StageEntry> stages;
  std::vector<uint16_t> transitions;  // of all stages

  [[nodiscard]] std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> out;
    const auto append = [&out](const void* data, size_t n_bytes) {
      const auto* begin = static_cast<const uint8_t*>(data);
      out.insert(out.end(), begin, begin + n_bytes);
    };
    append(&header, sizeof(header));
    append(runs.data(), runs.size() * sizeof(uint32_t));
    append(stages.data(), stages.size() * sizeof(format::StageEntry));
    append(transitions.data(), transitions.size() * sizeof(uint16_t));
    return out;
  }
};

// Of one stage; every character is in class 0.
inline WordTables tables_of_classes(uint32_t n_classes) {
  WordTables tables;
  tables.header.n_classes = n_classes;
  tables.header.n_runs = 1;
  tables.header.n_stages = 1;
  tables.runs = {format::kAsciiCodes << format::kRunClassBits};
  return tables;
}

// Classes 1 and 2 are the letters x and y; everything else is class 0. The rows are those of the
// states from the start on: x, y and others are told apart by columns 1, 2 and 0, the text's end is
// column 3.
inline WordTables xy_tables(const std::vector<uint16_t>& rows) {
  constexpr uint32_t kColumns = 4;
  WordTables tables = tables_of_classes(kColumns - 1);
  tables.header.ascii_classes[static_cast<size_t>('x')] = 1;
  tables.header.ascii_classes[static_cast<size_t>('y')] = 2;
  tables.transitions.assign(kColumns, 0);
  tables.transitions.insert(tables.transitions.end(), rows.begin(), rows.end());
  tables.header.n_transitions = static_cast<uint32_t>(tables.transitions.size());
  tables.stages = {{tables.header.n_transitions / kColumns, 0, 0}};
  return tables;
}

inline WordTables gpt2_tables() {
  constexpr uint8_t kAscii[format::kAsciiCodes] = {
      0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4,
      4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
      5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 5, 5, 5, 6, 7, 5, 5,
      5, 5, 5, 5, 8, 6, 5, 5, 5, 5, 9, 6, 6, 5, 9, 5, 5, 5, 5, 0, 0, 0, 0, 0,
  };
  constexpr uint32_t kRuns[] = {
      0x008005, 0x00850a, 0x008605, 0x00a00a, 0x00a105, 0x16800a, 0x168105, 0x20000a, 0x200b05,
      0x20280a, 0x202a05, 0x202f0a, 0x203005, 0x205f0a, 0x206005, 0x30000a, 0x300105,
  };
  constexpr uint16_t kTransitions[] = {
      0, 0,  0,  0, 0,  0,  0,  0,  0,  0,  0,  0, 4, 6,  8,  10, 12, 14, 14, 14, 14, 14, 14, 0,
      5, 1,  1,  5, 1,  1,  1,  1,  1,  1,  1,  1, 1, 17, 17, 1,  1,  1,  1,  1,  1,  1,  17, 1,
      5, 17, 17, 5, 13, 15, 15, 15, 15, 15, 15, 1, 5, 1,  1,  5,  1,  1,  19, 1,  21, 23, 1,  1,
      1, 1,  1,  1, 13, 1,  1,  1,  1,  1,  1,  1, 1, 1,  1,  1,  1,  15, 15, 15, 15, 15, 15, 1,
      0, 17, 17, 0, 0,  0,  0,  0,  0,  0,  17, 1, 1, 1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,
      0, 0,  0,  0, 0,  0,  0,  0,  18, 0,  0,  0, 0, 0,  0,  0,  0,  0,  0,  18, 0,  0,  0,  0,
  };
  constexpr uint32_t kClasses = 11;
  WordTables tables = tables_of_classes(kClasses);
  std::memcpy(tables.header.ascii_classes, kAscii, sizeof(kAscii));
  tables.runs.assign(std::begin(kRuns), std::end(kRuns));
  tables.header.n_runs = static_cast<uint32_t>(tables.runs.size());
  tables.transitions.assign(std::begin(kTransitions), std::end(kTransitions));
  tables.header.n_transitions = static_cast<uint32_t>(tables.transitions.size());
  tables.stages = {{tables.header.n_transitions / (kClasses + 1), 0, 0}};
  return tables;
}

}  // namespace cria::test
