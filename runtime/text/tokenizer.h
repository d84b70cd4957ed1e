// Text to tokens and back, on the tables of the file (quant/text/tokenizer_format.h) as they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/text/chat_text.h"
#include "quant/text/tokenizer_view.h"
#include "runtime/base/status.h"

namespace cria {

// Checks a section once, so that nothing below has to (quant/text/tokenizer_check.h), and points
// tokenizer into it. section is 4-byte aligned and outlives tokenizer.
//   vocab_size  the model's: no token may reach it
// Errors: kInvalidModel; kMisaligned; kUnsupported when the tokenizer normalizes text and the
// tables for it are not built in (quant/text/nfc.h). Cost: reads the section about twice.
[[nodiscard]] Status tokenizer_open(std::span<const uint8_t> section, uint32_t vocab_size,
                                    Tokenizer* tokenizer);

// What one call to tokenizer_encode does.
struct EncodeOptions {
  bool add_special;    // BOS and EOS as the tokenizer's own rules say
  bool parse_special;  // text of special tokens becomes those tokens; else it is plain text. Added
                       // tokens that are not special (kTokenSpecial) are found in any case
  bool continues;      // text follows other text: no prefix space (kPrependSpace, kAddPrefixSpace)
};

// Encodes UTF-8 text (invalid bytes are encoded as U+FFFD would be, or as byte tokens by
// byte-level BPE). Writes at most tokens.size() ids; n_tokens is the number the whole text needs
// when the result is Status::kOk.
//   workspace  kEncodeBytesPerSymbol (quant/model/memory_plan.h) bytes a symbol of the longest
//              word: a byte (byte-level) or a character, or a byte of one that needs byte tokens;
//              and one symbol for a prepended space. The whole text is one word where
//              header.pre_tokenizer is kWhole. Text that has to be normalized (kNfc) is put there
//              first, with at most kMaxNfcGrowth (quant/text/nfc.h) times its bytes. 4-byte aligned
// Errors: kTextTooLong when the workspace is too small, kBufferTooSmall when tokens is,
//         kInvalidModel when the pre-tokenizer's tables are hostile (runtime/text/pre_tokenizer.h).
// Cost: n log n in the length of a word, or of the text for SentencePiece.
[[nodiscard]] Status tokenizer_encode(const Tokenizer& tokenizer, std::span<const char> text,
                                      const EncodeOptions& options, std::span<uint8_t> workspace,
                                      std::span<uint32_t> tokens, size_t* n_tokens);

// State of a stream of decoded tokens: bytes of a character that is not complete yet.
struct DecodeState {
  uint8_t pending[4];
  uint8_t n_pending;
  uint8_t started;  // a token was decoded: no leading space is dropped any more
};

// Appends the text of one token: whole UTF-8 characters only; what is incomplete waits in state.
// Tokens at or past header.n_tokens give nothing.
// Bytes that can never become a character come out as U+FFFD. Special tokens give nothing unless
// show_special. At most header.longest_token * 3 + 8 bytes are written; out must hold that many.
// Returns the bytes written.
size_t tokenizer_decode(const Tokenizer& tokenizer, uint32_t token, bool show_special,
                        DecodeState* state, std::span<char> out);
// Ends the stream: an incomplete character comes out as U+FFFD.
size_t tokenizer_decode_end(DecodeState* state, std::span<char> out);

// Chat templates -------------------------------------------------------------------------------

// Errors: kInvalidModel.
[[nodiscard]] Status chat_template_open(std::span<const uint8_t> section, ChatTemplate* chat);

// Whether no text of a user can become a token that ends answers or frames messages, and answers
// end where the template ends them. chat: null when the file has none. Errors: kInvalidModel.
[[nodiscard]] Status control_tokens_hold(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                         const format::ModelScalars& config);

// Encodes what messages [first, messages.size()) of a conversation add to its tokens, whose earlier
// messages are encoded already (first == 0: from the start). Template text is encoded with special
// tokens recognised, contents without: a user cannot forge a control token. The tokens are those of
// the whole text: with ChatEnd::kGoesOn the text after the last special token of the template
// stays for the call that follows, which begins with it.
//   workspace  as for tokenizer_encode, and room for the text between two special tokens of the
//              template and 32 bytes a message; 8-byte aligned
// Errors: kTextTooLong, kBufferTooSmall, as above; kInvalidArgument when first > messages.size();
// kRefusedByTemplate where chat_refusal says why.
[[nodiscard]] Status chat_encode(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                 const Conversation& conversation, size_t first,
                                 std::span<uint8_t> workspace, std::span<uint32_t> tokens,
                                 size_t* n_tokens);

// Whether the tokens of an answer can stay where they are when the conversation goes on: the
// template writes it the same way in history and after the turn that it opened, and ends it with a
// special token.
[[nodiscard]] bool chat_keeps_answers(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      ChatThinking thinking);

// Whether the tokens of the first exchanges can be taken out of a conversation's and leave those of
// the conversation without them. For a template that keeps answers.
[[nodiscard]] bool chat_drops_exchanges(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                        ChatThinking thinking, bool has_system);

}  // namespace cria
