// The chat template section of a model file: how a conversation becomes text.
//
// ChatTemplateHeader, its rules, then the strings, one after the other.
//
// A conversation is a row of units (ChatUnit). Between two units that follow each other stands a
// joint: a string, which the first rule gives that matches both. A conversation with a joint that
// no rule matches is refused, so what a template refuses, or does that this form cannot say, needs
// no flag. The text is joint, unit, joint, unit, ..., joint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace cria::format {

// What ChatTemplateHeader::kind says, for people: where the template came from. 0: no template.
inline constexpr const char* kChatTemplateNames[] = {
    "none",    "own",    "file",   "chatml", "llama2", "llama3", "llama3.2",
    "mistral", "zephyr", "vicuna", "alpaca", "phi3",   "qwen3",  "granite"};
inline constexpr uint32_t kChatKindOwn = 1;    // of the checkpoint
inline constexpr uint32_t kChatKindFile = 2;   // of a file that was named
inline constexpr uint32_t kChatKindNamed = 3;  // the first of those that cria-convert has
inline constexpr uint32_t kChatKinds = std::size(kChatTemplateNames);

enum class ChatUnit : uint32_t {
  kStart = 0,     // before everything
  kSystem = 1,    // a system message that is the first message
  kLater = 2,     // any other system message
  kUser = 3,      // a user's message
  kThinking = 4,  // an answer's, if it has one
  kText = 5,      // an answer's; there is none where it is empty beside calls
  kCall = 6,      // one of an answer's
  kResult = 7,    // a tool's message
  kOpen = 8,      // the assistant's turn is opened
  kEnd = 9,       // nothing follows
};
inline constexpr uint32_t kChatUnits = 10;

[[nodiscard]] constexpr uint32_t bit_of(ChatUnit unit) { return 1U << static_cast<uint32_t>(unit); }

// Bits of ChatRule::places. The first are of the conversation, the others of the message of a unit:
// from kChatRight on of the right one, from kChatLeft on of the left one. A unit of no message has
// none of them.
inline constexpr uint32_t kChatHasTools = 1 << 0;
inline constexpr uint32_t kChatThinks = 1 << 1;       // thinking is switched on
inline constexpr uint32_t kChatThinksNot = 1 << 2;    // ... off
inline constexpr uint32_t kChatHasSystem = 1 << 3;    // the first message is the system's
inline constexpr uint32_t kChatLeftOutHere = 1 << 4;  // units that are left out stand between both
inline constexpr uint32_t kChatHasQuestion = 1 << 5;  // there is a user's message
inline constexpr uint32_t kChatRight = 6;
inline constexpr uint32_t kChatLeft = 13;
inline constexpr uint32_t kChatPlaces = 20;
// Shifted by kChatRight or kChatLeft:
inline constexpr uint32_t kChatLast = 1 << 0;            // the message is the last
inline constexpr uint32_t kChatAfterQuestions = 1 << 1;  // comes after the last of the user's
inline constexpr uint32_t kChatFirstQuestion = 1 << 2;   // is the first of the user's
inline constexpr uint32_t kChatLastQuestion = 1 << 3;    // is the last of the user's
inline constexpr uint32_t kChatHasThinking = 1 << 4;
inline constexpr uint32_t kChatHasText = 1 << 5;  // a user's: more than white space
inline constexpr uint32_t kChatHasCalls = 1 << 6;

// What contents lose at an end.
enum class ChatTrim : uint8_t { kNothing = 0, kSpace = 1, kNewlines = 2 };
inline constexpr uint8_t kChatTrims = 3;

struct ChatRule {
  uint16_t left;    // bits of units
  uint16_t right;   // bits of units
  uint32_t places;  // those that matter
  uint32_t values;  // of those
  uint32_t text;    // where the joint begins in kJoints
  uint16_t n_bytes;
  uint8_t trims;  // ChatTrim: what the left content loses at its end, and from bit 4 on what the
                  // right one does at its beginning
  uint8_t
      leaves_out;  // 1: the right unit is not written, and what follows is joined to the left one
};
static_assert(sizeof(ChatRule) == 20);

// In a string a zero byte and a letter stand for something else:
inline constexpr char kChatSlotDate = 'd';       // in joints
inline constexpr char kChatSlotTools = 't';      // in joints: the tools, kToolBetween between them
inline constexpr char kChatSlotName = 'n';       // of a call, a result's call, a tool
inline constexpr char kChatSlotId = 'i';         // of a call, a result's call
inline constexpr char kChatSlotArguments = 'a';  // of a call: one object, or kArgument for each,
                                                 // kArgumentBetween between them
inline constexpr char kChatSlotNumber = 'x';     // of a call: how many of its message precede it
inline constexpr char kChatSlotKey = 'k';        // of an argument
inline constexpr char kChatSlotValue = 'v';      // of an argument
inline constexpr char kChatSlotText = 'r';       // of a result
inline constexpr char kChatSlotWhole = 'w';      // the tool as it was given
inline constexpr char kChatSlotFunction = 'f';   // its function
inline constexpr char kChatSlotDescription = 'e';  // the function's
inline constexpr char kChatSlotParameters = 'p';   // the function's

enum class ChatString : uint32_t {
  kJoints = 0,  // of all rules
  kCall = 1,    // empty: the template writes none
  kArgument = 2,
  kArgumentBetween = 3,
  kResult = 4,  // empty: the template writes none
  kTool = 5,    // empty: conversations with tools are refused
  kToolBetween = 6,
  kDate = 7,        // the date in the text, where nobody says another
  kDateFormat = 8,  // how strftime writes it; empty: no date
  // What contents may not have in them: texts that each end with a zero byte.
  kNotInSystem = 9,
  kNotInUser = 10,
  kNotInThinking = 11,
  kNotInText = 12,
  kNotInResult = 13,
  kCallFormat = 14,  // quant/text/call_format.h; empty: how the model writes calls is not known
};
inline constexpr size_t kChatStrings = 15;
inline constexpr size_t kChatTexts =
    7;  // those up to kToolBetween: their tokens are the template's

// How a value is written.
enum class ChatValueForm : uint8_t {
  kJson = 0,
  kPython = 1,        // as Python's str() of it
  kBare = 2,          // a text as it is
  kQuoted = 3,        // a text as it is, in "
  kSingleQuoted = 4,  // ... in '
  // Only of ChatStyle::kTool:
  kTags = 5,     // kChatSlotFunction as quant/text/tool_tags.h prints it
  kMembers = 6,  // kChatSlotFunction as quant/text/tool_members.h prints it
};
inline constexpr uint8_t kChatValueForms = 7;
inline constexpr uint8_t kChatEscapes = 1;   // JSON's strings have no character past U+007F
inline constexpr uint8_t kChatTight = 2;     // no space after , and :
inline constexpr uint8_t kChatOwnLists = 4;  // only of kTags, which has no other flag
inline constexpr uint8_t kKnownChatValueFlags = 3;
inline constexpr uint8_t kMostChatIndent = 8;
inline constexpr uint8_t kMostChatDepth = 8;

struct ChatValueStyle {
  ChatValueForm form;
  uint8_t indent;  // JSON's, a level; 0: all in one line
  uint8_t depth;   // the level of the value
  uint8_t flags;
};

enum class ChatStyle : uint32_t {
  kArguments = 0,  // all of them, as one object
  kText = 1,       // an argument that is a string
  kList = 2,
  kObject = 3,
  kOther = 4,
  kResult = 5,  // a result's text
  kTool = 6,    // kChatSlotWhole, kChatSlotFunction, kChatSlotParameters
};
inline constexpr size_t kChatStyles = 7;

// Bits of ChatTemplateHeader::flags.
// The first system message stands before the user's last one, whose places it has; a rule may leave
// it out. Where there is no question it stands nowhere.
inline constexpr uint32_t kChatSystemInLast = 1 << 0;
inline constexpr uint32_t kChatDropThinking = 1 << 1;  // of an assistant's content only what is
                                                       // after the last "</think>" counts
inline constexpr uint32_t kChatDropNewlines = 1 << 2;  // ... without newlines at its beginning
// Conversations that are refused:
inline constexpr uint32_t kChatNeedsIds = 1 << 3;  // with a call or result without name or id
inline constexpr uint32_t kChatNoTwins = 1 << 4;   // without tools, in which a user's last message
                                                   // came before
inline constexpr uint32_t kChatNoTwinsWithTools = 1 << 5;  // the same, with tools
// With kChatDropThinking, that have a "</think>" in an answer that is the last message; with this
// one in any answer after the user's last message.
inline constexpr uint32_t kChatTurnKeepsThinking = 1 << 6;
// With tools a user's message with the text of the last one has its place of the last question.
inline constexpr uint32_t kChatTwinsAreLast = 1 << 7;
// With id_characters: ids have at least so many characters, of which the last so many are written.
inline constexpr uint32_t kChatLongIds = 1 << 24;
// From this bit on: conversations whose messages are in an unusual order (quant/text/chat_order.h).
inline constexpr uint32_t kChatRefuses = 8;
inline constexpr uint32_t kChatLaterSystem = 1 << 8;
// The first message that is no system's is no user's, or there is none.
inline constexpr uint32_t kChatNoFirstQuestion = 1 << 9;
inline constexpr uint32_t kChatTwoQuestions = 1 << 10;
inline constexpr uint32_t kChatTwoAnswers = 1 << 11;  // the first of them without calls
inline constexpr uint32_t kChatOpenCalls = 1 << 12;  // calls without as many results; others follow
inline constexpr uint32_t kChatResultsWithoutCalls = 1 << 13;  // or more of them than calls
// Of another name or id than the call's; or calls of several functions have one id.
inline constexpr uint32_t kChatOtherResults = 1 << 14;
inline constexpr uint32_t kChatQuestionBehindResult = 1 << 15;
inline constexpr uint32_t kChatOpenedBehindAnswer = 1 << 16;
inline constexpr uint32_t kChatCallsWithoutTools = 1 << 17;  // calls or results
inline constexpr uint32_t kChatOpenedBehindCalls = 1 << 18;  // that have no results
inline constexpr uint32_t kChatManyDisorders = 1 << 19;      // several of these at once
inline constexpr uint32_t kChatDisorders = 12;
// The same of conversations without tools, calls and results: so many bits further.
inline constexpr uint32_t kChatPlain = kChatDisorders;
inline constexpr uint32_t kChatPlainDisorders = kChatLaterSystem | kChatNoFirstQuestion |
                                                kChatTwoQuestions | kChatTwoAnswers |
                                                kChatOpenedBehindAnswer | kChatManyDisorders;
inline constexpr uint32_t kChatDisorderFlags =
    (((1U << kChatDisorders) - 1) << kChatRefuses) | kChatPlainDisorders << kChatPlain;
inline constexpr uint32_t kKnownChatFlags = 0xff | kChatLongIds | kChatDisorderFlags;
static_assert((kChatLongIds & kChatDisorderFlags) == 0);

inline constexpr uint32_t kMaxChatRules = 512;
inline constexpr uint32_t kMaxChatJointBytes = 1 << 16;   // of all rules
inline constexpr uint32_t kMaxChatStringBytes = 1 << 12;  // of every other string
inline constexpr uint32_t kMaxChatDateBytes = 64;
inline constexpr uint32_t kMaxChatSlots = 8;  // in a pattern

struct ChatTemplateHeader {
  uint32_t kind;  // of kChatTemplateNames
  uint32_t flags;
  uint32_t n_rules;
  uint32_t string_bytes[kChatStrings];
  ChatValueStyle styles[kChatStyles];
  uint16_t not_blank;  // bits of units: a content of white space or nothing is refused; of kCall:
                       // a text that stands beside calls or thinking
  uint8_t id_characters;  // ids have so many letters and digits, and nothing else; 0: any
  uint8_t
      result_trims;  // of a result's text: ChatTrim at its beginning, and from bit 4 on at its end
};
static_assert(sizeof(ChatTemplateHeader) == 104);

}  // namespace cria::format
