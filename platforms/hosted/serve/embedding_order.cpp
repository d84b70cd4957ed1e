#include "platforms/hosted/serve/embedding_order.h"

#include <algorithm>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/api_error.h"

namespace cria::hosted {
namespace {

// OpenAI's own.
constexpr size_t kMostTexts = 2048;

// The first text of request i of so many that share out texts.
size_t first_text(size_t i, size_t n_requests, size_t n_texts) { return i * n_texts / n_requests; }

uint32_t width_of(const OrderContext& context, uint32_t dimensions) {
  return dimensions != 0 ? dimensions : context.model.info().d_model;
}

// Text is cut where a character begins.
std::string_view cut_text(std::string_view text, size_t n_bytes) {
  if (text.size() <= n_bytes) return text;
  while (n_bytes > 0 && (static_cast<unsigned char>(text[n_bytes]) & 0xc0) == 0x80) --n_bytes;
  return text.substr(0, n_bytes);
}

// Tokens that the tokenizer adds after a text, by one with them and the same without.
size_t n_behind(const std::vector<uint32_t>& with, const std::vector<uint32_t>& plain) {
  const size_t n_added = with.size() - std::min(with.size(), plain.size());
  const auto begin = std::search(with.begin(), with.end(), plain.begin(), plain.end());
  return begin == with.end() ? 0 : n_added - static_cast<size_t>(begin - with.begin());
}

std::vector<uint32_t> cut_tokens(const OrderContext& context, std::string_view text) {
  TextService& service = *context.text;
  const std::string_view kept = cut_text(text, service.max_text_bytes());
  std::vector<uint32_t> tokens = service.encode(kept, CRIA_ENCODE_SPECIAL).tokens;
  const size_t n_context = cria_context(context.model.session());
  if (tokens.size() <= n_context) return tokens;
  const size_t n_end = std::min(n_behind(tokens, service.encode(kept, 0).tokens), n_context);
  tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(n_context - n_end),
               tokens.end() - static_cast<ptrdiff_t>(n_end));
  return tokens;
}

}  // namespace

std::vector<uint32_t> embedding_tokens(const OrderContext& context, std::string_view text,
                                       LongText long_text, const char* param) {
  if (!context.text->has_tokenizer()) {
    throw ApiError(ErrorKind::kNotSupported,
                   "the model has no tokenizer; /v1/embeddings takes token ids as its input");
  }
  std::vector<uint32_t> tokens;
  if (long_text == LongText::kIsCut) {
    tokens = cut_tokens(context, text);
  } else {
    Encoded encoded = context.text->encode(text, CRIA_ENCODE_SPECIAL);
    if (encoded.is_counted || encoded.n_tokens > cria_context(context.model.session())) {
      context.text->refuse_length(encoded.n_tokens);
    }
    tokens = std::move(encoded.tokens);
  }
  if (tokens.empty()) {
    throw ApiError(ErrorKind::kInvalidRequest, std::string(param) + " has a text without tokens",
                   param);
  }
  return tokens;
}

uint32_t embedding_dimensions(const OrderContext& context, const RequestFields& fields) {
  const auto dimensions = fields.integer("dimensions", 1, context.model.info().d_model);
  return static_cast<uint32_t>(dimensions.value_or(0));
}

void check_text_count(const OrderContext& context, size_t n_texts, uint32_t dimensions) {
  const size_t n_most = std::clamp<size_t>(
      kMostAnswerBytes / (width_of(context, dimensions) * sizeof(float)), 1, kMostTexts);
  if (n_texts <= n_most) return;
  throw ApiError(ErrorKind::kInvalidRequest,
                 text_of("input has %zu texts and an answer holds the embeddings of at most %zu; "
                         "send fewer at once",
                         n_texts, n_most),
                 "input");
}

void put_texts(const OrderContext& context, std::vector<std::vector<uint32_t>> texts,
               uint32_t dimensions, AnswerOrder* order) {
  const size_t n_texts = texts.size();
  const uint32_t width = width_of(context, dimensions);
  const size_t n_requests = std::min<size_t>(n_texts, std::max(1U, context.n_sessions / 2));
  order->streams = false;
  order->embedding = {width, n_requests};
  for (const auto& text : texts) order->prompt_sizes.push_back(static_cast<uint32_t>(text.size()));
  for (size_t i = 0; i < n_requests; ++i) {
    const auto begin = texts.begin() + static_cast<ptrdiff_t>(first_text(i, n_requests, n_texts));
    const auto end = texts.begin() + static_cast<ptrdiff_t>(first_text(i + 1, n_requests, n_texts));
    AnswerRequest& request = order->prompts.emplace_back();
    request.prompt = std::move(*begin);
    EmbeddingRequest& rest = request.embedding.emplace();
    rest.others.assign(std::make_move_iterator(begin + 1), std::make_move_iterator(end));
    rest.dimensions = dimensions;
  }
}

std::span<const float> EmbeddingWriter::embedding(size_t i) const {
  const auto [width, n_requests] = order_.embedding;
  size_t request = 0;
  while (first_text(request + 1, n_requests, choices_.size()) <= i) ++request;
  const size_t place = i - first_text(request, n_requests, choices_.size());
  return std::span(*choices_[request].summary.embeddings).subspan(place * width, width);
}

double EmbeddingWriter::total_seconds() const {
  double seconds = 0.0;
  for (const Choice& choice : choices_) {
    const AnswerSummary& s = choice.summary;
    seconds = std::max(seconds, s.queued_seconds + s.prefill_seconds + s.decode_seconds);
  }
  return seconds;
}

std::string EmbeddingWriter::list_of(std::span<const float> values) {
  return JsonText::array(values, [](float value) { return JsonText(value); }).take();
}

}  // namespace cria::hosted
