// Models of llama2.c, in each of their versions, against a folder with the same weights.
#include <gtest/gtest.h>

#include <cmath>

#include "converter/convert.h"
#include "converter/llama2c/llama2c_checkpoint.h"
#include "converter/llama2c/llama2c_tokenizer.h"
#include "tests/unit/converter/gguf_writer.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::converter {
namespace {

using test::GgufWriter;
using test::TinyCheckpoint;

// 64 wide, 4 heads of 16 over 2, 96 wide FFN, one layer, 300 tokens, 32 positions.
constexpr int32_t kVocab = 300;
constexpr size_t kTableBytes = 32 * 16 * sizeof(float);  // cosines and sines of version 0
constexpr uint32_t kMagic = 0x616b3432;

std::string numbers(int32_t vocab) {
  std::string bytes;
  for (const int32_t number : {64, 96, 1, 4, 2, vocab, 32}) {
    bytes += GgufWriter::bytes_of_number(number);
  }
  return bytes;
}

TinyCheckpoint checkpoint() { return TinyCheckpoint(64, 96, kVocab); }

const std::vector<std::string> kNorms = {"model.layers.0.input_layernorm.weight",
                                         "model.layers.0.post_attention_layernorm.weight",
                                         "model.norm.weight"};
const std::vector<std::string> kMatrices = {"model.embed_tokens.weight",
                                            "model.layers.0.self_attn.q_proj.weight",
                                            "model.layers.0.self_attn.k_proj.weight",
                                            "model.layers.0.self_attn.v_proj.weight",
                                            "model.layers.0.self_attn.o_proj.weight",
                                            "model.layers.0.mlp.gate_proj.weight",
                                            "model.layers.0.mlp.down_proj.weight",
                                            "model.layers.0.mlp.up_proj.weight",
                                            "lm_head.weight"};

std::string stored(TinyCheckpoint* source, const std::string& name) {
  const test::TestTensor& tensor = source->tensor(name);
  const bool is_paired =
      name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
  return is_paired ? GgufWriter::paired(tensor) : tensor.data;
}

std::string version_0() {
  TinyCheckpoint source = checkpoint();
  std::string bytes = numbers(-kVocab) + stored(&source, kMatrices[0]) + stored(&source, kNorms[0]);
  for (size_t i = 1; i < 5; ++i) bytes += stored(&source, kMatrices[i]);
  bytes += stored(&source, kNorms[1]);
  for (size_t i = 5; i < 8; ++i) bytes += stored(&source, kMatrices[i]);
  return bytes + stored(&source, kNorms[2]) + std::string(kTableBytes, '\x55') +
         stored(&source, kMatrices[8]);
}

std::string header(uint32_t version) {
  std::string bytes = GgufWriter::bytes_of_number(kMagic) + GgufWriter::bytes_of_number(version) +
                      numbers(kVocab) + std::string(1, '\0');
  if (version == 2) bytes += GgufWriter::bytes_of_number(int32_t{64});
  bytes.resize(256, '\0');
  return bytes;
}

std::string version_1() {
  TinyCheckpoint source = checkpoint();
  std::string bytes = header(1);
  for (const std::string& name : kNorms) bytes += stored(&source, name);
  for (const std::string& name : kMatrices) bytes += stored(&source, name);
  return bytes;
}

// Quantizes in groups of 64; codes, then scales.
std::string as_int8(std::string* data) {
  std::string codes;
  std::string scales;
  for (size_t begin = 0; begin < data->size(); begin += 64 * sizeof(float)) {
    float values[64];
    std::memcpy(values, data->data() + begin, sizeof values);
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    const float scale = largest / 127;
    for (float& value : values) {
      const auto code = static_cast<int8_t>(std::lround(value / scale));
      codes += static_cast<char>(code);
      value = static_cast<float>(code) * scale;
    }
    scales += GgufWriter::bytes_of_number(scale);
    std::memcpy(data->data() + begin, values, sizeof values);
  }
  return codes + scales;
}

// source becomes what version 2 can hold of it.
std::string version_2(TinyCheckpoint* source) {
  std::string bytes = header(2);
  for (const std::string& name : kNorms) bytes += stored(source, name);
  for (const std::string& name : kMatrices) {
    std::string data = stored(source, name);
    // Groups are along rows, so that they are the same in either order of rows.
    bytes += as_int8(&data);
    as_int8(&source->tensor(name).data);
  }
  return bytes;
}

std::string piece(float score, const std::string& text) {
  return GgufWriter::bytes_of_number(score) +
         GgufWriter::bytes_of_number(static_cast<int32_t>(text.size())) + text;
}

std::string tokenizer(int32_t vocab) {
  std::string bytes = GgufWriter::bytes_of_number(int32_t{8});
  for (int32_t id = 0; id < vocab; ++id) {
    char byte[8];
    std::snprintf(byte, sizeof byte, "<0x%02X>", static_cast<unsigned>(id - 3) & 0xff);
    const std::string word = id == 259 ? " " : id == 260 ? "a" : id == 261 ? " a" : "";
    const std::string name = id == 0 ? "<unk>" : id == 1 ? "\n<s>\n" : "\n</s>\n";
    const std::string filler = "w" + std::to_string(id);
    bytes += piece(static_cast<float>(-id), id < 3         ? name
                                            : id < 259     ? byte
                                            : word.empty() ? filler
                                                           : word);
  }
  return bytes;
}

ConversionReport convert_f32(const std::filesystem::path& model,
                             const std::filesystem::path& output, TokenizerChoice request) {
  Options options;
  options.model = model;
  options.output = output;
  options.weights = format::NumberFormat::kF32;
  options.group_size = 0;
  options.tokenizer = request;
  Progress progress(Verbosity::kQuiet);
  return convert(options, &progress);
}

void expect_same_weights(const TinyCheckpoint& source, const std::string& bytes,
                         const std::string& what) {
  const test::TempFolder folder;
  source.write(folder / "hf");
  test::write_file(folder / "m.bin", bytes);
  convert_f32(folder / "hf", folder / "hf.cria", TokenizerChoice::kNone);
  const ConversionReport report =
      convert_f32(folder / "m.bin", folder / "m.cria", TokenizerChoice::kNone);
  EXPECT_EQ(report.weights_text, what);
  EXPECT_EQ(report.config().model->max_context, 32u);
  const test::ModelReadBack wanted(folder / "hf.cria");
  const test::ModelReadBack got(folder / "m.cria");
  ASSERT_EQ(wanted.tensors().size(), got.tensors().size());
  for (size_t i = 0; i < wanted.tensors().size(); ++i) {
    EXPECT_EQ(wanted.raw(wanted.tensors()[i]), got.raw(got.tensors()[i])) << what << " " << i;
  }
}

TEST(Llama2c, HasTheWeightsOfTheFolder) {
  expect_same_weights(checkpoint(), version_0(), "llama2.c version 0, F32");
  expect_same_weights(checkpoint(), version_1(), "llama2.c version 1, F32");
  TinyCheckpoint rounded = checkpoint();
  const std::string bytes = version_2(&rounded);
  expect_same_weights(rounded, bytes, "llama2.c version 2, int8, F32");
}

TEST(Llama2c, OfAnotherSizeIsRefused) {
  const test::TempFolder folder;
  for (const std::string& bytes : {version_0(), version_1()}) {
    for (const std::string& changed : {bytes.substr(0, bytes.size() - 4), bytes + "more"}) {
      test::write_file(folder / "m.bin", changed);
      test::expect_invalid({"m.bin", "asks for"},
                           [&] { const Llama2cCheckpoint m(folder / "m.bin", {}); });
    }
  }
  for (size_t n : {size_t{0}, size_t{3}, size_t{20}, size_t{36}}) {
    test::write_file(folder / "m.bin", version_1().substr(0, n));
    test::expect_invalid({"m.bin"}, [&] { const Llama2cCheckpoint m(folder / "m.bin", {}); });
  }
}

TEST(Llama2c, OfImpossibleNumbersIsRefused) {
  const test::TempFolder folder;
  for (size_t number = 0; number < 7; ++number) {
    for (const int32_t value : {0, INT32_MIN, INT32_MAX}) {
      std::string bytes = version_0();
      std::memcpy(bytes.data() + number * 4, &value, sizeof value);
      test::write_file(folder / "m.bin", bytes);
      test::expect_invalid({"is not a llama2.c model"},
                           [&] { const Llama2cCheckpoint m(folder / "m.bin", {}); });
    }
  }
}

// The file is as long as its header asks for, and every number is within its own limits.
std::string with_numbers(int32_t dim, int32_t n_heads, int32_t n_kv_heads) {
  std::string bytes;
  for (const int32_t number : {dim, 96, 1, n_heads, n_kv_heads, kVocab, 32}) {
    bytes += GgufWriter::bytes_of_number(number);
  }
  const size_t head_dim = static_cast<size_t>(dim / n_heads);
  const size_t width = static_cast<size_t>(dim);
  const size_t kv_dim = head_dim * static_cast<size_t>(n_kv_heads);
  const size_t n_values = width * (kVocab + 3 + 2 * width + 2 * kv_dim + 3 * 96) + 32 * head_dim;
  return bytes + std::string(n_values * sizeof(float), '\0');
}

TEST(Llama2c, WhatIsRefusedIsCalledAsItsHeaderCallsIt) {
  const test::TempFolder folder;
  test::write_file(folder / "m.bin", with_numbers(514, 1, 1));
  test::expect_invalid({"m.bin: dim over n_heads gives heads of 514 elements"}, [&] {
    convert_f32(folder / "m.bin", folder / "m.cria", TokenizerChoice::kNone);
  });
}

TEST(Llama2c, TakesTheTokenizerBesideIt) {
  const test::TempFolder folder;
  test::write_file(folder / "m.bin", version_1());
  const auto run = [&] {
    return convert_f32(folder / "m.bin", folder / "m.cria", TokenizerChoice::kRequired);
  };
  test::expect_invalid({"no tokenizer.bin or tok300.bin beside it", "--tokenizer"}, run);
  test::write_file(folder / "tok300.bin", tokenizer(kVocab));
  EXPECT_EQ(run().tokenizer_name, "SentencePiece BPE, 300 tokens");
  // This one counts first.
  test::write_file(folder / "tokenizer.bin", tokenizer(kVocab - 1));
  test::expect_invalid({"tokenizer.bin", "has 299 pieces, the model 300"}, run);
}

TEST(Llama2cTokenizer, HasSpacesBytesAndEnds) {
  const std::string bytes = tokenizer(kVocab);
  const std::span<const uint8_t> span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const TokenizerModel model = read_llama2c_tokenizer(span, kVocab, "tok");
  EXPECT_EQ(model.byte_tokens['A'], 3u + 'A');
  EXPECT_EQ(model.tokens[1].text, "<s>");
  EXPECT_EQ(model.bos_token, 1u);
  EXPECT_EQ(model.eos_token, 2u);
  EXPECT_EQ(model.tokens[261].text,
            "\xE2\x96\x81"
            "a");
  ASSERT_EQ(model.merges.size(), 1u);
  EXPECT_EQ(model.merges[0].result, 261u);
  EXPECT_NE(model.flags & format::kAddBos, 0u);
  EXPECT_NE(model.flags & format::kPrependSpace, 0u);
  for (size_t n = 0; n < bytes.size(); n += 7) {
    test::expect_invalid(
        {"tok"}, [&] { static_cast<void>(read_llama2c_tokenizer(span.first(n), kVocab, "tok")); });
  }
  test::expect_invalid({"has more than the model's 299"},
                       [&] { static_cast<void>(read_llama2c_tokenizer(span, kVocab - 1, "tok")); });
}

}  // namespace
}  // namespace cria::converter
