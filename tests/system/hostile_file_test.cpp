// Files whose checksums all hold but whose contents lie. Each is refused with a code or runs
// without harm; the sanitizer build watches.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <random>

#include "quant/text/chat_template_format.h"
#include "quant/text/tokenizer_format.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/plain_chat.h"
#include "tests/support/sampling.h"
#include "tests/support/sampling_of.h"
#include "tests/support/seeds.h"
#include "tests/support/test_session.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria {
namespace {

using format::SectionKind;
using test::Access;
using test::Bytes;
using test::MemorySource;

constexpr size_t kMostMemory = size_t{16} << 20;

const Bytes& tiny_model(format::Compression compression) {
  static const auto make = [](format::Compression c) {
    const auto folder = test::temporary_folder() / "tiny";
    test::write_tiny_checkpoint(folder);
    return test::convert_folder(folder, {format::NumberFormat::kInt4, 32, c, true});
  };
  static const Bytes zstd = make(format::Compression::kZstd);
  static const Bytes stored = make(format::Compression::kStored);
  return compression == format::Compression::kZstd ? zstd : stored;
}

class Opener {
 public:
  Opener() : memory_(kMostMemory), scratch_(CRIA_VERIFY_SCRATCH_BYTES) {}

  cria_status verify(const MemorySource& source) {
    return cria_verify(&source.source(), scratch_.data(), scratch_.size(), nullptr, nullptr,
                       nullptr);
  }
  // Opens and, when that works, uses what it has.
  cria_status open(const MemorySource& source) {
    cria_config config = {};
    config.backend = CRIA_BACKEND_EXACT;
    config.prefill_chunk = 16;
    config.source_is_mapped = source.source().map != nullptr ? 1 : 0;
    cria_instance cria = {};
    const cria_status status =
        cria_open(memory_.data(), memory_.size(), &source.source(), &config, &cria);
    EXPECT_EQ(test::bytes_of(cria) != 0, status == CRIA_OK);
    if (status == CRIA_OK) use(cria);
    return status;
  }

 private:
  static void use(const cria_instance& cria) {
    uint32_t tokens[64];
    size_t n = 0;
    const char* text = "the <|eot_id|> llama \xf0\x9f\xa6\x99 eats";
    const cria_message message = {CRIA_USER, text, std::strlen(text)};
    static_cast<void>(
        cria_encode(cria.workspace, text, std::strlen(text), CRIA_ENCODE_PARSE, tokens, 64, &n));
    if (test::encode_chat(cria.workspace, &message, 1, 0, 1, tokens, 64, &n) != CRIA_OK || n == 0 ||
        cria_prefill(cria.workspace, cria.session, tokens, n) != CRIA_OK) {
      return;
    }
    const cria_sampling sampling = test::sampling_of(0.8f, 0.9f, 0.05f, 1.1f, 20);
    cria_text_state state = {};
    char out[CRIA_TEXT_BYTES];
    for (int i = 0; i < 3; ++i) {
      uint32_t token = 0;
      ASSERT_EQ(cria_sample(cria.workspace, cria.session, &sampling, &token), CRIA_OK);
      static_cast<void>(cria_decode_token(cria.model, &state, token, out, sizeof out, &n));
      if (cria_prefill(cria.workspace, cria.session, &token, 1) != CRIA_OK) break;
    }
  }

  test::AlignedMemory memory_;
  test::AlignedMemory scratch_;
};

struct Lie {
  const char* what;
  SectionKind section;
  size_t offset;
  uint32_t value;  // written as 4 bytes
};

// Places in the config section of a model of one kind.
constexpr size_t kKind = sizeof(format::ModelScalars);
constexpr size_t kLayers = kKind + sizeof(format::LayerKind);
constexpr size_t kCounts = kLayers + 8;

TEST(HostileFile, LiesWithGoodChecksumsAreRefused) {
  const Lie lies[] = {
      {"more layers", SectionKind::kConfig, offsetof(format::ModelScalars, n_layers), 3},
      {"no layers", SectionKind::kConfig, offsetof(format::ModelScalars, n_layers), 0},
      {"a larger vocabulary", SectionKind::kConfig, offsetof(format::ModelScalars, vocab_size),
       1 << 21},
      {"a smaller vocabulary", SectionKind::kConfig, offsetof(format::ModelScalars, vocab_size),
       10},
      {"a wider model", SectionKind::kConfig, offsetof(format::ModelScalars, d_model), 1 << 17},
      {"an unknown flag", SectionKind::kConfig, offsetof(format::ModelScalars, flags), 0x100},
      {"more kinds", SectionKind::kConfig, offsetof(format::ModelScalars, n_kinds), 2},
      {"more counts", SectionKind::kConfig, offsetof(format::ModelScalars, n_counts), 20},
      {"fewer counts", SectionKind::kConfig, offsetof(format::ModelScalars, n_counts), 3},
      {"odd heads", SectionKind::kConfig, kKind + offsetof(format::LayerKind, key_dim), 0xf000f},
      {"another mixer", SectionKind::kConfig, kKind + offsetof(format::LayerKind, mixer),
       0x1010106},
      {"reserved bytes of a kind", SectionKind::kConfig,
       kKind + offsetof(format::LayerKind, reserved2), 1},
      {"a layer of no kind", SectionKind::kConfig, kLayers, 0x100},
      {"bytes behind the layers", SectionKind::kConfig, kLayers + 4, 0x1000000},
      {"another format", SectionKind::kConfig, kCounts, 0x5000003},
      {"more matrices", SectionKind::kConfig, kCounts + 4, 3},
      {"reserved bytes", SectionKind::kConfig, offsetof(format::ModelScalars, reserved), 1},
      {"another role", SectionKind::kTensorDirectory, 0, 5},
      {"other rows", SectionKind::kTensorDirectory, offsetof(format::TensorEntry, rows), 2},
      {"other raw bytes", SectionKind::kTensorDirectory, offsetof(format::TensorEntry, raw_bytes),
       4},
      {"a chunk elsewhere", SectionKind::kChunkTable, offsetof(format::ChunkEntry, offset), 64},
      {"a chunk past the end", SectionKind::kChunkTable, offsetof(format::ChunkEntry, offset),
       0xffffffc0},
      {"a longer chunk", SectionKind::kChunkTable, offsetof(format::ChunkEntry, stored_bytes),
       0x40000},
      {"an empty chunk", SectionKind::kChunkTable, offsetof(format::ChunkEntry, stored_bytes), 0},
      {"a larger raw size", SectionKind::kChunkTable, offsetof(format::ChunkEntry, raw_bytes),
       0x40000},
      {"an unknown codec", SectionKind::kChunkTable, offsetof(format::ChunkEntry, compression), 7},
      {"halves apart of rope's floats", SectionKind::kChunkTable,
       offsetof(format::ChunkEntry, compression), 2},
      {"more tokens", SectionKind::kTokenizer, offsetof(format::TokenizerHeader, n_tokens),
       0x7fffffff},
      {"more merges", SectionKind::kTokenizer, offsetof(format::TokenizerHeader, n_merges),
       0x7fffffff},
      {"more text", SectionKind::kTokenizer, offsetof(format::TokenizerHeader, text_bytes),
       0x7fffffff},
      {"another kind", SectionKind::kTokenizer, 0, 9},
      {"more rules of the template", SectionKind::kChatTemplate,
       offsetof(format::ChatTemplateHeader, n_rules), 0x7fffffff},
      {"longer template strings", SectionKind::kChatTemplate,
       offsetof(format::ChatTemplateHeader, string_bytes), 0x7fffffff},
  };
  Opener opener;
  size_t refused = 0;
  for (const auto compression : {format::Compression::kZstd, format::Compression::kStored}) {
    for (const Lie& lie : lies) {
      Bytes file = tiny_model(compression);
      const std::span<uint8_t> section = test::section_bytes(file, lie.section);
      ASSERT_GE(section.size(), lie.offset + 4) << lie.what;
      std::memcpy(section.data() + lie.offset, &lie.value, 4);
      test::mend_checksums(file);
      for (const Access access : {Access::kRead, Access::kMap}) {
        const MemorySource source(file, access);
        EXPECT_EQ(opener.verify(source), CRIA_INVALID_MODEL) << lie.what;
        const cria_status status = opener.open(source);
        EXPECT_TRUE(status == CRIA_INVALID_MODEL || status == CRIA_MEMORY_TOO_SMALL)
            << lie.what << ": " << cria_status_message(status);
        ++refused;
      }
    }
  }
  EXPECT_EQ(refused, 2u * 2u * std::size(lies));
}

TEST(HostileFile, HeadersAreRefusedWithTheirOwnStatus) {
  Opener opener;
  const Bytes good = tiny_model(format::Compression::kZstd);
  EXPECT_EQ(opener.open(MemorySource(good)), CRIA_OK);
  Bytes file = good;
  file[0] = 'X';
  EXPECT_EQ(opener.open(MemorySource(file)), CRIA_NOT_A_MODEL);
  file = good;
  file[8] = 1;
  EXPECT_EQ(opener.open(MemorySource(file)), CRIA_UNSUPPORTED_VERSION);
  file = good;
  file.pop_back();
  EXPECT_EQ(opener.open(MemorySource(file)), CRIA_TRUNCATED);
  file = good;
  file.push_back(0);
  EXPECT_EQ(opener.open(MemorySource(file)), CRIA_INVALID_MODEL);
  EXPECT_EQ(opener.open(MemorySource({good.data(), 10})), CRIA_NOT_A_MODEL);
  MemorySource failing(good);
  cria_source broken = failing.source();
  broken.read = [](void*, uint64_t, void*, size_t) { return 1; };
  cria_model_info info;
  EXPECT_EQ(cria_inspect(&broken, &info), CRIA_READ_FAILED);
}

// A short file must not make anyone reserve much: what is asked for before reading is bounded by
// what the file can hold.
void open_changed_files(uint32_t seed) {
  const SectionKind kinds[] = {SectionKind::kConfig,       SectionKind::kTokenizer,
                               SectionKind::kChatTemplate, SectionKind::kTensorDirectory,
                               SectionKind::kChunkTable,   SectionKind::kData};
  const size_t rounds = test::sweep_step() == 1 ? 6000 : 600;
  std::mt19937 random(seed);
  Opener opener;
  size_t opened = 0;
  for (size_t round = 0; round < rounds; ++round) {
    const auto compression =
        round % 2 == 0 ? format::Compression::kZstd : format::Compression::kStored;
    Bytes file = tiny_model(compression);
    const SectionKind kind = kinds[random() % std::size(kinds)];
    const std::span<uint8_t> section = test::section_bytes(file, kind);
    const size_t n_changes = 1 + random() % 4;
    for (size_t i = 0; i < n_changes; ++i) {
      uint8_t& byte = section[random() % section.size()];
      byte = random() % 3 == 0 ? 0xff : static_cast<uint8_t>(random());
    }
    test::mend_checksums(file);
    const MemorySource source(file, round % 4 < 2 ? Access::kRead : Access::kMap);
    SCOPED_TRACE(round);
    static_cast<void>(opener.verify(source));
    opened += opener.open(source) == CRIA_OK ? 1 : 0;
  }
  std::printf("%zu files, %zu opened and ran\n", rounds, opened);
  EXPECT_GT(opened, rounds / 60);
  EXPECT_LT(opened, rounds);
}

TEST(HostileFile, RandomChangesWithGoodChecksumsNeverHarm) {
  test::for_each_seed({20261120}, open_changed_files);
}

}  // namespace
}  // namespace cria
