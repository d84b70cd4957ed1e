#include "converter/chat_template_names.h"

#include <iterator>

namespace cria::converter {
namespace {

// In the order of format::kChatTemplateNames, from kChatKindNamed on. Each is the form of its
// control strings alone: roles that take turns where models saw no others.
constexpr const char* kTemplates[] = {
    // chatml
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}",
    // llama2
    "{% if messages[0]['role'] == 'system' %}{% set system = '<<SYS>>\\n' + messages[0]['content'] "
    "| trim + '\\n<</SYS>>\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set system = '' "
    "%}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % "
    "2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}{% set content = (system + "
    "message['content']) if loop.first else message['content'] %}{% if message['role'] == 'user' "
    "%}{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}{% else %}{{ ' ' + content | trim "
    "+ ' ' + eos_token }}{% endif %}{% endfor %}",
    // llama3
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if "
    "add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif "
    "%}",
    // llama3.2
    "{{ bos_token }}{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% "
    "endif %}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim "
    "%}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}{{ "
    "'<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December "
    "2023\\nToday Date: ' + date_string + '\\n\\n' + system + '<|eot_id|>' }}{% for message in "
    "messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
    "message['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    // mistral
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim + "
    "'\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}{{ "
    "bos_token + system }}{% for message in messages %}{% if (message['role'] == 'user') != "
    "(loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}{% if "
    "message['role'] == 'user' %}{{ '[INST] ' + message['content'] | trim + ' [/INST]' }}{% else "
    "%}{{ ' ' + message['content'] | trim + eos_token }}{% endif %}{% endfor %}",
    // zephyr
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] | trim "
    "+ eos_token + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% "
    "endif %}",
    // vicuna
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim + "
    "'\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}{{ "
    "bos_token + system }}{% for message in messages %}{% if (message['role'] == 'user') != "
    "(loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}{% if "
    "message['role'] == 'user' %}{{ 'USER: ' + message['content'] | trim + '\\n' }}{% else %}{{ "
    "'ASSISTANT: ' + message['content'] | trim + eos_token + '\\n' }}{% endif %}{% endfor %}{% if "
    "add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    // alpaca
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim + "
    "'\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}{{ "
    "bos_token + system }}{% for message in messages %}{% if (message['role'] == 'user') != "
    "(loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}{% if "
    "message['role'] == 'user' %}{{ '### Instruction:\\n' + message['content'] | trim + '\\n\\n' "
    "}}{% else %}{{ '### Response:\\n' + message['content'] | trim + eos_token + '\\n\\n' }}{% "
    "endif %}{% endfor %}{% if add_generation_prompt %}{{ '### Response:\\n' }}{% endif %}",
    // phi3
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] | trim "
    "+ '<|end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif "
    "%}",
    // qwen3, its thinking switched off
    "{% set ns = namespace(last = -1) %}{% for message in messages %}{% if message['role'] == "
    "'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for message in messages "
    "%}{% set content = message['content'] %}{% if message['role'] == 'assistant' %}{% if "
    "'</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% "
    "endif %}{% if loop.last and loop.index0 > ns.last %}{% set content = "
    "'<think>\\n\\n</think>\\n\\n' + content.lstrip('\\n') %}{% endif %}{% endif %}{{ "
    "'<|im_start|>' + message['role'] + '\\n' + content + '<|im_end|>\\n' }}{% endfor %}{% if "
    "add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}{% endif "
    "%}",
    // granite
    "{% for message in messages %}{{ '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + "
    "message['content'] + '<|end_of_text|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}",
};
static_assert(std::size(kTemplates) == format::kChatKinds - format::kChatKindNamed);

}  // namespace

std::optional<NamedTemplate> find_named_template(std::string_view name) {
  for (uint32_t i = 0; i < std::size(kTemplates); ++i) {
    const uint32_t kind = format::kChatKindNamed + i;
    if (name == format::kChatTemplateNames[kind]) return NamedTemplate{kind, kTemplates[i]};
  }
  return std::nullopt;
}

std::string named_templates() {
  std::string text;
  for (uint32_t kind = format::kChatKindNamed; kind < format::kChatKinds; ++kind) {
    if (!text.empty()) text += ", ";
    text += format::kChatTemplateNames[kind];
  }
  return text;
}

}  // namespace cria::converter
