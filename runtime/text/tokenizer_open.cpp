// Opens the sections of a file's texts; their rules are in quant/text/tokenizer_check.h.
#include "quant/text/nfc.h"
#include "quant/text/tokenizer_check.h"
#include "runtime/text/tokenizer.h"

namespace cria {
namespace {

Status status_of(const char* wrong) {
  return wrong == nullptr ? Status::kOk : Status::kInvalidModel;
}

}  // namespace

Status tokenizer_open(std::span<const uint8_t> section, uint32_t vocab_size, Tokenizer* tokenizer) {
  if (reinterpret_cast<uintptr_t>(section.data()) % alignof(uint32_t) != 0) {
    return Status::kMisaligned;
  }
  CRIA_TRY(status_of(check_tokenizer(section, vocab_size, tokenizer)));
  const bool needs_nfc = (tokenizer->header.flags & format::kNfc) != 0;
  return needs_nfc && !kHasNfc ? Status::kUnsupported : Status::kOk;
}

Status chat_template_open(std::span<const uint8_t> section, ChatTemplate* chat) {
  return status_of(check_chat_template(section, chat));
}

Status control_tokens_hold(const Tokenizer& tokenizer, const ChatTemplate* chat,
                           const format::ModelScalars& config) {
  return status_of(check_control_tokens(tokenizer, chat, config));
}

}  // namespace cria
