// What no text of a user may become: the rules for end tokens and for a chat template's tokens.
#include <gtest/gtest.h>

#include <functional>

#include "quant/text/template_tokens.h"
#include "quant/text/tokenizer_check.h"
#include "tests/support/chat_sections.h"
#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::ChatString;
using format::kNone;
using format::PreTokenizer;
using test::byte_level_section;
using test::ChatSection;
using test::Frames;
using test::sentencepiece_section;
using test::TokenizerSection;

constexpr uint8_t kAdded = format::kTokenAdded;
constexpr uint8_t kControl = format::kTokenAdded | format::kTokenSpecial;

// A file's texts and end tokens; by default <bos>[U]x<eos>\n[A]y<eos>\n, which ends at <eos>.
struct Texts {
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
  Frames frames = {.start = "<bos>",
                   .system = {"[S]", "<eos>\n"},
                   .user = {"[U]", "<eos>\n"},
                   .text = {"[A]", "<eos>\n"}};
  std::string not_in_user;
  std::vector<uint32_t> ends = {section.header.eos_token};
  bool has_chat = true;

  // Adds an added token where the format wants it.
  uint32_t put(const std::string& text, uint8_t flags) {
    const uint32_t id = section.add(text, flags);
    section.added.push_back(id);
    section.put_in_order();
    return id;
  }
  // What the check says; empty: nothing.
  [[nodiscard]] std::string wrong() const {
    const std::vector<uint8_t> bytes = section.bytes();
    Tokenizer tokenizer = {};
    if (const char* broken = check_tokenizer(bytes, 1 << 20, &tokenizer)) return broken;
    ChatSection chat_section;
    chat_section.rules = frames.rules();
    chat_section[ChatString::kNotInUser] = not_in_user;
    const std::vector<uint8_t> chat_bytes = chat_section.bytes();
    ChatTemplate chat = {};
    if (const char* broken = check_chat_template(chat_bytes, &chat)) return broken;
    format::ModelScalars model = {};
    model.n_end_tokens = static_cast<uint32_t>(ends.size());
    std::copy(ends.begin(), ends.end(), model.end_tokens);
    const char* broken = check_control_tokens(tokenizer, has_chat ? &chat : nullptr, model);
    return broken == nullptr ? "" : broken;
  }
};

struct Case {
  const char* name;
  std::function<void(Texts*)> change;
  const char* wrong;  // a part of what the check says; empty: the file is good
};

constexpr char kEnd[] = "end token of the config is not special";
constexpr char kFrame[] = "chat template is not special";
constexpr char kTurn[] = "ends the chat template's answers";
constexpr char kUnknown[] = "a text outside its tokens";

TEST(ControlTokensTest, EveryRuleIsChecked) {
  const Case kCases[] = {
      {"as it should be", [](Texts*) {}, ""},
      {"no template", [](Texts* t) { t->has_chat = false; }, ""},
      {"no end tokens and no template",
       [](Texts* t) {
         t->has_chat = false;
         t->ends.clear();
       },
       ""},
      {"an end token that is added only",
       [](Texts* t) { t->ends.push_back(t->section.id("<tool>")); }, kEnd},
      {"an end token that is a byte", [](Texts* t) { t->ends.push_back('#'); }, kEnd},
      {"an end token that is a word", [](Texts* t) { t->ends.push_back(t->section.id("hello")); },
       kEnd},
      {"an end token without a template",
       [](Texts* t) {
         t->has_chat = false;
         t->ends = {'#'};
       },
       kEnd},
      {"an end token without text", [](Texts* t) { t->ends.push_back(t->section.add("")); }, ""},
      {"an end token past the tokenizer", [](Texts* t) { t->ends.push_back(5000); }, ""},
      {"an added token in a string", [](Texts* t) { t->put("[U]", kAdded); }, kFrame},
      {"a part of a string", [](Texts* t) { t->put("U]", kAdded); }, kFrame},
      {"a control token in a string", [](Texts* t) { t->put("[U]", kControl); }, ""},
      {"a token that another hides",
       [](Texts* t) {
         t->put("[U]", kControl);
         t->put("[U", kAdded);
         t->put("U]", kAdded);
       },
       ""},
      {"a token of two messages' frames", [](Texts* t) { t->put("\n[A]", kAdded); }, kFrame},
      {"white space in a string", [](Texts* t) { t->put("\n", kAdded); }, ""},
      {"wide white space in a string",
       [](Texts* t) {
         t->frames.user.before = "\xE3\x80\x80\xC2\xA0";
         t->put("\xE3\x80\x80\xC2\xA0", kAdded);
       },
       ""},
      {"a token in the first joint",
       [](Texts* t) {
         t->frames.start = "<bos>be";
         t->put("be", kAdded);
       },
       kFrame},
      {"a token that contents may not have",
       [](Texts* t) {
         t->not_in_user = std::string("be") + '\0';
         t->put("be", kAdded);
       },
       ""},
      {"a token of the later search",
       [](Texts* t) { t->put("[U]", kAdded | format::kTokenNormalized); }, kFrame},
      {"another token ends the turn", [](Texts* t) { t->frames.text.behind = " <bos><eos>\n"; },
       kTurn},
      {"white space before the end token",
       [](Texts* t) {
         t->put("\n", kControl);
         t->frames.text.behind = "\n<eos>";
       },
       ""},
      {"plain text ends the turn", [](Texts* t) { t->frames.text.behind = "\n"; }, ""},
      {"the turn's token is no end token", [](Texts* t) { t->ends.clear(); }, kTurn},
      {"unknown text ends answers",
       [](Texts* t) { t->section.header.unknown_token = t->section.header.eos_token; }, kUnknown},
      {"unknown text frames messages",
       [](Texts* t) { t->section.header.unknown_token = t->section.header.bos_token; }, kUnknown},
      {"unknown text is a token of its own",
       [](Texts* t) { t->section.header.unknown_token = t->put("<unk>", kControl); }, ""},
  };
  for (const Case& one : kCases) {
    Texts texts;
    one.change(&texts);
    const std::string wrong = texts.wrong();
    if (one.wrong[0] == '\0') {
      EXPECT_EQ(wrong, "") << one.name;
    } else {
      EXPECT_NE(wrong.find(one.wrong), std::string::npos) << one.name << ": '" << wrong << "'";
    }
  }
}

// SentencePiece may put a space in front of a string, and tokens may want one.
TEST(ControlTokensTest, SpacesInFrontAreTriedBothWays) {
  for (const char* text : {"\xE2\x96\x81[U]", "[U]"}) {
    for (const uint8_t flags : {uint8_t{0}, format::kTokenAfterSpace}) {
      Texts texts;
      texts.section = sentencepiece_section(format::kPrependSpace, true);
      texts.frames = {.start = "<s>", .user = {"[U]", ""}, .text = {"", "</s>"}};
      texts.ends = {2};
      EXPECT_EQ(texts.wrong(), "");
      texts.put(text, static_cast<uint8_t>(kAdded | format::kTokenNormalized | flags));
      EXPECT_NE(texts.wrong().find(kFrame), std::string::npos) << text << " " << int{flags};
    }
  }
}

}  // namespace
}  // namespace cria
