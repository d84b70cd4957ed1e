// Patterns of modules as Python's re reads them after "(.*\\.)?(" and before ")$".
#include "converter/lora/module_pattern.h"

#include <gtest/gtest.h>

namespace cria::converter {
namespace {

struct Case {
  const char* pattern;
  const char* module;
  bool fits;
};

TEST(ModulePattern, NamesEndsOfNames) {
  const Case cases[] = {
      {"q_proj", "model.layers.0.self_attn.q_proj", true},
      {"q_proj", "q_proj", true},
      {"proj", "model.layers.0.self_attn.q_proj", false},
      {"q_proj", "model.q_proj.x", false},
      {"layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
      {"layers.0.self_attn.q_proj", "model.layers.10.self_attn.q_proj", false},
      {"0.self_attn.q_proj", "model.layers.10.self_attn.q_proj", false},
      {"self.attn", "model.self_attn", true},
      {"^q_proj", "model.q_proj", false},
      {"^model.q_proj", "model.q_proj", true},
      {"^model.q_proj$", "model.q_proj", true},
      {"", "model.q_proj", false},
      {"", "", true},
      {".*", "model.q_proj", true},
      {".*q_proj", "model.x.q_proj", true},
      {"(q|v)_proj", "model.layers.0.v_proj", true},
      {"q_proj|v_proj", "model.layers.0.v_proj", true},
      {"q_proj|v_proj", "model.layers.0.vv_proj", false},
      {"layers\\.\\d+\\.mlp", "model.layers.31.mlp", true},
      {"layers\\.[0-3]\\.mlp", "model.layers.4.mlp", false},
      {"layers\\.1?\\d\\.mlp", "model.layers.14.mlp", true},
      {"layers\\.1?\\d\\.mlp", "model.layers.24.mlp", false},
      {"layers.(?!1)\\d.mlp", "model.layers.1.mlp", false},
      {"layers.(?!1)\\d.mlp", "model.layers.2.mlp", true},
      {"^model\\..*_proj", "model.layers.0.q_proj", true},
      {"^layers\\..*_proj", "model.layers.0.q_proj", false},
      {"a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
      {"q_proj$", "model.q_proj", true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ModulePattern(c.pattern).fits(c.module), c.fits) << c.pattern << " " << c.module;
  }
}

TEST(ModulePattern, WhatIsNotReadIsRefused) {
  for (const char* pattern : {"(a", "a)", "*a", "(?<=a)b", "(a)\\1", "^a|b", "a^b", "[a"}) {
    EXPECT_THROW((void)ModulePattern(pattern), RegexError) << pattern;
  }
}

}  // namespace
}  // namespace cria::converter
