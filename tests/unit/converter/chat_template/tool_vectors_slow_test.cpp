// Conversations with tools: what the stored form of a published template says is what the template
// says, as transformers renders it, or the conversation is refused with a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "converter/chat_template/form_import.h"
#include "tests/support/folders.h"

namespace cria::converter {
namespace {

using format::ChatString;
using Json = nlohmann::ordered_json;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// As clients' requests are read: arguments that are text are the object that they spell, null
// content is no text. nullopt: a part of it has no place in a conversation of cria's.
std::optional<DialogueMessage> message_of(const Json& row) {
  const auto role = std::find(std::begin(kChatRoleNames), std::end(kChatRoleNames), row["role"]);
  if (role == std::end(kChatRoleNames)) return std::nullopt;
  DialogueMessage message = {
      static_cast<ChatRole>(role - std::begin(kChatRoleNames)), {}, {}, {}, {}, {}};
  for (const auto& [key, value] : row.items()) {
    if (key == "role" || value.is_null()) continue;
    if (key == "content" && value.is_string()) {
      message.content = value;
    } else if (key == "reasoning_content" && value.is_string()) {
      message.thinking = value;
    } else if (key == "tool_call_id") {
      message.id = value;
    } else if (key == "name") {
      message.name = value;
    } else if (key == "tool_calls") {
      for (const Json& call : value) {
        const Json& function = call["function"];
        const Json arguments = function.value("arguments", Json::object());
        const std::string text =
            arguments.is_string() ? arguments.get<std::string>() : arguments.dump();
        message.calls.push_back({function["name"], text, text_in(call, "id")});
      }
    } else {
      return std::nullopt;
    }
  }
  return message;
}

std::optional<Dialogue> dialogue_of_row(const Json& row, const std::set<std::string>& reads) {
  Dialogue dialogue;
  for (const Json& tool : row["tools"].is_array() ? row["tools"] : Json::array()) {
    dialogue.tools.push_back(tool.dump());
  }
  for (const auto& [key, value] : row["kwargs"].items()) {
    // What the template does not read changes nothing.
    if (!reads.contains(key)) continue;
    if (!value.is_boolean() || (key != "enable_thinking" && key != "thinking")) return std::nullopt;
    dialogue.thinking = value.get<bool>() ? ChatThinking::kOn : ChatThinking::kOff;
  }
  for (const Json& m : row["messages"]) {
    auto message = message_of(m);
    if (!message) return std::nullopt;
    dialogue.messages.push_back(std::move(*message));
  }
  return dialogue;
}

// Whether a row's text comes from what a client's request is read into: null content and arguments
// that are text are printed as such, an empty list of tools is none.
bool is_read_otherwise(const Json& row) {
  if (row["tools"].is_array() && row["tools"].empty()) return true;
  return std::any_of(row["messages"].begin(), row["messages"].end(), [](const Json& message) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return false;
    if (message.contains("content") && message["content"].is_null()) return true;
    return std::any_of(calls->begin(), calls->end(), [](const Json& call) {
      return call["function"].value("arguments", Json::object()).is_string();
    });
  });
}

struct Score {
  size_t equal = 0;
  size_t refused = 0;  // what the template takes
  size_t other = 0;    // what has no place in a conversation, or is read otherwise
};

void compare(const Json& row, const StoredForm& form, const std::set<std::string>& reads,
             Score* score) {
  auto dialogue = dialogue_of_row(row, reads);
  const bool is_prefill = row["case"] == "prefill";
  for (const char* key : {"prompt", "text"}) {
    if (!dialogue || (is_prefill && std::string(key) == "prompt")) {
      ++score->other;
      continue;
    }
    dialogue->opens_turn = std::string(key) == "prompt";
    const auto text = form.text(*dialogue);
    const bool is_there = row.contains(key) && row[key].is_string();
    if (!text) {
      EXPECT_NE(form.refusal(*dialogue), "");
      score->refused += is_there ? 1 : 0;
      if (is_there && std::getenv("CRIA_SHOW") != nullptr) {
        std::printf("  %s, %s: %s\n", text_in(row, "case").c_str(), key,
                    form.refusal(*dialogue).c_str());
      }
    } else if (is_there && *text == row[key]) {
      ++score->equal;
    } else {
      // Where Python cannot go on, the form may.
      const bool is_none =
          !is_there && text_in(row, "error").find("TemplateError") == std::string::npos;
      EXPECT_TRUE(is_none || is_read_otherwise(row))
          << row["template"] << ", " << row["case"] << ", " << key << ": " << *text;
      ++score->other;
    }
  }
}

TEST(ToolVectorsTest, StoredFormsSayWhatTheirTemplatesSay) {
  const auto reference = test::reference_folder();
  if (!reference) GTEST_SKIP() << "no $CRIA_SHARED/reference";
  std::map<std::string, std::vector<Json>> rows;
  std::ifstream file(*reference / "vectors/chat_tools.jsonl");
  for (std::string line; std::getline(file, line);) {
    Json row = Json::parse(line);
    rows[row["template"]].push_back(std::move(row));
  }
  ASSERT_EQ(rows.size(), 44U);
  size_t n_stored = 0;
  size_t n_with_tools = 0;
  Score all;
  for (const auto& [name, of_template] : rows) {
    SCOPED_TRACE(name);
    FoundForm found;
    std::set<std::string> reads;
    try {
      const TemplateRenderer renderer(
          read_file(*reference / "chat_templates_tools" / (name + ".jinja")),
          {{"bos_token", text_in(of_template[0], "bos")},
           {"eos_token", text_in(of_template[0], "eos")}});
      reads = renderer.source().reads;
      found = find_form(renderer, true);
    } catch (const std::runtime_error& error) {
      found.problem = error.what();
    }
    if (!found.problem.empty()) {
      std::printf("%s: not stored: %s\n", name.c_str(), found.problem.c_str());
      continue;
    }
    const StoredForm form(found.stored);
    Score score;
    for (const Json& row : of_template) compare(row, form, reads, &score);
    const bool has_tools = !found.stored[ChatString::kTool].empty();
    n_stored += 1;
    n_with_tools += has_tools ? 1 : 0;
    all.equal += score.equal;
    std::printf("%s:%s %zu equal, %zu refused, %zu other %s\n", name.c_str(),
                has_tools ? " tools," : "", score.equal, score.refused, score.other,
                found.tools_problem.c_str());
  }
  std::printf("%zu stored, %zu with tools, %zu texts equal\n", n_stored, n_with_tools, all.equal);
  EXPECT_GE(n_stored, 40U);
  EXPECT_GE(n_with_tools, 29U);
  EXPECT_GE(all.equal, 1891U);
}

}  // namespace
}  // namespace cria::converter
