// The added tokens of a tokenizer, where several files of its folder name some.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "converter/text_table.h"
#include "converter/tokenizer_config.h"
#include "converter/tokenizer_tables.h"

namespace cria::converter {

// The model's own tokens, as far as added ones ask for them.
struct BaseVocabulary {
  const TextTable& ids;  // by the tokens' texts
  uint32_t end;          // the id after the last
};

// Joins the added tokens of a tokenizer's own file with those that the files beside it name. It
// goes as transformers goes: the vocabulary's id of a text counts, another text gets the next id,
// of one text the first file counts, and white space is taken as added_tokens_decoder says.
//   own         with ids
//   keeps_ids   whether those of own count in any case
//   where       names the tokenizer's file in errors
//   warnings    gets lines about ids that differ
// Throws ProgramError where the order of an object's keys would decide about ids.
[[nodiscard]] std::vector<AddedToken> join_added_tokens(
    const std::vector<AddedToken>& own, bool keeps_ids, const BaseVocabulary& vocabulary,
    const TokenizerConfig& config, const std::string& where, std::vector<std::string>* warnings);

// Of added tokens with one text only the first counts, as in the tokenizers library; the others
// become ids that no token has. Returns lines for people about the first of those and their number.
[[nodiscard]] std::vector<std::string> drop_repeated_added(TokenizerModel* model);

}  // namespace cria::converter
