// What benches of masks share. The vocabulary: the 128 k tokens of Llama 3's tokenizer, or as many
// made-up words where CRIA_SHARED has it not.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/made_vocabulary.h"
#include "tests/system/tokenizer_fixture.h"

namespace cria::bench {

inline constexpr uint32_t kTokens = 128256;

struct BenchVocabulary {
  std::unique_ptr<test::TestTokenizer> tokenizer;
  format::ModelScalars scalars = {};
  cria_model imported = {};
  test::MadeVocabulary made{format::TokenizerKind::kByteLevelBpe};
  const cria_model* model = nullptr;

  BenchVocabulary() {
    const auto folder = test::references() / "tokenizers" / "llama-3.2";
    if (!test::references().empty() && std::filesystem::is_directory(folder)) {
      tokenizer = std::make_unique<test::TestTokenizer>(folder, kTokens);
      imported.tokenizer = tokenizer->get();
      imported.has_tokenizer = true;
      scalars.vocab_size = kTokens;
      scalars.n_end_tokens = 1;
      scalars.end_tokens[0] = 128001;
      imported.config.model = &scalars;
      model = &imported;
      return;
    }
    std::mt19937 random(1);
    constexpr std::string_view kLetters = "etaoinshrdlu  cmfwypvbgkqjxz\",.:{}\n";
    for (uint32_t i = 0; i < kTokens - 300; ++i) {
      std::string word(random() % 2, ' ');
      for (size_t n = 2 + random() % 7; n > 0; --n) {
        word += kLetters[random() % (random() % 20 == 0 ? kLetters.size() : 26)];
      }
      made.add(word);
    }
    model = made.model();
  }
};

inline const cria_model* model() {
  static BenchVocabulary vocabulary;
  return vocabulary.model;
}

// Tokens of one byte each.
inline const std::vector<uint32_t>& tokens_of_bytes() {
  static const std::vector<uint32_t> tokens = [] {
    std::vector<uint32_t> of_byte(256);
    for (uint32_t token = 0; token < kTokens; ++token) {
      size_t n = 0;
      const char* const bytes = cria_token_text(model(), token, &n);
      if (n == 1 && cria_token_is_special(model(), token) == 0) {
        of_byte[static_cast<uint8_t>(bytes[0])] = token;
      }
    }
    return of_byte;
  }();
  return tokens;
}

// mask(state, place, kept) at each place: where no mask is at hand, and where the last one is.
template <class Place, size_t kPlaces>
void register_masks(const Place (&places)[kPlaces],
                    void (*mask)(benchmark::State&, const Place&, bool)) {
  for (const Place& place : places) {
    for (const bool kept : {false, true}) {
      const std::string name = std::string(kept ? "mask_again/" : "mask/") + place.name;
      benchmark::RegisterBenchmark(name.c_str(), [&place, kept, mask](benchmark::State& state) {
        mask(state, place, kept);
      })->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace cria::bench
