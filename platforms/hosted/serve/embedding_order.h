// What requests for embeddings share, whatever their style.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/answer_writer.h"

namespace cria::hosted {

// What becomes of a text that the context does not hold.
enum class LongText { kIsRefused, kIsCut };

// The tokens of a text, special ones added as the tokenizer has them; one that is cut keeps those
// after it. Throws ApiError; param names the member that it comes from.
std::vector<uint32_t> embedding_tokens(const OrderContext& context, std::string_view text,
                                       LongText long_text, const char* param);

// What "dimensions" says: 1 to the model's; 0: nothing. Throws ApiError.
uint32_t embedding_dimensions(const OrderContext& context, const RequestFields& fields);

// Throws ApiError unless an answer holds the embeddings of so many texts: asked before they are
// encoded.
void check_text_count(const OrderContext& context, size_t n_texts, uint32_t dimensions);

// Has the texts, from one to as many as that allows, be embedded: by so many sessions at once that
// others are left.
void put_texts(const OrderContext& context, std::vector<std::vector<uint32_t>> texts,
               uint32_t dimensions, AnswerOrder* order);

// Writes whole answers; each text's embedding is written as the client takes it.
class EmbeddingWriter : public AnswerWriter {
 public:
  using AnswerWriter::AnswerWriter;

 protected:
  // Of text i.
  [[nodiscard]] std::span<const float> embedding(size_t i) const;
  // Until the last one was made.
  [[nodiscard]] double total_seconds() const;
  // [0.1,-0.2]
  static std::string list_of(std::span<const float> values);

 private:
  JsonText piece_event(size_t, const AnswerPiece&, Choice*) override { return nullptr; }
  JsonText end_event(size_t, const Choice&) override { return nullptr; }
};

}  // namespace cria::hosted
