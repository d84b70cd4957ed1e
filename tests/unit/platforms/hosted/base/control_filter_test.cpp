#include "platforms/hosted/base/control_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace cria::hosted {
namespace {

std::string filtered(std::string_view text, Invisible invisible) {
  std::string out;
  ControlFilter filter(invisible);
  char piece[ControlFilter::kMostBytes];
  for (const char byte : text) out.append(piece, filter.feed(byte, piece));
  out.append(piece, filter.finish(piece));
  return out;
}

std::string kept(std::string_view text) { return filtered(text, Invisible::kKept); }

// U+code in UTF-8, also where that is no character.
std::string utf8(uint32_t code) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  if (code < 0x10000) {
    return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  }
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)),
          byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
}

TEST(ControlFilter, EveryCharacterIsShownButControls) {
  constexpr uint32_t kEnd = 0x110000;
  for (uint32_t code = 0; code < kEnd; ++code) {
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (is_surrogate) continue;
    const bool is_control = (code < 0x20 && code != '\n' && code != '\t') ||
                            (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
                            (code >= 0x2066 && code <= 0x2069);
    const bool is_invisible =
        (code >= 0x200b && code <= 0x200f) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
    const std::string text = utf8(code);
    ASSERT_EQ(kept(text), is_control ? "?" : text) << std::hex << code;
    ASSERT_EQ(filtered(text, Invisible::kReplaced), is_control || is_invisible ? "?" : text)
        << std::hex << code;
  }
}

TEST(ControlFilter, SequencesForTerminalsLoseTheirEscape) {
  EXPECT_EQ(kept("\x1b]0;title\x07"), "?]0;title?");
  EXPECT_EQ(kept("\xc2\x9b"
                 "31m"),
            "?31m");
  EXPECT_EQ(kept("\x9b"
                 "31m"),
            "?31m");  // a terminal of eight bits takes it for the same
  EXPECT_EQ(kept("a\rb\bc\x7f"), "a?b?c?");
}

TEST(ControlFilter, WhatIsNotUtf8IsNotShown) {
  EXPECT_EQ(kept("\xc0\x80"), "??");
  EXPECT_EQ(kept("\xe0\x80\x80"), "???");
  EXPECT_EQ(kept("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(kept("\xf4\x90\x80\x80"), "????");  // above U+10FFFF
  EXPECT_EQ(kept("\xff\xfe"), "??");
  EXPECT_EQ(kept("\xc3"), "?");  // cut at the end
  EXPECT_EQ(kept("\xe2\x82"
                 "a"),
            "?a");  // cut by another
  EXPECT_EQ(kept("\xe2\x82\xc3\xa9"), "?\xc3\xa9");
  EXPECT_EQ(kept("\xe2\xc2\x9b"), "??");
  EXPECT_EQ(kept("\xc2\x1b"), "??");
}

TEST(ControlFilter, PiecesGiveWhatTheWholeGives) {
  const std::string text = "a\xc2\x9b\xe2\x82\xac\x1b\xf0\x9f\xa6\x99\xc3z\xff\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    ControlFilter filter(Invisible::kKept);
    std::string shown;
    char out[ControlFilter::kMostBytes];
    for (const std::string& piece : {text.substr(0, cut), text.substr(cut)}) {
      for (const char byte : piece) shown.append(out, filter.feed(byte, out));
    }
    shown.append(out, filter.finish(out));
    EXPECT_EQ(shown, kept(text)) << cut;
  }
}

}  // namespace
}  // namespace cria::hosted
