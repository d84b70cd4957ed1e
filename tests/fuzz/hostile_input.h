// What open_fuzz and verify_fuzz make of an input: a model file and how it is used.
//
//   base u8, access u8, settings u8[6], then edits (model_draft.h)
//
// A base from 0xe0 on is one of models_of_kinds, others are base_models.
#pragma once

#include <cstdint>
#include <string>

#include <cria.h>
#include "tests/fuzz/model_draft.h"
#include "tests/support/test_session.h"

namespace cria::fuzz {

struct HostileInput {
  Bytes file;
  uint64_t source_bytes;
  test::Access access;
  cria_config config;  // with a hook where there are several threads
  uint8_t settings[6];
  std::string text;
};

inline constexpr size_t kInputHeaderBytes = 8;

[[nodiscard]] HostileInput read_hostile_input(const uint8_t* data, size_t size);

}  // namespace cria::fuzz
