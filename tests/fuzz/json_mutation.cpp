#include "tests/fuzz/json_mutation.h"

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace cria::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// Every value, from the root down.
void collect(Json* json, std::vector<Json*>* all) {
  all->push_back(json);
  if (!json->is_structured()) return;
  for (Json& child : *json) collect(&child, all);
}

std::string some_text(std::span<const char* const> words, RandomChoice* random) {
  static constexpr const char* kTexts[] = {
      "",           " ",    "\n",  "a",           "\xE2\x96\x81",     "\xC4\xA0",
      "<|eot_id|>", "</s>", "<s>", "<0x0A>",      "\xF0\x9F\xA6\x99", "\xC2\xA0",
      "<",          "aa",   "a b", "\xEF\xBF\xBD"};
  if (!words.empty() && random->one_in(2)) return words[random->below(words.size())];
  std::string text = random->of(kTexts);
  if (random->one_in(8)) text += random->of(kTexts);
  if (random->one_in(40)) text.append(random->below(5000), 'a');
  return text;
}

Json some_value(std::span<const char* const> words, RandomChoice* random) {
  switch (random->below(8)) {
    case 0:
      return nullptr;
    case 1:
      return random->one_in(2);
    case 2:
    case 3:
      return random->interesting();
    case 4:
      return random->one_in(2) ? Json(-1) : Json(1.5);
    case 5:
      return Json::array();
    default:
      return some_text(words, random);
  }
}

void change_object(Json* json, std::span<const char* const> words, RandomChoice* random) {
  if (!json->empty() && random->one_in(2)) {
    auto place = json->begin();
    std::advance(place, random->below(json->size()));
    const std::string key = place.key();
    const Json value = place.value();
    if (random->one_in(3)) {
      json->erase(key);
      return;
    }
    (*json)[random->one_in(4) ? key + some_text(words, random) : some_text(words, random)] = value;
    if (random->one_in(2)) json->erase(key);
    return;
  }
  (*json)[some_text(words, random)] = some_value(words, random);
}

void change_array(Json* json, std::span<const char* const> words, RandomChoice* random) {
  const size_t n = json->size();
  const uint32_t choice = random->below(4);
  if (n == 0 || choice == 0) {
    json->push_back(some_value(words, random));
  } else if (choice == 1) {
    json->erase(random->below(n));
  } else if (choice == 2) {
    json->push_back((*json)[random->below(n)]);
  } else {
    std::swap((*json)[random->below(n)], (*json)[random->below(n)]);
  }
}

void change(Json* root, std::span<const char* const> words, RandomChoice* random) {
  std::vector<Json*> all;
  collect(root, &all);
  Json* const value = all[random->below(all.size())];
  if (random->one_in(6)) {
    const Json other = *all[random->below(all.size())];
    *value = other;
  } else if (value->is_object() && !random->one_in(8)) {
    change_object(value, words, random);
  } else if (value->is_array() && !random->one_in(8)) {
    change_array(value, words, random);
  } else if (value->is_number_unsigned() && random->one_in(2)) {
    *value = value->get<uint64_t>() + random->below(5) - 2;
  } else if (value->is_string() && random->one_in(2)) {
    *value = random->one_in(2) ? value->get<std::string>() + some_text(words, random)
                               : some_text(words, random) + value->get<std::string>();
  } else {
    *value = some_value(words, random);
  }
}

}  // namespace

std::string changed_json(std::string_view text, std::span<const char* const> words,
                         RandomChoice* random) {
  Json root = Json::parse(text.begin(), text.end(), nullptr, false);
  if (root.is_discarded()) return std::string(text);
  for (uint32_t n = 1 + random->below(3); n > 0; --n) change(&root, words, random);
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cria::fuzz
