// The joints of a chat template, taken from renderings, and the rules that give them.
#pragma once

#include <string>
#include <vector>

#include "converter/chat_template/stored_form.h"

namespace cria::converter {

// A marked conversation (converter/chat_template/marked_samples.h) and what the template makes of
// it.
struct Sample {
  Dialogue dialogue;
  std::optional<std::string> text;  // nullopt: the template refuses it
};

// Fills in the rules.
void find_rules(const std::vector<Sample>& samples, StoredTemplate* stored);

// Each sample of which they make another text than the template makes one of its rules ask for one
// more place, so that it is refused: that of which the others lose least.
void narrow_wrong_rules(const std::vector<Sample>& samples, StoredTemplate* stored);

// Joins rules that differ only by their units.
void merge_rules(StoredTemplate* stored);

}  // namespace cria::converter
