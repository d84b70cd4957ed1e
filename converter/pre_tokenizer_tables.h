// Turns the regexes of a pre-tokenizer into the tables that the runtime walks
// (quant/text/pre_tokenizer_format.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "converter/pre_tokenizer_names.h"

namespace cria::converter {

// The tables of at least one rule. Throws ProgramError that begins with where.
[[nodiscard]] std::vector<uint8_t> build_pre_tokenizer_tables(std::span<const SplitRule> rules,
                                                              const std::string& where);

// Whether each character of every text is part of a match of the rule. Throws as above.
[[nodiscard]] bool covers_all_text(const SplitRule& rule, const std::string& where);

}  // namespace cria::converter
