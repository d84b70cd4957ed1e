// Text of a checkpoint in a message can neither steer a terminal nor fill it.
#include "platforms/hosted/base/shown_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/support/seeds.h"

namespace cria::hosted {
namespace {

TEST(ShownText, TextStaysAsItIs) {
  for (const std::string text : {"", "model.norm.weight", "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x99\x82"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(shown(text), text);
  }
}

TEST(ShownText, ControlCharactersBecomeQuestionMarks) {
  EXPECT_EQ(printable(std::string("a\0b\x1b]0;t\x07\r\n\t\x7f", 13)), "a?b?]0;t?????");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "?31m");
  // A zero-width space, a right-to-left override, a line separator, an isolate, a byte-order mark.
  EXPECT_EQ(printable("\xE2\x80\x8B\xE2\x80\xAE\xE2\x80\xA8\xE2\x81\xA6\xEF\xBB\xBF"), "?????");
}

// A notice keeps its lines; joiners and direction marks belong to some scripts and emoji.
TEST(ShownText, NoticesKeepLinesAndMarks) {
  EXPECT_EQ(without_controls("a\nb\tc\x1b"), "a\nb\tc?");
  EXPECT_EQ(without_controls("\xE2\x80\x8D\xE2\x80\x8F"), "\xE2\x80\x8D\xE2\x80\x8F");
  EXPECT_EQ(without_controls("\xE2\x80\xAE"), "?");
}

TEST(ShownText, BytesThatAreNoCharacterBecomeQuestionMarks) {
  EXPECT_EQ(printable("\xff\xfe"), "??");
  EXPECT_EQ(printable("\x80x\xC3"), "?x?");
  EXPECT_EQ(printable("\xC0\xAF"), "??");            // longer than it need be
  EXPECT_EQ(printable("\xED\xA0\x80"), "???");       // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "????");  // past the last character
}

TEST(ShownText, LongTextIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xE4\xBD\xA0";
  const std::string cut = shown(text);
  EXPECT_LT(cut.size(), 90u);
  EXPECT_EQ(cut, text.substr(0, cut.size() - 3) + "...");
  EXPECT_EQ((cut.size() - 3) % 3, 0u);
  EXPECT_EQ(shown(std::string(1000, '\x80')), std::string("..."));
}

void show_random_texts(uint32_t seed) {
  std::mt19937 rng(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text(rng() % 12, '\0');
    for (char& c : text) c = static_cast<char>(rng());
    const std::string out = printable(text);
    EXPECT_NO_THROW((void)nlohmann::json(out).dump()) << "round " << round;
    EXPECT_EQ(printable(out), out) << "round " << round;
  }
}

TEST(ShownText, WhateverComesInOnlyUtf8TextComesOut) {
  test::for_each_seed({7}, show_random_texts);
}

}  // namespace
}  // namespace cria::hosted
