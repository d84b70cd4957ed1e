// Forms of calls that are stored, and bytes that are none.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "quant/text/call_format.h"
#include "tests/support/call_trial.h"

namespace cria {
namespace {

using format::CallFormatHeader;
using format::CallString;

std::string refusal(const std::vector<uint8_t>& stored) {
  CallFormat call_format = {};
  const char* const wrong = check_call_format(stored, &call_format);
  return wrong == nullptr ? "" : wrong;
}

// A form of tests/data/call_forms.json with another member.
std::string refusal_with(const char* chat_template, const char* name, const nlohmann::json& value) {
  for (nlohmann::json form : test::call_forms()) {
    if (form.at("templates").at(0) != chat_template) continue;
    form[name] = value;
    return refusal(test::stored_call_form(form));
  }
  return "no such form";
}

TEST(CallFormatCheck, EveryFormIsTakenWithItsStrings) {
  for (const nlohmann::json& form : test::call_forms()) {
    CallFormat call_format = {};
    const std::vector<uint8_t> stored = test::stored_call_form(form);
    EXPECT_EQ(check_call_format(stored, &call_format), nullptr) << form.dump();
    EXPECT_EQ(call_format.text(CallString::kEnd), form.value("end", ""));
    std::string_view list = call_format.text(CallString::kStart);
    for (const std::string start : form.value("start", nlohmann::json::array())) {
      EXPECT_EQ(next_call_text(&list), start);
    }
    EXPECT_TRUE(list.empty());
  }
}

TEST(CallFormatCheck, BytesThatEndEarlyOrLateAreRefused) {
  const std::vector<uint8_t> whole = test::call_form_of("kimi-k2");
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(refusal({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)}), "") << n;
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_EQ(refusal(longer), "its strings do not fill it");
}

TEST(CallFormatCheck, LengthsPastTheEndAreRefused) {
  for (size_t i = 0; i < format::kCallStrings; ++i) {
    std::vector<uint8_t> stored = test::call_form_of("qwen3-0.6b");
    CallFormatHeader header = {};
    std::memcpy(&header, stored.data(), sizeof header);
    header.string_bytes[i] = UINT32_MAX;
    std::memcpy(stored.data(), &header, sizeof header);
    EXPECT_EQ(refusal(stored), "its strings do not fill it") << i;
  }
}

TEST(CallFormatCheck, UnknownKindsAndFlagsAreRefused) {
  std::vector<uint8_t> stored = test::call_form_of("qwen3-0.6b");
  stored[offsetof(CallFormatHeader, kind)] = format::kCallKinds;
  EXPECT_EQ(refusal(stored), "its kind is unknown");
  stored = test::call_form_of("qwen3-0.6b");
  stored[offsetof(CallFormatHeader, flags)] = 1 << 3;
  EXPECT_EQ(refusal(stored), "it has unknown flags");
  stored[offsetof(CallFormatHeader, flags)] = 0;
  stored[offsetof(CallFormatHeader, flags) + 1] = format::kMostCallIdCharacters;
  EXPECT_EQ(refusal(stored), "");
  stored[offsetof(CallFormatHeader, flags) + 1] = format::kMostCallIdCharacters + 1;
  EXPECT_EQ(refusal(stored), "its ids are too long");
  stored[offsetof(CallFormatHeader, flags) + 1] = 0;
  stored[offsetof(CallFormatHeader, flags) + 2] = 1;
  EXPECT_EQ(refusal(stored), "it has unknown flags");
}

TEST(CallFormatCheck, TextsThatAreBlankLongOrManyAreRefused) {
  constexpr const char* kForm = "kimi-k2";
  EXPECT_EQ(refusal_with(kForm, "end", " \n"), "a text is blank");
  EXPECT_EQ(refusal_with(kForm, "end", std::string(format::kMostCallTextBytes + 1, 'x')),
            "a text is too long");
  EXPECT_EQ(refusal_with(kForm, "end", std::string(format::kMostCallTextBytes, 'x')), "");
  EXPECT_EQ(refusal_with(kForm, "end", std::string(1, '\0')), "a text has a zero byte");
  EXPECT_EQ(refusal_with(kForm, "start", {""}), "a text is blank");
  EXPECT_EQ(refusal_with(kForm, "start", "x"), "a list of texts does not end");
  const std::vector<std::string> most(format::kMostCallTexts, "x");
  EXPECT_EQ(refusal_with(kForm, "start", most), "");
  std::vector<std::string> more = most;
  more.emplace_back("x");
  EXPECT_EQ(refusal_with(kForm, "start", more), "a list has too many texts");
}

TEST(CallFormatCheck, AKindNeedsItsStrings) {
  EXPECT_EQ(refusal_with("kimi-k2", "start", nlohmann::json::array()), "nothing starts calls");
  EXPECT_EQ(refusal_with("kimi-k2", "flags", {"bare"}), "calls of its kind need a marker");
  EXPECT_EQ(refusal_with("kimi-k2", "kind", "none"), "it has markers of calls but no kind");
  EXPECT_EQ(refusal_with("lfm2", "name_keys", nlohmann::json::array()),
            "objects of calls lack a key");
  EXPECT_EQ(refusal_with("glm-4.6", "key_begin", ""), "arguments in tags lack a tag");
  EXPECT_EQ(refusal_with("glm-4.6", "call_end", ""), "arguments in tags lack a tag");
}

}  // namespace
}  // namespace cria
