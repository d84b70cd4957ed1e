// The text of one choice as its tokens come: characters put together, what may become a stop string
// held back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>
#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/engine/stop_strings.h"

namespace cria::hosted {

class AnswerText {
 public:
  // Both outlive it. A model without a tokenizer gives no text.
  AnswerText(const cria_model* model, const AnswerRequest& request);

  // Takes a token. Errors: those of cria_decode_token.
  cria_status put(DrawnToken token);
  // No token follows: what waited is text.
  //   - is_cut: more would have followed. Where calls are read, half a character is then left out:
  //     it may be one of a marker
  void end(bool is_cut);

  // The stop string that the text ends before; null: none.
  [[nodiscard]] const std::string* stop() const { return finder_.found(); }
  // Moves what can be told to piece; false: nothing can.
  bool take(AnswerPiece* piece);

 private:
  // A token and how long the text is, at least, once it shows all of it.
  struct Waiting {
    DrawnToken token;
    size_t end;
  };
  cria_status decode(uint32_t token, std::string_view* text);

  const cria_model* model_;
  const bool shows_special_;
  const std::shared_ptr<const std::vector<uint32_t>> markers_;
  cria_text_state state_ = {};
  std::vector<char> decoded_;  // of one token
  StopFinder finder_;
  std::string held_;   // after what was told
  size_t n_told_ = 0;  // bytes
  bool is_over_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace cria::hosted
