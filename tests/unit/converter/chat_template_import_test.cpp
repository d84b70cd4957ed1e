// Templates are recognised by their control strings, whatever the Jinja around them. The templates
// here are written for the test.
#include "converter/chat_template_import.h"

#include <gtest/gtest.h>

namespace cria::converter {
namespace {

using format::ChatString;

std::optional<ChatTemplateStrings> recognise(const std::string& jinja) {
  return recognise_chat_template(jinja, "<s>", "</s>");
}

// A conversation's texts with C for the contents: system, user, assistant, and the turn's opening.
std::string outline(const std::string& jinja) {
  auto chat = recognise(jinja);
  if (!chat) return "unknown";
  ChatTemplateStrings& s = *chat;
  return s.name + ": " + s[ChatString::kBegin] + "{" + s[ChatString::kSystemPrefix] + "C" +
         s[ChatString::kSystemSuffix] + "}{" + s[ChatString::kUserPrefix] + "C" +
         s[ChatString::kUserSuffix] + "}{" + s[ChatString::kAssistantPrefix] + "C" +
         s[ChatString::kAssistantSuffix] + "}";
}

uint32_t flags(const std::string& jinja) {
  const auto chat = recognise(jinja);
  return chat ? chat->flags : 0xffffffff;
}

std::string default_system(const std::string& jinja) {
  auto chat = recognise(jinja);
  return chat ? (*chat)[ChatString::kDefaultSystem] : "unknown";
}

const std::string kLlama3 =
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + "
    "'<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}";

TEST(ChatTemplateImportTest, KnowsLlama3) {
  EXPECT_EQ(outline(kLlama3),
            "llama3: <s>{<|start_header_id|>system<|end_header_id|>\n\nC<|eot_id|>}"
            "{<|start_header_id|>user<|end_header_id|>\n\nC<|eot_id|>}"
            "{<|start_header_id|>assistant<|end_header_id|>\n\nC<|eot_id|>}");
  EXPECT_EQ(flags(kLlama3), format::kChatTrim);
}

TEST(ChatTemplateImportTest, KnowsLlama32ByItsDates) {
  const std::string jinja = "{{ 'Cutting Knowledge Date: December 2023\\n' }}" + kLlama3;
  auto chat = recognise(jinja);
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->name, "llama3.2");
  EXPECT_EQ(chat->flags, format::kChatTrim | format::kChatAlwaysSystem);
  EXPECT_EQ((*chat)[ChatString::kSystemPrefix],
            "<|start_header_id|>system<|end_header_id|>\n\n"
            "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
  EXPECT_EQ((*chat)[ChatString::kDefaultSystem], "");
}

TEST(ChatTemplateImportTest, KnowsChatMlAndItsDefaultSystemText) {
  const std::string plain =
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + "
      "'<|im_end|>\\n' }}{% endfor %}";
  EXPECT_EQ(outline(plain),
            "chatml: {<|im_start|>system\nC<|im_end|>\n}{<|im_start|>user\nC<|im_end|>\n}"
            "{<|im_start|>assistant\nC<|im_end|>\n}");
  EXPECT_EQ(flags(plain), 0U);
  const std::string with_default =
      "{{ '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
      "{{ '<|im_start|>system\\nYou are it, it\\'s you.<|im_end|>\\n' }}" +
      plain;
  EXPECT_EQ(flags(with_default), format::kChatAlwaysSystem);
  EXPECT_EQ(default_system("{{ '<|im_start|>system\\nBe good.<|im_end|>\\n' }}" + plain),
            "Be good.");
  EXPECT_EQ(default_system("{{ \"<|im_start|>system\\nIt's you.<|im_end|>\\n\" }}" + plain),
            "It's you.");
  EXPECT_EQ(default_system(plain), "");
  EXPECT_EQ(flags("{{ message['content'] | trim }}" + plain), format::kChatTrim);
}

TEST(ChatTemplateImportTest, KnowsLlama2) {
  const std::string jinja =
      "{{ '<<SYS>>\\n' }}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}";
  EXPECT_EQ(outline(jinja), "llama2: {<<SYS>>\nC\n<</SYS>>\n\n}{<s>[INST] C [/INST]}{ C </s>}");
  EXPECT_EQ(flags(jinja),
            format::kChatSystemInUser | format::kChatOpenTurnEmpty | format::kChatTrim);
}

TEST(ChatTemplateImportTest, KnowsTheSpacesOfMistralsVersions) {
  EXPECT_EQ(outline("{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
                    "{{ message['content'] + eos_token + ' ' }}"),
            "mistral: <s>{C\n\n}{[INST] C [/INST]}{C</s> }");
  EXPECT_EQ(outline("{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
                    "{{ message['content'] + eos_token }}"),
            "mistral: <s>{C\n\n}{[INST] C [/INST]}{C</s>}");
  EXPECT_EQ(outline("{{- bos_token }}{{- ' [INST] ' + message['content'] + ' [/INST]' }}"
                    "{{- ' ' + message['content'] + eos_token }}"),
            "mistral: <s>{C\n\n}{ [INST] C [/INST]}{ C</s>}");
  EXPECT_EQ(outline("{#- It's a comment. #}{{- bos_token }}"
                    "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}"
                    "{{- \" \" + message[\"content\"]|trim + eos_token }}"),
            "mistral: <s>{C\n\n}{[INST] C[/INST]}{ C</s>}");
}

TEST(ChatTemplateImportTest, KnowsZephyr) {
  const std::string jinja =
      "{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
      "{{ '<|assistant|>' }}\n";
  EXPECT_EQ(outline(jinja),
            "zephyr: {<|system|>\nC</s>\n}{<|user|>\nC</s>\n}{<|assistant|>\nC</s>\n}");
}

TEST(ChatTemplateImportTest, KnowsGranite) {
  const std::string jinja =
      "{{ '<|start_of_role|>user<|end_of_role|>' + c + '<|end_of_text|>\\n' }}";
  EXPECT_EQ(outline(jinja),
            "granite: {<|start_of_role|>system<|end_of_role|>C<|end_of_text|>\n}"
            "{<|start_of_role|>user<|end_of_role|>C<|end_of_text|>\n}"
            "{<|start_of_role|>assistant<|end_of_role|>C<|end_of_text|>\n}");
  EXPECT_EQ(flags(jinja), 0U);
  EXPECT_EQ(flags("{{ 'Knowledge Cutoff Date: April 2024.\\n' }}" + jinja),
            format::kChatAlwaysSystem);
}

TEST(ChatTemplateImportTest, DoesNotGuess) {
  for (const char* jinja : {
           "",
           "{{ messages }}",
           "{{ '<start_of_turn>' + role + content + '<end_of_turn>' }}",
           "{{ '<|user|>' + '\\n' + message['content'] + '<|end|>' + '<|assistant|>' }}",
           "{{ '<|user|>\\n' + message['content'] + '\\n<|assistant|>' }}",
           "{{ '<|im_start|>user<|im_sep|>' + content + '<|im_end|>' }}",
           "{{ 'USER: ' + content + ' ASSISTANT:' }}",
           "{{ bos_token + '[SYSTEM_PROMPT]' + s + '[/SYSTEM_PROMPT][INST]' + c + '[/INST]' }}",
       }) {
    EXPECT_EQ(outline(jinja), "unknown") << jinja;
  }
}

TEST(ChatTemplateImportTest, BuildsTheSection) {
  const auto chat = recognise(kLlama3);
  ASSERT_TRUE(chat);
  const std::vector<uint8_t> section = build_chat_section(*chat, "f");
  size_t n_bytes = sizeof(format::ChatTemplateHeader);
  for (const std::string& text : chat->strings) n_bytes += text.size();
  EXPECT_EQ(section.size(), n_bytes);
  EXPECT_EQ(section[0], static_cast<uint8_t>(format::ChatTemplateKind::kLlama3));
}

}  // namespace
}  // namespace cria::converter
