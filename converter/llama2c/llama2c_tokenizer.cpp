#include "converter/llama2c/llama2c_tokenizer.h"

#include <cmath>
#include <cstring>

#include "converter/error.h"
#include "converter/sentencepiece_model.h"
#include "converter/tokenizer_json_stages.h"

namespace cria::converter {
namespace {

constexpr uint32_t kUnknown = 0;
constexpr uint32_t kBegin = 1;
constexpr uint32_t kEnd = 2;
constexpr uint32_t kFirstByte = 3;
constexpr uint32_t kFirstWord = kFirstByte + 256;

class PieceReader {
 public:
  PieceReader(std::span<const uint8_t> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const uint8_t> take_bytes(uint64_t n) {
    if (n > bytes_.size())
      refuse("ends inside a piece; check that it is a tokenizer of llama2.c, and complete");
    const std::span<const uint8_t> taken = bytes_.first(static_cast<size_t>(n));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  [[noreturn]] void refuse(const std::string& problem) const {
    throw ProgramError(ExitCode::kInvalidInput, where_ + ": " + problem);
  }
  [[nodiscard]] bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const uint8_t> bytes_;
  const std::string& where_;
};

PieceType type_of(uint32_t id) {
  if (id == kUnknown) return PieceType::kUnknown;
  if (id == kBegin || id == kEnd) return PieceType::kControl;
  return id < kFirstWord ? PieceType::kByte : PieceType::kNormal;
}

// The file frames these with line ends.
std::string text_of(uint32_t id, const std::string& stored) {
  if (id == kBegin) return "<s>";
  if (id == kEnd) return "</s>";
  return type_of(id) == PieceType::kNormal ? replace_spaces(stored) : stored;
}

}  // namespace

TokenizerModel read_llama2c_tokenizer(std::span<const uint8_t> bytes, uint32_t vocab_size,
                                      const std::string& where) {
  constexpr uint32_t kBpe = 2;
  PieceReader in(bytes, where);
  static_cast<void>(in.take<uint32_t>());  // the longest piece
  SentencePieceModel source;
  source.model_type = kBpe;
  source.byte_fallback = true;
  source.remove_extra_whitespaces = false;
  source.bos_id = kBegin;
  source.eos_id = kEnd;
  for (uint32_t id = 0; id < vocab_size; ++id) {
    if (in.at_end()) {
      in.refuse("has " + std::to_string(id) + " pieces, the model " + std::to_string(vocab_size) +
                "; they do not belong together, name the right one with --tokenizer");
    }
    const float score = in.take<float>();
    if (!std::isfinite(score)) in.refuse("has a score that is not a number");
    const std::span<const uint8_t> text = in.take_bytes(in.take<uint32_t>());
    const std::string stored(reinterpret_cast<const char*>(text.data()), text.size());
    source.pieces.push_back({text_of(id, stored), score, type_of(id)});
  }
  if (!in.at_end()) {
    in.refuse("has more than the model's " + std::to_string(vocab_size) +
              " pieces; they do not belong together, name the right one with --tokenizer");
  }
  TokenizerModel model = tokenizer_from_sentencepiece(source, where);
  if (model.bos_token != format::kNone) model.flags |= format::kAddBos;
  return model;
}

}  // namespace cria::converter
