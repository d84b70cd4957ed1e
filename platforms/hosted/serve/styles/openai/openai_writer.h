// What OpenAI's answers have in common.
#pragma once

#include <cstdint>
#include <string>

#include "platforms/hosted/serve/answer_writer.h"

namespace cria::hosted {

class OpenAiWriter : public AnswerWriter {
 protected:
  // object names whole answers, chunk those of a stream.
  struct Names {
    const char* id_prefix;
    const char* object;
    const char* chunk;
  };
  OpenAiWriter(AnswerOrder order, const TextService* text, const Names& names);

  // The event of one choice.
  [[nodiscard]] JsonText chunk_of(const JsonText& choice) const;

 private:
  [[nodiscard]] JsonText head(const char* object) const;
  // head with what was counted.
  [[nodiscard]] JsonText counted_head(const char* object) const;
  // The counts where they are wanted, the end.
  std::string closing() override;
  void put_first() override;
  void put_last() override { put("]}"); }

  Names names_;
  std::string id_;
  int64_t created_;
};

}  // namespace cria::hosted
