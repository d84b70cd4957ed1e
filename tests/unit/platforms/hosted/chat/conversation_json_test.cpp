#include "platforms/hosted/chat/conversation_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

Conversation read(const std::string& messages) {
  Conversation conversation;
  read_messages(Json::parse(messages), messages, &conversation);
  return conversation;
}

std::string refusal(const std::string& messages) {
  try {
    read(messages);
    return "";
  } catch (const ConversationError& error) {
    return std::string(error.member()) + ": " + error.what();
  }
}

std::string refusal_of_tools(const std::string& tools) {
  try {
    Conversation conversation;
    read_tools(Json::parse(tools), tools, &conversation);
    return "";
  } catch (const ConversationError& error) {
    return std::string(error.member()) + ": " + error.what();
  }
}

std::string_view text_of(const cria_text& text) { return {text.text, text.n_bytes}; }

// As clients send it: a call with arguments as text, one with an object, and their results.
constexpr const char* kWithTools = R"([
  {"role": "developer", "content": "Be brief."},
  {"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "now?"}]},
  {"role": "assistant", "content": null, "reasoning_content": "Look.", "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1E5}"}},
    {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": {"b": 1.50, "a": [ 2 ]}}},
    {"function": {"name": "h"}}]},
  {"role": "tool", "tool_call_id": "call_2", "content": "42"},
  {"role": "tool", "tool_call_id": "call_1", "name": "own", "content": [{"type": "text", "text": "no"}]},
  {"role": "tool", "tool_name": "h", "content": ""},
  {"role": "assistant", "content": "Done.", "tool_calls": []}])";

TEST(ConversationJson, MessagesHaveTheirParts) {
  const Conversation c = read(kWithTools);
  ASSERT_EQ(c.messages.size(), 7u);
  EXPECT_EQ(c.messages[0].role, CRIA_SYSTEM);
  EXPECT_EQ(c.messages[1].text, "What now?");
  const ConversationMessage& answer = c.messages[2];
  EXPECT_EQ(answer.role, CRIA_ASSISTANT);
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.thinking, "Look.");
  ASSERT_EQ(answer.calls.size(), 3u);
  EXPECT_EQ(answer.calls[0].arguments, R"({"x": 1E5})");
  EXPECT_EQ(answer.calls[1].name, "g");
  EXPECT_EQ(answer.calls[1].arguments, R"({"b": 1.50, "a": [ 2 ]})");
  EXPECT_EQ(answer.calls[1].id, "call_2");
  EXPECT_EQ(answer.calls[2].arguments, "{}");
  EXPECT_EQ(answer.calls[2].id, "");
  EXPECT_EQ(c.messages[3].role, CRIA_TOOL);
  EXPECT_EQ(c.messages[3].name, "g");  // of the call with its id
  EXPECT_EQ(c.messages[3].id, "call_2");
  EXPECT_EQ(c.messages[4].name, "own");
  EXPECT_EQ(c.messages[4].text, "no");
  EXPECT_EQ(c.messages[5].name, "h");
  EXPECT_EQ(c.messages[6].text, "Done.");
}

TEST(ConversationJson, ToolsHaveAMebibyteAtMost) {
  const auto list_of = [](size_t n_bytes) {
    const std::string head = R"([{"type":"function","function":{"name":"f","description":")";
    const std::string tail = "\"}}]";
    return head + std::string(n_bytes - head.size() - tail.size(), 'x') + tail;
  };
  EXPECT_EQ(refusal_of_tools(list_of(1 << 20)), "");
  EXPECT_EQ(refusal_of_tools(list_of((1 << 20) + 1)),
            "tools: tools have more than 1 MiB: 1048577 bytes");
}

TEST(ConversationJson, AViewIsWhatTheLibraryTakes) {
  Conversation c = read(kWithTools);
  const std::string tools = R"([{"type":"function","function":{"name":"f","z":1,"a":2.0}}])";
  read_tools(Json::parse(tools), tools, &c);
  read_template_args(Json::parse(R"({"enable_thinking": false})"), &c);
  const ConversationView view(c, CRIA_TURN_OPENED);
  const cria_conversation& v = *view.get();
  ASSERT_EQ(v.n_messages, 7u);
  EXPECT_EQ(v.ending, CRIA_TURN_OPENED);
  EXPECT_EQ(v.thinking, CRIA_THINKING_OFF);
  EXPECT_EQ(std::string_view(v.messages[1].text, v.messages[1].n_bytes), "What now?");
  EXPECT_EQ(text_of(v.parts[2].thinking), "Look.");
  ASSERT_EQ(v.parts[2].n_calls, 3u);
  EXPECT_EQ(text_of(v.parts[2].calls[2].name), "h");
  EXPECT_EQ(v.parts[3].n_calls, 0u);
  EXPECT_EQ(text_of(v.parts[3].id), "call_2");
  ASSERT_EQ(v.n_tools, 1u);
  EXPECT_EQ(text_of(v.tools[0]), R"({"type":"function","function":{"name":"f","z":1,"a":2.0}})");
  const ConversationView first(c, 2, CRIA_TURN_LATER);
  EXPECT_EQ(first.get()->n_messages, 2u);
  EXPECT_EQ(first.get()->n_tools, 1u);
}

TEST(ConversationJson, TheLatestCallOfAnIdNamesItsResult) {
  const Conversation c = read(R"([
    {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]},
    {"role":"tool","tool_call_id":"1","content":"a"},
    {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"g"}}]},
    {"role":"tool","tool_call_id":"1","content":"b"},
    {"role":"tool","tool_call_id":"2","content":"c"}])");
  EXPECT_EQ(c.messages[1].name, "f");
  EXPECT_EQ(c.messages[3].name, "g");
  EXPECT_EQ(c.messages[4].name, "");
}

TEST(ConversationJson, IdsOfAnotherKindAreRenewedWithTheirResults) {
  Conversation c = read(R"([
    {"role":"user","content":"q"},
    {"role":"assistant","tool_calls":[{"id":"call_a","function":{"name":"f"}},
      {"id":"call_b","function":{"name":"g"}},{"function":{"name":"h"}}]},
    {"role":"tool","tool_call_id":"call_b","content":"b"},
    {"role":"tool","tool_call_id":"call_a","content":"a"},
    {"role":"tool","name":"h","content":"c"},
    {"role":"assistant","tool_calls":[{"id":"call_a","function":{"name":"g"}}]},
    {"role":"tool","tool_call_id":"call_a","content":"d"},
    {"role":"tool","tool_call_id":"call_z","content":"e"}])");
  renew_ids(&c);
  const auto& first = c.messages[1].calls;
  EXPECT_EQ(first[0].id, "call00000");
  EXPECT_EQ(first[1].id, "call00001");
  EXPECT_EQ(first[2].id, "call00002");
  EXPECT_EQ(c.messages[2].id, first[1].id);
  EXPECT_EQ(c.messages[3].id, first[0].id);
  EXPECT_EQ(c.messages[4].id, first[2].id);
  EXPECT_EQ(c.messages[5].calls[0].id, "call00003");
  EXPECT_EQ(c.messages[6].id, "call00003");
  EXPECT_EQ(c.messages[6].name, "g");
  EXPECT_EQ(c.messages[7].id, "call_z");
  EXPECT_EQ(c.messages[0].id, "");
}

TEST(ConversationJson, FunctionsAreCallsAndResultsToo) {
  Conversation c = read(R"([
    {"role":"assistant","content":null,"function_call":{"name":"f","arguments":{"b":1,"a":2}}},
    {"role":"function","name":"f","content":"a"}])");
  ASSERT_EQ(c.messages[0].calls.size(), 1u);
  EXPECT_EQ(c.messages[0].calls[0].arguments, R"({"b":1,"a":2})");
  EXPECT_EQ(c.messages[1].role, CRIA_TOOL);
  EXPECT_EQ(c.messages[1].name, "f");
  const std::string functions = R"([{"name":"f","parameters":{"z":1}}])";
  read_functions(Json::parse(functions), functions, &c);
  ASSERT_EQ(c.tools.size(), 1u);
  EXPECT_EQ(c.tools[0], R"({"type": "function", "function": {"name":"f","parameters":{"z":1}}})");
}

TEST(ConversationJson, CallsAndResultsAreCompletedFromEachOther) {
  Conversation c = read(R"([
    {"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"id":"x","function":{"name":"g"}},
                                      {"function":{"name":"f"}}]},
    {"role":"tool","tool_name":"g","content":"a"},
    {"role":"tool","content":"b"},
    {"role":"tool","tool_name":"f","content":"c"},
    {"role":"tool","content":"d"}])");
  complete_calls(&c);
  const std::vector<ConversationCall>& calls = c.messages[0].calls;
  EXPECT_EQ(calls[0].id, "call00000");
  EXPECT_EQ(calls[1].id, "x");
  EXPECT_EQ(calls[2].id, "call00001");
  EXPECT_EQ(c.messages[1].id, "x");
  EXPECT_EQ(c.messages[2].name, "f");
  EXPECT_EQ(c.messages[2].id, calls[0].id);
  EXPECT_EQ(c.messages[3].id, calls[2].id);
  EXPECT_EQ(c.messages[4].id, "");  // of no call
}

TEST(ConversationJson, WhatIsNoMessageIsNamed) {
  EXPECT_EQ(refusal("{}"), "messages: messages must be a list");
  EXPECT_EQ(refusal("[3]"), "messages: message 1 is not an object with role and content");
  EXPECT_EQ(refusal(R"([{"role":"user","content":"a"},{}])"), "messages: message 2 has no role");
  EXPECT_EQ(refusal(R"([{"role":"x","content":"a"}])"),
            "messages: message 1 has the role 'x'; system, user, assistant and tool are known");
  EXPECT_EQ(refusal(R"([{"role":"user"}])"), "messages: message 1 has no content");
  EXPECT_EQ(refusal(R"([{"role":"user","content":"a","images":["x"]}])"),
            "messages: message 1 has images; this model reads only text");
  EXPECT_EQ(refusal(R"([{"role":"user","content":3}])"),
            "messages: message 1 has a content that is neither a text nor a list of parts");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[3]}])"),
            "messages: message 1 has a part without a type");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "messages: message 1 has a part of the type 'image_url'; this model reads only text");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"text"}]}])"),
            "messages: message 1 has a text part without text");
  EXPECT_EQ(refusal(R"([{"role":"assistant","reasoning":3}])"),
            "messages: message 1 has a reasoning that is not a text");
  EXPECT_EQ(refusal(R"([{"role":"tool","content":"a","tool_call_id":3}])"),
            "messages: message 1 has a tool_call_id that is not a text");
}

constexpr const char* kNoCall =
    R"(messages: message 1 has a call that is no {"type": "function", "function": {"name": ...}})";

TEST(ConversationJson, WhatIsNoCallIsNamed) {
  const auto of_call = [](const std::string& call) {
    return refusal(R"([{"role":"assistant","tool_calls":[)" + call + "]}]");
  };
  for (const char* none :
       {"3", "{}", R"({"function":3})", R"({"function":{}})", R"({"function":{"name":3}})",
        R"({"function":{"name":""}})", R"({"type":"custom","function":{"name":"f"}})",
        R"({"type":3,"function":{"name":"f"}})"}) {
    EXPECT_EQ(of_call(none), kNoCall) << none;
  }
  struct Wrong {
    const char* arguments;
    const char* why;
  };
  for (const Wrong& wrong :
       {Wrong{"3", ""}, Wrong{"[1]", ""}, Wrong{R"("x")", ""},
        Wrong{R"("{")", ": the error ends at byte 2"},
        Wrong{R"("{\"a\":}")", ": the error ends at byte 6"},
        Wrong{R"("{} {}")", ": the error ends at byte 4"},
        Wrong{R"("{}\u0000{}")", ": the error ends at byte 3"},
        Wrong{R"("{\"a\":1e999}")", ": the number that ends at byte 10 is larger than any double"},
        Wrong{R"("{\"a\":\"\\ud800\"}")",
              ": the escape that ends at byte 13 is a surrogate without its other half"},
        Wrong{R"("{\"\\udc00\":1}")",
              ": the escape that ends at byte 8 is a surrogate without its other half"}}) {
    EXPECT_EQ(
        of_call(R"({"function":{"name":"f","arguments":)" + std::string(wrong.arguments) + "}}"),
        "messages: message 1 has a call of 'f' whose arguments are not a JSON object" +
            std::string(wrong.why))
        << wrong.arguments;
  }
  for (const char* arguments : {"null", R"("")", R"(" \n")", "{}", R"(" {}\n")"}) {
    EXPECT_EQ(of_call(R"({"function":{"name":"f","arguments":)" + std::string(arguments) + "}}"),
              "")
        << arguments;
  }
  EXPECT_EQ(of_call(R"({"id":3,"function":{"name":"f"}})"),
            "messages: message 1 has a call whose id is not a text");
  EXPECT_EQ(refusal(R"([{"role":"assistant","tool_calls":{}}])"),
            "messages: message 1 has tool_calls that are not a list");
  EXPECT_EQ(refusal(R"([{"role":"user","content":"a","tool_calls":[3]}])"),
            "messages: message 1 has calls, which only an assistant makes");
  EXPECT_EQ(refusal(R"([{"role":"user","content":"a","tool_calls":[]}])"), "");
  EXPECT_EQ(refusal(R"([{"role":"assistant","function_call":{"arguments":"{}"}}])"), kNoCall);
}

TEST(ConversationJson, WhatIsNoToolIsNamed) {
  EXPECT_EQ(refusal_of_tools("null"), "");
  EXPECT_EQ(refusal_of_tools("[]"), "");
  EXPECT_EQ(refusal_of_tools("{}"), "tools: tools must be a list");
  for (const char* none :
       {"3", "{}", R"({"name":"f"})", R"({"type":"function","function":{"name":null}})"}) {
    EXPECT_EQ(refusal_of_tools("[" + std::string(none) + "]"),
              "tools: tool 1 is no function with a name; give "
              R"({"type": "function", "function": {"name": ...}})")
        << none;
  }
  const std::string f = R"({"type":"function","function":{"name":"f"}})";
  EXPECT_EQ(refusal_of_tools("[" + f + R"(,{"type":"web_search"}])"),
            "tools: tool 2 is of the type 'web_search'; only functions are known");
  EXPECT_EQ(refusal_of_tools("[" + f + "," + f + "]"),
            "tools: tool 2 is called 'f', as one before it; give each its own name");
  EXPECT_EQ(refusal_of_tools(R"([{"function":{"name":"f","description":3}}])"),
            "tools: tool 1 ('f') has a description that is not a text");
}

TEST(ConversationJson, FunctionsBesideToolsAreRefused) {
  const auto refusal_of_functions = [](const std::string& functions) {
    const std::string tools = R"([{"type":"function","function":{"name":"f"}}])";
    Conversation c;
    read_tools(Json::parse(tools), tools, &c);
    try {
      read_functions(Json::parse(functions), functions, &c);
      return std::string();
    } catch (const ConversationError& error) {
      return std::string(error.member()) + ": " + error.what();
    }
  };
  EXPECT_EQ(refusal_of_functions("null"), "");
  EXPECT_EQ(refusal_of_functions("[]"), "");
  EXPECT_EQ(refusal_of_functions(R"([{"name":"g"}])"),
            "functions: functions and tools cannot be combined; send tools");
}

TEST(ConversationJson, ToolsAreNamedForPeople) {
  Conversation c;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    add_function(R"({"name":")" + std::string(name) + "\"}", &c);
  }
  EXPECT_EQ(tool_names(c), "a, b, c, d, e, f, g, h");
  add_function(R"({"name":"i"})", &c);
  EXPECT_EQ(tool_names(c), "a, b, c, d, e, f, g, h and 1 more");
  EXPECT_TRUE(has_tool(c, "i"));
  EXPECT_FALSE(has_tool(c, ""));
}

TEST(ConversationJson, TemplateArgsAreThoseThatAreKnown) {
  const auto thinking = [](const char* args) {
    Conversation c;
    try {
      read_template_args(Json::parse(args), &c);
      return std::to_string(c.thinking);
    } catch (const ConversationError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(thinking("null"), "0");
  EXPECT_EQ(thinking("{}"), "0");
  EXPECT_EQ(thinking(R"({"enable_thinking":true})"), "1");
  EXPECT_EQ(thinking(R"({"thinking":false})"), "2");
  EXPECT_EQ(thinking(R"({"enable_thinking":1})"), "enable_thinking must be true or false");
  EXPECT_EQ(thinking(R"({"builtin_tools":[]})"),
            "'builtin_tools' is not known; use enable_thinking");
  EXPECT_EQ(thinking("[]"), "is not an object");
}

}  // namespace
}  // namespace cria::hosted
