// Inverse frequencies against those that Hugging Face transformers 5.12.1 computes for the same
// configs (LlamaRotaryEmbedding.inv_freq and attention_scaling, CPU, printed as hexadecimal
// floats).
#include "converter/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::architecture_row;
using converter::compute_rope;
using converter::Json;
using converter::JsonObject;
using converter::read_rope_settings;
using converter::Rope;

struct Reference {
  const char* name;
  const char* config;
  uint32_t max_context;
  uint32_t head_dim;
  double attention_factor;
  std::vector<float> inverse_frequencies;
};

const std::vector<Reference>& references() {
  static const std::vector<Reference> all = {
      {"default64",
       R"({"rope_theta": 500000.0})",
       2048,
       64,
       1.0,
       {0x1p+0f,         0x1.53c38cp-1f,  0x1.c2ef78p-2f,  0x1.2b3dc6p-2f,  0x1.8d276p-3f,
        0x1.078d4p-3f,   0x1.5dc95ap-4f,  0x1.d03ccep-5f,  0x1.34119p-5f,   0x1.98de92p-6f,
        0x1.0f5386p-6f,  0x1.681adap-7f,  0x1.ddee9ep-8f,  0x1.3d2804p-8f,  0x1.a4ee4p-9f,
        0x1.175482p-9f,  0x1.72ba42p-10f, 0x1.ec07d4p-11f, 0x1.46831ap-11f, 0x1.b15902p-12f,
        0x1.1f91fp-12f,  0x1.7da9e8p-13f, 0x1.fa8b86p-14f, 0x1.5024d6p-14f, 0x1.be2188p-15f,
        0x1.280d96p-15f, 0x1.88ec2p-16f,  0x1.04be68p-16f, 0x1.5a0f4ep-17f, 0x1.cb4a9ap-18f,
        0x1.30c94ep-18f, 0x1.94836p-19f}},
      {"default6",
       R"({"rope_theta": 10000.0})",
       2048,
       6,
       1.0,
       {0x1p+0f, 0x1.7c3d2ap-5f, 0x1.1a62d2p-9f}},
      {"linear",
       R"({"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 3.0, "rope_theta": 10000.0, "rope_type": "linear"}})",
       2048,
       16,
       1.0,
       {0x1.555556p-2f, 0x1.afc19ep-4f, 0x1.111112p-5f, 0x1.5967b2p-7f, 0x1.b4e81ap-9f,
        0x1.1452f6p-10f, 0x1.5d867ep-12f, 0x1.ba1e56p-14f}},
      {"llama3.2",
       R"({"rope_theta": 500000.0, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3", "rope_theta": 500000.0}})",
       131072,
       64,
       1.0,
       {0x1p+0f,         0x1.53c38cp-1f,  0x1.c2ef78p-2f,  0x1.2b3dc6p-2f,  0x1.8d276p-3f,
        0x1.078d4p-3f,   0x1.5dc95ap-4f,  0x1.d03ccep-5f,  0x1.34119p-5f,   0x1.98de92p-6f,
        0x1.0f5386p-6f,  0x1.681adap-7f,  0x1.ddee9ep-8f,  0x1.3d2804p-8f,  0x1.a4ee4p-9f,
        0x1.524f36p-10f, 0x1.c26c4p-12f,  0x1.9731eep-14f, 0x1.46831ap-16f, 0x1.b15902p-17f,
        0x1.1f91fp-17f,  0x1.7da9e8p-18f, 0x1.fa8b86p-19f, 0x1.5024d6p-19f, 0x1.be2188p-20f,
        0x1.280d96p-20f, 0x1.88ec2p-21f,  0x1.04be68p-21f, 0x1.5a0f4ep-22f, 0x1.cb4a9ap-23f,
        0x1.30c94ep-23f, 0x1.94836p-24f}},
      {"yarn",
       R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "rope_theta": 10000.0}})",
       8192,
       32,
       1.138629436111989,
       {0x1p+0f, 0x1.1feb34p-1f, 0x1.43d136p-2f, 0x1.6c310ep-3f, 0x1.99999ap-4f, 0x1.9b4ffep-5f,
        0x1.9715a6p-6f, 0x1.8b6876p-7f, 0x1.767dcep-8f, 0x1.563646p-9f, 0x1.280fbep-10f,
        0x1.d22a5p-12f, 0x1.0624dep-12f, 0x1.26d42cp-13f, 0x1.4b96cp-14f, 0x1.74eea6p-15f}},
      {"yarn_full",
       R"({"rope_theta": 1000000.0, "rope_scaling": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2, "mscale": 0.707, "mscale_all_dim": 1.0, "truncate": false, "rope_theta": 1000000.0}})",
       163840,
       64,
       0.9210423553163399,
       {0x1p+0f,         0x1.4c7bcp-1f,   0x1.afd136p-2f,  0x1.186a08p-2f,  0x1.6c310ep-3f,
        0x1.d8ffacp-4f,  0x1.33281ap-4f,  0x1.8eec7ep-5f,  0x1.030dc6p-5f,  0x1.3452p-6f,
        0x1.37fac8p-7f,  0x1.224e0cp-8f,  0x1.c7a9e8p-10f, 0x1.9877d8p-12f, 0x1.f1502ap-15f,
        0x1.42f22cp-15f, 0x1.a36e2ep-16f, 0x1.105ed2p-16f, 0x1.61bea2p-17f, 0x1.cb6e3ap-18f,
        0x1.2a5884p-18f, 0x1.837b02p-19f, 0x1.f73ed8p-20f, 0x1.46cc62p-20f, 0x1.a86f08p-21f,
        0x1.139e94p-21f, 0x1.65f6e4p-22f, 0x1.d0e93ap-23f, 0x1.2de79ap-23f, 0x1.881a4cp-24f,
        0x1.fd3fa6p-25f, 0x1.4ab25cp-25f}},
      {"yarn_attention",
       R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 2.5, "original_max_position_embeddings": 512, "attention_factor": 0.75, "rope_theta": 10000.0}})",
       1280,
       16,
       0.75,
       {0x1p+0f, 0x1.133eap-2f, 0x1.1eb852p-4f, 0x1.1cf58cp-6f, 0x1.0624dep-8f, 0x1.4b96cp-10f,
        0x1.a36e2ep-12f, 0x1.094566p-13f}},
      {"yarn_no_original",
       R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "rope_theta": 10000.0, "original_max_position_embeddings": 1024}})",
       1024,
       16,
       1.2079441541679836,
       {0x1p+0f, 0x1.43d136p-2f, 0x1.4p-4f, 0x1.236f7ep-6f, 0x1.c28f5cp-9f, 0x1.9e7c7p-12f,
        0x1.0624dep-13f, 0x1.4b96cp-15f}},
  };
  return all;
}

Rope rope_of(const std::string& config, uint32_t max_context, uint32_t head_dim,
             format::Architecture id) {
  const Json json = Json::parse(config);
  const JsonObject object(json, "config.json");
  const uint32_t turned = read_rotary_dim(object, architecture_row(id), head_dim);
  return compute_rope(read_rope_settings(object, architecture_row(id), converter::RopeOf::kLayers,
                                         max_context, turned),
                      turned);
}

Rope rope_of(const std::string& config, uint32_t max_context, uint32_t head_dim) {
  return rope_of(config, max_context, head_dim, format::Architecture::kLlama);
}

Rope phi3_rope(const std::string& config, uint32_t max_context, uint32_t head_dim) {
  return rope_of(config, max_context, head_dim, format::Architecture::kPhi3);
}

// Steps between two positive floats.
int32_t ulps(float a, float b) {
  return std::abs(std::bit_cast<int32_t>(a) - std::bit_cast<int32_t>(b));
}

// Measured: all equal. One step is left for another platform's pow.
constexpr int32_t kMostUlps = 1;

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  for (const Reference& reference : references()) {
    SCOPED_TRACE(reference.name);
    const Rope rope = rope_of(reference.config, reference.max_context, reference.head_dim);
    ASSERT_EQ(rope.inverse_frequencies.size(), reference.inverse_frequencies.size());
    int32_t most = 0;
    for (size_t i = 0; i < rope.inverse_frequencies.size(); ++i) {
      most = std::max(most, ulps(rope.inverse_frequencies[i], reference.inverse_frequencies[i]));
    }
    EXPECT_LE(most, kMostUlps);
    RecordProperty(reference.name, most);
    EXPECT_EQ(rope.attention_factor, static_cast<float>(reference.attention_factor));
  }
}

// {"rope_theta": 1, "rope_scaling": {...}} becomes {"rope_parameters": {"rope_theta": 1, ...}}.
std::string in_new_spelling(const std::string& config) {
  const Json old_spelling = Json::parse(config);
  Json parameters = old_spelling.value("rope_scaling", Json{{"rope_type", "default"}});
  parameters["rope_theta"] = old_spelling["rope_theta"];
  return Json{{"rope_parameters", parameters}}.dump();
}

TEST(Rope, BothSpellingsMeanTheSame) {
  for (const Reference& reference : references()) {
    SCOPED_TRACE(reference.name);
    const Rope a = rope_of(reference.config, reference.max_context, reference.head_dim);
    const Rope b =
        rope_of(in_new_spelling(reference.config), reference.max_context, reference.head_dim);
    EXPECT_EQ(a.inverse_frequencies, b.inverse_frequencies);
    EXPECT_EQ(a.attention_factor, b.attention_factor);
  }
}

TEST(Rope, AConfigWithoutAnythingHasThetaTenThousand) {
  // 1 / 10000^(2i/4) = 1, 1/100.
  EXPECT_EQ(rope_of("{}", 128, 4).inverse_frequencies, (std::vector<float>{1.0f, 0.01f}));
  EXPECT_EQ(rope_of(R"({"rope_scaling":null})", 128, 4).inverse_frequencies,
            (std::vector<float>{1.0f, 0.01f}));
}

TEST(Rope, TheNewSpellingOverridesAStaleTheta) {
  const Rope rope = rope_of(
      R"({"rope_theta":5,"rope_parameters":{"rope_type":"default","rope_theta":10000}})", 128, 4);
  EXPECT_EQ(rope.inverse_frequencies, (std::vector<float>{1.0f, 0.01f}));
}

TEST(Rope, AYarnFactorMayFollowFromTheContexts) {
  const std::string with = R"({"rope_scaling":{"rope_type":"yarn","factor":4,
      "original_max_position_embeddings":256}})";
  const std::string without = R"({"rope_scaling":{"rope_type":"yarn",
      "original_max_position_embeddings":256}})";
  EXPECT_EQ(rope_of(with, 1024, 16).inverse_frequencies,
            rope_of(without, 1024, 16).inverse_frequencies);
}

TEST(Rope, OtherTypesAreRefusedByName) {
  for (const std::string type : {"dynamic", "su", "mrope", "ntk"}) {
    for (const std::string key : {"type", "rope_type"}) {
      const std::string config =
          R"({"rope_scaling":{")" + key + R"(":")" + type + R"(","factor":2}})";
      expect_invalid({"config.json", type, "llama3"}, [&] { (void)rope_of(config, 128, 8); });
    }
  }
}

TEST(Rope, AnEmptyObjectHidesNoOther) {
  const std::string linear =
      R"("rope_parameters":{"rope_type":"linear","rope_theta":10000,"factor":2}})";
  EXPECT_EQ(rope_of(R"({"rope_scaling":{},)" + linear, 128, 4).inverse_frequencies,
            rope_of("{" + linear, 128, 4).inverse_frequencies);
}

// What stands there and is not read would be the positions of another model.
TEST(Rope, WhatIsNotReadIsRefusedByName) {
  const auto refuses = [](const std::vector<std::string>& words, const std::string& object) {
    for (const std::string key : {"rope_scaling", "rope_parameters"}) {
      std::vector<std::string> all = {"config.json: " + key};
      all.insert(all.end(), words.begin(), words.end());
      expect_invalid(all, [&] { (void)rope_of("{\"" + key + "\":" + object + "}", 128, 8); });
    }
  };
  refuses({"mrope_section is set"}, R"({"rope_type":"default","mrope_section":[1,1,2]})");
  refuses({"full_attention is set"},
          R"({"full_attention":{"rope_type":"yarn","factor":4},"sliding_attention":{}})");
  refuses({"short_mscale is set"}, R"({"rope_type":"linear","factor":2,"short_mscale":1.2})");
  refuses({"rope_type is missing", "factor is set"}, R"({"factor":2})");
  refuses({"rope_type is missing", "factor is set"}, R"({"type":null,"factor":2})");
  const std::string off = R"({"rope_scaling":{"rope_type":"linear","factor":2,"new":false)";
  EXPECT_NO_THROW((void)rope_of(off + R"(,"finetuned":true,"other":null}})", 128, 8));
}

// 1 / (factor * 10000^(2i/8)), and sqrt(1 + log(4) / log(64)) = sqrt(4/3).
TEST(Rope, LongRopeStretchesEachWavelengthByItsOwnFactor) {
  const std::string scaling =
      R"("short_factor":[1,2,4,8],"long_factor":[2,4,8,16]},"original_max_position_embeddings":64})";
  for (const std::string type : {"longrope", "su", "yarn"}) {
    const Rope rope = phi3_rope(R"({"rope_scaling":{"type":")" + type + "\"," + scaling, 256, 8);
    const std::vector<float> want_short = {1.0f, 0.05f, 0.0025f, 0.000125f};
    const std::vector<float> want_long = {0.5f, 0.025f, 0.00125f, 0.0000625f};
    ASSERT_EQ(rope.inverse_frequencies.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LE(ulps(rope.inverse_frequencies[i], want_short[i]), kMostUlps);
      EXPECT_LE(ulps(rope.long_inverse_frequencies[i], want_long[i]), kMostUlps);
    }
    EXPECT_EQ(rope.attention_factor,
              static_cast<float>(std::sqrt(1 + std::log(4.0) / std::log(64.0))));
  }
  // Nothing is stretched: as trained.
  EXPECT_EQ(phi3_rope(R"({"rope_scaling":{"type":"longrope",)" + scaling, 64, 8).attention_factor,
            1);
  EXPECT_EQ(
      phi3_rope(R"({"rope_scaling":{"type":"longrope","attention_factor":1.5,)" + scaling, 256, 8)
          .attention_factor,
      1.5f);
}

TEST(Rope, TheSecondFrequenciesServeAboveTheOriginalContext) {
  converter::RopeSettings settings;
  settings.original_context = 4096;
  EXPECT_EQ(original_context(settings, 131072), 0u) << "of another type";
  settings.type = converter::RopeType::kLongRope;
  EXPECT_EQ(original_context(settings, 131072), 4096u);
  EXPECT_EQ(original_context(settings, 4096), 0u) << "no context is longer";
}

TEST(Rope, LongRopesFactorsAreOneAFrequency) {
  const auto refuses = [](const std::string& key, const std::string& scaling) {
    SCOPED_TRACE(scaling);
    expect_invalid({"config.json", key}, [&] {
      (void)phi3_rope(R"({"rope_scaling":{"type":"longrope")" + scaling + "}}", 256, 8);
    });
  };
  refuses("short_factor", "");
  refuses("short_factor", R"(,"short_factor":[1,1,1])");
  refuses("short_factor", R"(,"short_factor":[1,1,1,0])");
  refuses("short_factor", R"(,"short_factor":[1,1,1,"2"])");
  refuses("short_factor", R"(,"short_factor":4)");
  refuses("long_factor", R"(,"short_factor":[1,1,1,1])");
  refuses("attention_factor",
          R"(,"short_factor":[1,1,1,1],"long_factor":[1,1,1,1],"attention_factor":-1)");
}

TEST(Rope, APartOfAHeadHasTheFrequenciesOfItsOwnSize) {
  const Rope whole = rope_of("{}", 128, 12);
  EXPECT_EQ(phi3_rope(R"({"partial_rotary_factor":0.75})", 128, 16).inverse_frequencies,
            whole.inverse_frequencies);
  EXPECT_EQ(phi3_rope(R"({"rope_parameters":{"rope_type":"default","partial_rotary_factor":0.75}})",
                      128, 16)
                .inverse_frequencies,
            whole.inverse_frequencies);
  for (const std::string part : {"0.7", "0", "-0.5", "1.5", "0.01"}) {
    expect_invalid({"partial_rotary_factor"},
                   [&] { (void)phi3_rope(R"({"partial_rotary_factor":)" + part + "}", 128, 16); });
  }
}

TEST(Rope, MissingAndImpossibleValuesAreNamed) {
  const auto refuses = [](const std::string& key, const std::string& scaling) {
    SCOPED_TRACE(scaling);
    expect_invalid({"config.json", key},
                   [&] { (void)rope_of(R"({"rope_scaling":)" + scaling + "}", 128, 8); });
  };
  refuses("factor", R"({"type":"linear"})");
  refuses("factor", R"({"type":"linear","factor":0})");
  refuses("factor", R"({"type":"linear","factor":"4"})");
  refuses("rope_scaling", R"(7)");
  refuses("low_freq_factor", R"({"rope_type":"llama3","factor":8})");
  refuses("high_freq_factor",
          R"({"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})");
  refuses("original_max_position_embeddings",
          R"({"rope_type":"yarn","factor":8,"original_max_position_embeddings":0})");
  refuses("beta_fast", R"({"rope_type":"yarn","factor":8,"beta_fast":-1})");
  refuses("partial_rotary_factor", R"({"rope_type":"default","partial_rotary_factor":0.5})");
  expect_invalid({"rope_theta"}, [] { (void)rope_of(R"({"rope_theta":0})", 128, 8); });
  expect_invalid({"partial_rotary_factor"},
                 [] { (void)rope_of(R"({"partial_rotary_factor":0.25})", 128, 8); });
}

}  // namespace
}  // namespace cria::test
