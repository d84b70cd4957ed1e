#include "converter/gguf/gguf_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "converter/convert.h"
#include "converter/gguf/gguf_blocks.h"
#include "converter/tensor_views.h"
#include "quant/numbers/float16.h"
#include "tests/unit/converter/gguf_writer.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::converter {
namespace {

using format::TensorRole;
using test::GgufWriter;
using test::TinyCheckpoint;

ConversionReport convert_f32(const std::filesystem::path& model,
                             const std::filesystem::path& output, TokenizerChoice tokenizer) {
  Options options;
  options.model = model;
  options.output = output;
  options.weights = format::NumberFormat::kF32;
  options.group_size = 0;
  options.tokenizer = tokenizer;
  Progress progress(Verbosity::kQuiet);
  return convert(options, &progress);
}

GgufWriter tiny_gguf() {
  GgufWriter writer;
  writer.put_tiny_llama();
  writer.put_tensors(TinyCheckpoint());
  return writer;
}

// Refuses a tiny file of another header.
void expect_refused(GgufWriter writer, const std::vector<std::string>& parts) {
  const test::TempFolder folder;
  test::write_file(folder / "m.gguf", writer.bytes());
  test::expect_invalid(
      parts, [&] { convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone); });
}

TEST(GgufCheckpoint, BecomesTheModelOfTheFolderThatItWasMadeOf) {
  const test::TempFolder folder;
  TinyCheckpoint source;
  source.config.erase("head_dim");
  source.write(folder / "hf");
  convert_f32(folder / "hf", folder / "hf.cria", TokenizerChoice::kNone);
  test::write_file(folder / "m.gguf", tiny_gguf().bytes());
  const ConversionReport report =
      convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
  EXPECT_EQ(report.weights_text, "GGUF version 3, F32");
  const test::ModelReadBack from_folder(folder / "hf.cria");
  const test::ModelReadBack from_gguf(folder / "m.cria");
  ASSERT_EQ(from_folder.tensors().size(), from_gguf.tensors().size());
  for (size_t i = 0; i < from_folder.tensors().size(); ++i) {
    EXPECT_EQ(from_folder.raw(from_folder.tensors()[i]), from_gguf.raw(from_gguf.tensors()[i]))
        << i;
  }
  EXPECT_EQ(from_folder.config().model->max_context, from_gguf.config().model->max_context);
  EXPECT_EQ(from_folder.config().model->flags, from_gguf.config().model->flags);
  EXPECT_EQ(from_folder.kind().flags, from_gguf.kind().flags);
}

// llama.cpp gives the largest weight of a block the code -8, so that half of the scales are below
// zero.
TEST(GgufCheckpoint, KeepsQ4_0CodeForCode) {
  constexpr size_t kRows = 96;
  constexpr size_t kCols = 64;
  constexpr size_t kBlock = 32;
  const test::TempFolder folder;
  GgufWriter writer = tiny_gguf();
  std::string data;
  for (size_t block = 0; block < kRows * kCols / kBlock; ++block) {
    const float scale = (block % 2 == 0 ? -0.0625f : 0.03125f) * static_cast<float>(1 + block % 5);
    data += GgufWriter::bytes_of_number(f32_to_f16(scale));
    for (size_t i = 0; i < kBlock / 2; ++i) data += static_cast<char>(i * 17 + block * 7);
  }
  for (test::GgufTestTensor& tensor : writer.tensors) {
    if (tensor.name == "blk.0.ffn_gate.weight") tensor.type = kGgufQ4_0, tensor.data = data;
  }
  test::write_file(folder / "m.gguf", writer.bytes());
  convert_f32(folder / "m.gguf", folder / "f32.cria", TokenizerChoice::kNone);
  Options options;
  options.model = folder / "m.gguf";
  options.output = folder / "m.cria";
  options.tokenizer = TokenizerChoice::kNone;
  Progress progress(Verbosity::kQuiet);
  const ConversionReport report = convert(options, &progress);
  KeptGroups kept;
  for (const EncodedTensor& tensor : report.tensors) {
    kept.exact += tensor.kept.exact;
    kept.requantized += tensor.kept.requantized;
  }
  EXPECT_EQ(kept.exact, kRows * kCols / kBlock);
  EXPECT_EQ(kept.requantized, 0u);
  const test::ModelReadBack want(folder / "f32.cria");
  const test::ModelReadBack got(folder / "m.cria");
  EXPECT_EQ(got.matrix(got.tensor(TensorRole::kGate, 0)),
            want.matrix(want.tensor(TensorRole::kGate, 0)));
}

TEST(GgufCheckpoint, WithoutOutputMatrixIsTied) {
  const test::TempFolder folder;
  GgufWriter writer = tiny_gguf();
  std::erase_if(writer.tensors, [](const auto& t) { return t.name == "output.weight"; });
  test::write_file(folder / "m.gguf", writer.bytes());
  const ConversionReport report =
      convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
  EXPECT_TRUE(has_flag(report.config(), format::kTiedEmbedding));
}

TEST(GgufCheckpoint, DividesFrequenciesByItsFactors) {
  const test::TempFolder folder;
  GgufWriter writer = tiny_gguf();
  std::string factors;
  for (int i = 0; i < 8; ++i) factors += GgufWriter::bytes_of_number(i < 4 ? 1.0f : 8.0f);
  writer.tensors.push_back({"rope_freqs.weight", {8}, 0, factors});
  test::write_file(folder / "m.gguf", writer.bytes());
  const ConversionReport report =
      convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
  EXPECT_TRUE(report.warnings.empty());
  const test::ModelReadBack model(folder / "m.cria");
  const std::string raw = model.raw(model.tensor(TensorRole::kRope, format::kNone));
  float frequencies[8];
  ASSERT_EQ(raw.size(), sizeof frequencies);
  std::memcpy(frequencies, raw.data(), raw.size());
  EXPECT_EQ(frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(frequencies[4], 0.01f / 8);
  writer.tensors.back().shape = {4};
  writer.tensors.back().data.resize(16);
  expect_refused(writer, {"rope.dimension_count", "does not fit the frequency factors"});
}

// The first frequency that is not 1, of a tiny file with what put adds.
template <typename Put>
float second_frequency(const Put& put) {
  const test::TempFolder folder;
  GgufWriter writer = tiny_gguf();
  put(&writer);
  test::write_file(folder / "m.gguf", writer.bytes());
  convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
  const test::ModelReadBack file(folder / "m.cria");
  const std::string raw = file.raw(file.tensors()[0]);
  float value = 0;
  std::memcpy(&value, raw.data() + sizeof(float), sizeof(float));
  return value;
}

TEST(GgufCheckpoint, AFactorWithoutATypeIsLinear) {
  const float plain = second_frequency([](GgufWriter*) {});
  const auto with_factor = [](GgufWriter* w) { w->put_number("llama.rope.scaling.factor", 4); };
  EXPECT_EQ(second_frequency(with_factor), plain / 4);
  EXPECT_EQ(second_frequency([&](GgufWriter* w) {
              w->put_text("llama.rope.scaling.type", "none");
              with_factor(w);
            }),
            plain);
  for (const auto& [type, words] : {std::pair{"yarn", "scaling.factor is missing"},
                                    {"linear", "scaling.factor is missing"},
                                    {"longrope", "no factors"}}) {
    GgufWriter writer = tiny_gguf();
    writer.put_text("llama.rope.scaling.type", type);
    expect_refused(writer, {words});
  }
}

TEST(GgufCheckpoint, WhatIsSaidOfEveryLayerAlikeIsSaidOnce) {
  constexpr const char* kKey = "llama.attention.head_count_kv";
  const auto with_list = [](const std::vector<uint32_t>& kv) {
    GgufWriter writer;
    writer.leave_out(kKey);
    writer.put_tiny_llama();
    writer.put_numbers(kKey, 4, kv);
    writer.put_tensors(TinyCheckpoint());
    return writer;
  };
  const test::TempFolder folder;
  test::write_file(folder / "m.gguf", with_list({2, 2}).bytes());
  (void)convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
  EXPECT_EQ(test::ModelReadBack(folder / "m.cria").kind().n_key_heads, 2U);
  expect_refused(with_list({2, 4}), {kKey, "list"});
  expect_refused(with_list({}), {kKey, "list"});
}

TEST(GgufCheckpoint, OfGraniteMayBeWithoutRope) {
  const auto flagged = [](bool has_rope) {
    const test::TempFolder folder;
    GgufWriter writer;
    writer.put_tiny_llama("granite");
    writer.put_flag("granite.rope.scaling.finetuned", has_rope);
    writer.put_tensors(TinyCheckpoint());
    test::write_file(folder / "m.gguf", writer.bytes());
    (void)convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
    return test::ModelReadBack(folder / "m.cria").kind().rope_table;
  };
  EXPECT_EQ(flagged(true), 0U);
  EXPECT_EQ(flagged(false), format::kNoTable);
}

TEST(GgufCheckpoint, SaysHowRowsBecomeAnEmbedding) {
  constexpr format::Pooling kWanted[] = {format::Pooling::kUnsaid, format::Pooling::kMean,
                                         format::Pooling::kFirst, format::Pooling::kLast};
  const test::TempFolder folder;
  for (uint32_t type = 0; type < std::size(kWanted); ++type) {
    GgufWriter writer = tiny_gguf();
    writer.put_count("llama.pooling_type", type);
    test::write_file(folder / "m.gguf", writer.bytes());
    convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
    const test::ModelReadBack model(folder / "m.cria");
    EXPECT_EQ(model.config().model->pooling, static_cast<uint32_t>(kWanted[type]));
    EXPECT_EQ(has_flag(model.config(), format::kUnitEmbeddings), type != 0);
  }
  GgufWriter reranker = tiny_gguf();
  reranker.put_count("llama.pooling_type", 4);
  expect_refused(reranker, {"llama.pooling_type", "4 is not supported"});
  GgufWriter encoder = tiny_gguf();
  encoder.put_flag("llama.attention.causal", false);
  expect_refused(encoder, {"llama.attention.causal", "is false"});
}

TEST(GgufCheckpoint, OfSeveralPartsIsOpenedByTheFirst) {
  const test::TempFolder folder;
  GgufWriter whole = tiny_gguf();
  for (uint16_t i = 0; i < 3; ++i) {
    GgufWriter part;
    if (i == 0) part.put_tiny_llama();
    part.put("split.no", 2, GgufWriter::bytes_of_number(i));
    part.put("split.count", 2, GgufWriter::bytes_of_number(uint16_t{3}));
    for (size_t t = i; t < whole.tensors.size(); t += 3) part.tensors.push_back(whole.tensors[t]);
    test::write_file(folder / ("m-0000" + std::to_string(i + 1) + "-of-00003.gguf"), part.bytes());
  }
  const std::filesystem::path first = folder / "m-00001-of-00003.gguf";
  const ConversionReport report = convert_f32(first, folder / "m.cria", TokenizerChoice::kNone);
  EXPECT_EQ(report.weights_text, "GGUF version 3 in 3 parts, F32");
  test::expect_invalid({"00002-of", "is part 2 of 3: give the first"},
                       [&] { const GgufCheckpoint late(folder / "m-00002-of-00003.gguf"); });
  std::filesystem::copy_file(first, folder / "other.gguf");
  test::expect_invalid({"other.gguf", "not named so"},
                       [&] { const GgufCheckpoint renamed(folder / "other.gguf"); });
  std::filesystem::remove(folder / "m-00003-of-00003.gguf");
  test::expect_invalid({"m-00003-of-00003.gguf", "missing"},
                       [&] { const GgufCheckpoint incomplete(first); });
  std::filesystem::copy_file(folder / "m-00002-of-00003.gguf", folder / "m-00003-of-00003.gguf");
  test::expect_invalid({"m-00003-of-00003.gguf", "is not the part that its name says"},
                       [&] { const GgufCheckpoint mixed(first); });
}

TEST(GgufCheckpoint, OfAnArchitectureOrTypeThatIsNotReadIsRefusedByName) {
  GgufWriter writer;
  writer.put_text("general.architecture", "gemma3n");
  expect_refused(writer, {"general.architecture 'gemma3n' is not supported",
                          "these are: llama, granite", "qwen3"});
  writer = tiny_gguf();
  writer.put_text("general.type", "adapter");
  expect_refused(writer, {"general.type", "not a whole model"});
  writer = tiny_gguf();
  writer.put_flag("llama.attention.causal", false);
  expect_refused(writer, {"attention.causal is false"});
  writer = tiny_gguf();
  writer.put_count("llama.expert_used_count", 2);
  expect_refused(writer, {"llama.expert_used_count is not supported for Llama",
                          "this converter reads Llama, Mistral"});
  writer = tiny_gguf();
  writer.put_number("llama.final_logit_softcapping", 30.0f);
  expect_refused(writer, {"final_logit_softcapping is not supported"});
  for (const std::string key : {"attention.output_scale", "attention.key_length_mla",
                                "attention.chunk_size", "swiglu_clamp_exp"}) {
    writer = tiny_gguf();
    writer.put_number("llama." + key, 2.0f);
    expect_refused(writer, {"llama." + key + " is not supported"});
  }
  writer = tiny_gguf();
  writer.tensors[0].type = 39;
  expect_refused(writer, {"token_embd.weight", "MXFP4", "Q4_K_M"});
  writer = tiny_gguf();
  writer.tensors[0].type = 77;
  expect_refused(writer, {"token_embd.weight", "type 77"});
  expect_refused(GgufWriter(), {"general.architecture is missing", "these are: llama, granite"});
}

// A tiny file in which the key has another value, of the type that it has.
GgufWriter with_count(const std::string& key, uint32_t value) {
  GgufWriter writer;
  writer.replace_count(key, value);
  writer.put_tiny_llama();
  writer.put_tensors(TinyCheckpoint());
  return writer;
}

TEST(GgufCheckpoint, WhatIsRefusedIsCalledAsTheFileCallsIt) {
  struct Case {
    const char* key;
    uint32_t value;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {"llama.block_count", 0, {"m.gguf: llama.block_count must be from 1"}},
      {"llama.block_count", 1 << 30, {"m.gguf: llama.block_count must be from 1"}},
      {"llama.embedding_length",
       66,
       {"llama.embedding_length is not a multiple of "
        "llama.attention.head_count, and "
        "llama.attention.key_length is missing"}},
      {"llama.embedding_length", 0, {"llama.embedding_length must be from 1"}},
      {"llama.embedding_length", 1 << 30, {"llama.embedding_length must be from 1"}},
      {"llama.embedding_length",
       1 << 16,
       {"llama.embedding_length over llama.attention.head_count"}},
      {"llama.feed_forward_length", 0, {": llama.feed_forward_length must be from 1"}},
      {"llama.attention.head_count", 0, {"llama.attention.head_count must not be zero"}},
      {"llama.attention.head_count_kv",
       3,
       {"llama.attention.head_count_kv must divide llama.attention.head_count"}},
      {"llama.context_length", 0, {"llama.context_length must be from 1"}},
      {"llama.vocab_size", 0, {"llama.vocab_size must be from 1"}},
      {"llama.attention.key_length", 15, {"llama.attention.key_length must be even"}},
      {"llama.rope.dimension_count", 8, {"llama.rope.dimension_count"}},
  };
  for (const Case& c : cases) expect_refused(with_count(c.key, c.value), c.words);
}

TEST(GgufCheckpoint, NumbersThatAreRefusedAreCalledAsTheFileCallsThem) {
  const auto refuses = [](const std::vector<std::pair<std::string, float>>& numbers,
                          const char* type, const std::string& words) {
    GgufWriter writer = tiny_gguf();
    if (type != nullptr) writer.put_text("llama.rope.scaling.type", type);
    for (const auto& [key, value] : numbers) writer.put_number(key, value);
    expect_refused(writer, {"m.gguf: " + words});
  };
  const std::string scaling = "llama.rope.scaling.";
  refuses({{"llama.rope.freq_base", -1}}, nullptr, "llama.rope.freq_base must be above zero");
  refuses({{"llama.rope.scale_linear", -2}}, nullptr, "llama.rope.scale_linear must be above zero");
  refuses({{scaling + "factor", -1}}, "linear", scaling + "factor must be above zero");
  refuses({{scaling + "factor", 4}, {scaling + "original_context_length", -1}}, "yarn",
          scaling + "original_context_length must be above zero");
  refuses({{scaling + "factor", 4}, {scaling + "yarn_beta_fast", -1}}, "yarn",
          scaling + "yarn_beta_fast must be above zero");
  refuses({{scaling + "factor", 4}, {scaling + "yarn_attn_factor", -1}}, "yarn",
          scaling + "yarn_attn_factor must be above zero");
  refuses({{scaling + "factor", 4}, {scaling + "attn_factor", -1}}, "yarn",
          scaling + "attn_factor must be above zero");
  refuses({{scaling + "factor", 4}, {scaling + "attn_factor", 2}}, "linear",
          scaling + "attn_factor other than 1");
  refuses({{scaling + "attn_factor", 2}}, nullptr, scaling + "attn_factor other than 1");
}

TEST(GgufCheckpoint, TensorsThatAreRefusedAreCalledAsTheFileCallsThem) {
  GgufWriter writer = tiny_gguf();
  std::erase_if(writer.tensors, [](const auto& t) { return t.name == "blk.0.ffn_up.weight"; });
  expect_refused(writer, {"has no tensor blk.0.ffn_up.weight"});
  writer = tiny_gguf();
  writer.tensors.push_back({"blk.1.ffn_up.weight", {1}, 0, std::string(4, '\0')});
  expect_refused(writer, {"tensor blk.1.ffn_up.weight has no place"});
  for (const std::string name :
       {"blk.0.attn_sinks.weight", "blk.0.post_attention_norm.weight", "blk.0.attn_sub_norm.weight",
        "output.bias", "output_norm.bias", "token_embd_norm.weight"}) {
    writer = tiny_gguf();
    writer.tensors.push_back({name, {1}, 0, "1234"});
    expect_refused(writer, {"tensor " + name + " has no place"});
  }
  writer = with_count("llama.feed_forward_length", 32);
  expect_refused(writer, {"tensor blk.0.ffn_", "has shape"});
  writer = tiny_gguf();
  writer.tensors.push_back({"blk.0.attn_q.bias", {64}, 0, std::string(256, '\0')});
  writer.tensors.push_back({"output_norm.weight", {64}, 0, std::string(256, '\0')});
  expect_refused(writer, {"tensor output_norm.weight"});
}

// As llama.cpp, which adds the biases that are there.
TEST(GgufCheckpoint, BiasesThatAreLeftOutAddNothing) {
  const test::TempFolder folder;
  const std::string values(256, '?');
  const std::string nothing(256, '\0');
  for (const bool is_whole : {true, false}) {
    GgufWriter writer = tiny_gguf();
    writer.tensors.push_back({"blk.0.attn_q.bias", {64}, 0, values});
    writer.tensors.push_back({"blk.0.attn_k.bias", {32}, 0, values.substr(0, 128)});
    writer.tensors.push_back({"blk.0.attn_v.bias", {32}, 0, values.substr(0, 128)});
    if (is_whole) writer.tensors.push_back({"blk.0.attn_output.bias", {64}, 0, nothing});
    test::write_file(folder / "m.gguf", writer.bytes());
    convert_f32(folder / "m.gguf", folder / (is_whole ? "whole.cria" : "m.cria"),
                TokenizerChoice::kNone);
  }
  const test::ModelReadBack whole(folder / "whole.cria");
  const test::ModelReadBack got(folder / "m.cria");
  EXPECT_EQ(got.kind().flags, whole.kind().flags);
  ASSERT_EQ(got.tensors().size(), whole.tensors().size());
  for (size_t i = 0; i < got.tensors().size(); ++i) {
    EXPECT_EQ(got.raw(got.tensors()[i]), whole.raw(whole.tensors()[i])) << i;
  }
}

TEST(GgufCheckpoint, AnyBiasOfAPartAsksForAllOfThem) {
  struct Case {
    const char* bias;
    uint64_t n;
    char value;
    uint32_t flags;
  };
  constexpr uint32_t kAttention = format::flag::kMixerBias | format::flag::kOutputBias;
  constexpr Case kCases[] = {{"blk.0.attn_v.bias", 32, '?', kAttention},
                             {"blk.0.attn_output.bias", 64, '?', kAttention},
                             {"blk.0.attn_output.bias", 64, '\0', 0},
                             {"blk.0.ffn_down.bias", 64, '?', format::flag::kFfnBias},
                             {"blk.0.ffn_down.bias", 64, '\0', 0}};
  const test::TempFolder folder;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.bias);
    GgufWriter writer = tiny_gguf();
    writer.tensors.push_back({c.bias, {c.n}, 0, std::string(c.n * sizeof(float), c.value)});
    test::write_file(folder / "m.gguf", writer.bytes());
    convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kNone);
    const test::ModelReadBack model(folder / "m.cria");
    EXPECT_EQ(model.kind().flags & (kAttention | format::flag::kFfnBias), c.flags);
  }
}

TEST(GgufNames, GoThereAndBack) {
  for (const char* architecture : {"llama", "phi3", "qwen2moe", "granitemoe", "gpt2"}) {
    const Json metadata = {{"general.architecture", architecture}, {"llama.expert_count", 8u}};
    const GgufArchitecture& known = find_gguf_architecture(JsonObject(metadata, "m.gguf"));
    for (const std::string name :
         {"token_embd.weight", "output.weight", "output_norm.weight", "blk.12.attn_q.bias",
          "blk.0.ffn_up.weight", "blk.0.attn_qkv.weight", "blk.3.attn_k_norm.weight",
          "blk.1.ffn_gate_exps.weight", "blk.1.ffn_gate_inp.weight", "blk.1.ffn_up_shexp.weight",
          "blk.1.ffn_gate_inp_shexp.weight", "blk.0.attn_norm.bias", "output_norm.bias",
          "position_embd.weight"}) {
      EXPECT_EQ(gguf_name(known, hugging_face_name(known, name)), name);
    }
    EXPECT_EQ(gguf_name(known, "model.layers.0.other.weight"), "model.layers.0.other.weight");
  }
}

TEST(GgufCheckpoint, WithoutATokenizerWantsNoTokenizer) {
  const test::TempFolder folder;
  test::write_file(folder / "m.gguf", tiny_gguf().bytes());
  test::expect_invalid({"it has no tokenizer", "--no-tokenizer"}, [&] {
    convert_f32(folder / "m.gguf", folder / "m.cria", TokenizerChoice::kRequired);
  });
}

}  // namespace
}  // namespace cria::converter
