#include "tests/fuzz/base_models.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "converter/tokenizer_import.h"
#include "quant/model/model_layout.h"
#include "tests/support/model_builder.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/random_kinds.h"
#include "tests/support/test_configs.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria::fuzz {
namespace {

namespace fs = std::filesystem;
using format::Compression;
using format::NumberFormat;
using Json = nlohmann::ordered_json;

constexpr uint32_t kTinyVocab = 300;  // of tiny_checkpoint

// SentencePiece's way to write BPE: byte pieces, U+2581 for a space, merges.
Json spaced_tokenizer() {
  const std::string space = "\xE2\x96\x81";
  Json vocab = Json::object();
  for (const char* text : {"<unk>", "<s>", "</s>"}) vocab[text] = vocab.size();
  constexpr char kHex[] = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = vocab.size();
  }
  vocab[space] = vocab.size();
  for (const char letter : std::string("aehlmorst.!<>|/u[]")) {
    vocab[std::string(1, letter)] = vocab.size();
  }
  Json merges = Json::array();
  const std::pair<std::string, std::string> pairs[] = {
      {space, "t"},   {"h", "e"}, {space + "t", "he"}, {"l", "l"},
      {space, space}, {"a", "m"}, {"ll", "am"},        {"<", "/"}};
  for (const auto& [left, right] : pairs) {
    merges.push_back(left + " " + right);
    vocab[left + right] = vocab.size();
  }
  Json added = Json::array();
  uint32_t id = 0;
  for (const char* text : {"<unk>", "<s>", "</s>"}) {
    added.push_back({{"id", id++},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", space}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", space}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

Json spaced_tokenizer_config() {
  return {
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"chat_template",
       "{% if messages[0]['role'] == 'system' %}{% set system = '<<SYS>>\\n' + "
       "messages[0]['content'].strip() + '\\n<</SYS>>\\n\\n' %}{% set messages = messages[1:] "
       "%}{% else %}{% set system = '' %}{% endif %}{% for message in messages %}{% if "
       "message['role'] == 'user' %}{{ bos_token + '[INST] ' + (system if loop.first else '') + "
       "message['content'].strip() + ' [/INST]' }}{% else %}{{ ' ' + "
       "message['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}"}};
}

void write_spaced_checkpoint(const fs::path& folder) {
  test::write_tiny_checkpoint(folder);
  std::ofstream(folder / "tokenizer.json") << spaced_tokenizer();
  std::ofstream(folder / "tokenizer_config.json") << spaced_tokenizer_config();
  std::ifstream file(folder / "config.json");
  Json config = Json::parse(file);
  file.close();
  config["bos_token_id"] = 1;
  config["eos_token_id"] = 2;
  std::ofstream(folder / "config.json") << config;
}

// The same model with every tensor that an attention of this runtime has, in two kinds of layers of
// which one has no RoPE; down as int8g32.
Bytes with_all_tensors(const Bytes& file) {
  ModelDraft draft(file);
  Bytes section = file;
  ConfigBytes bytes = {};
  const std::span<uint8_t> old = test::section_bytes(section, format::SectionKind::kConfig);
  std::copy(old.begin(), old.end(), bytes.bytes);
  ConfigParts c = test::parts_of(view_config(bytes));
  c.model.flags = format::kSignedScales;
  c.model.rope_tables[0].n_pairs = 3;
  c.model.rope_tables[0].original_context = 16;
  c.kinds[0].flags |= format::flag::kMixerBias | format::flag::kOutputBias |
                      format::flag::kFfnBias | format::flag::kHeadNorms;
  c.kinds.push_back(c.kinds[0]);
  c.kinds[1].rope_table = format::kNoTable;
  c.layers = {0, 1};
  c.count_formats([](const TensorSpec& spec) {
    const bool is_down = spec.role == format::TensorRole::kDown;
    return MatrixFormat{is_down ? NumberFormat::kInt8G32 : NumberFormat::kInt4, 32};
  });
  draft.replace(format::SectionKind::kConfig, test::section_of(c.view()));
  draft.apply({EditKind::kDerive, 0, 0, {}});
  return draft.assemble();
}

std::vector<Bytes> make_models() {
  const fs::path tiny = test::temporary_folder() / "tiny";
  const fs::path spaced = test::temporary_folder() / "spaced";
  test::write_tiny_checkpoint(tiny);
  write_spaced_checkpoint(spaced);
  std::vector<Bytes> models = {
      test::convert_folder(tiny, {NumberFormat::kInt4, 32, Compression::kStored, true}),
      test::convert_folder(tiny, {NumberFormat::kInt4, 32, Compression::kZstd, true}),
      test::convert_folder(spaced, {NumberFormat::kInt8, 0, Compression::kStored, true}),
      test::convert_folder(spaced, {NumberFormat::kInt8, 0, Compression::kZstd, true}),
      test::convert_folder(tiny, {NumberFormat::kF32, 0, Compression::kStored, true}),
      test::convert_folder(spaced, {NumberFormat::kBf16, 0, Compression::kZstd, true}),
      test::convert_folder(tiny, {NumberFormat::kF16, 0, Compression::kStored, false})};
  models.push_back(with_all_tensors(models[0]));
  fs::remove_all(tiny);
  fs::remove_all(spaced);
  return models;
}

}  // namespace

const std::vector<Bytes>& models_of_kinds() {
  static const std::vector<Bytes> models = [] {
    constexpr uint32_t kModels = 16;
    std::vector<Bytes> made;
    for (uint32_t seed = 0; seed < kModels; ++seed) {
      made.push_back(test::build_model(test::random_kinds(seed, test::all_kinds()).view(), seed));
    }
    return made;
  }();
  return models;
}

const std::vector<Bytes>& base_models() {
  static const std::vector<Bytes> models = make_models();
  return models;
}

Bytes spaced_tokenizer_section() {
  const fs::path spaced = test::temporary_folder() / "spaced";
  write_spaced_checkpoint(spaced);
  Bytes section = converter::import_tokenizer(spaced, kTinyVocab).tokenizer_section;
  fs::remove_all(spaced);
  return section;
}

}  // namespace cria::fuzz
