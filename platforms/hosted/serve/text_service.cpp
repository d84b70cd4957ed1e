#include "platforms/hosted/serve/text_service.h"

#include <algorithm>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/chat/chat_refusal.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/session/model_tokens.h"

namespace cria::hosted {
namespace {

// English takes some 4 bytes a token, code and tables up to twice that.
constexpr uint64_t kTextBytesOfToken = 16;
constexpr uint64_t kLeastTextBytes = uint64_t{16} << 10;

size_t text_bytes_for(uint32_t context) {
  const uint64_t n_bytes = std::max(kLeastTextBytes, kTextBytesOfToken * context);
  return static_cast<size_t>(std::min<uint64_t>(n_bytes, uint64_t{64} << 20));
}

// A short request with what a chat template writes around its messages.
constexpr size_t kShortTextBytes = size_t{256} << 10;

size_t short_bytes_for(uint32_t context) {
  return std::min(kShortTextBytes, text_bytes_for(context));
}

cria_config text_config(cria_config config, uint32_t context, size_t max_bytes) {
  config.text_only = 1;
  config.context = context;
  config.max_text_bytes = static_cast<uint32_t>(max_bytes);
  config.parallel_for = nullptr;
  config.parallel_context = nullptr;
  config.load_progress = nullptr;
  config.step_progress = nullptr;
  config.n_threads = 1;
  return config;
}

size_t n_replaced(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  size_t n = 0;
  for (size_t at = text.find(kReplacement); at != std::string_view::npos;
       at = text.find(kReplacement, at + kReplacement.size())) {
    ++n;
  }
  return n;
}

uint32_t context_of(const ModelFile& file, const cria_config& config) {
  return config.context != 0 ? config.context : file.info().planned_context;
}

void refuse(const std::optional<ChatRefusal>& refusal, const ConversationMembers& members) {
  if (!refusal) return;
  throw ApiError(ErrorKind::kInvalidRequest, refusal->text,
                 refusal->is_of_tools ? members.tools : members.messages);
}

}  // namespace

void check_token_bytes(size_t n_bytes) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  if (n_bytes <= kMostBytes) return;
  throw ApiError(ErrorKind::kTooLarge,
                 text_of("the texts of the tokens have more than %zu bytes together; ask for fewer "
                         "at once",
                         kMostBytes));
}

uint64_t TextService::bytes_for(const ModelFile& file, cria_config config) {
  if (file.info().has_tokenizer == 0) return 0;
  const uint32_t context = context_of(file, config);
  uint64_t n_bytes = 0;
  for (const size_t max_bytes : {short_bytes_for(context), text_bytes_for(context)}) {
    n_bytes += plan_for(file, text_config(config, context, max_bytes)).workspace.total;
  }
  return n_bytes;
}

TextService::TextService(const ModelSession& model)
    : model_(model),
      max_text_bytes_(text_bytes_for(cria_context(model.session()))),
      short_(short_bytes_for(cria_context(model.session()))),
      long_(max_text_bytes_),
      writing_(std::make_shared<const CallWriting>(CallWriting::of(model.model()))) {
  if (!has_tokenizer()) return;
  make(&short_);
  make(&long_);
  if (writing_->writes(CRIA_WRITES_CALLS)) rounds_ = tool_rounds_of(model.info(), short_.workspace);
}

void TextService::make(Place* place) {
  const cria_config config =
      text_config(model_.config(), cria_context(model_.session()), place->max_bytes);
  cria_memory_plan plan = {};
  model_.check(cria_plan(&model_.info(), &config, &plan));
  place->memory.emplace(plan.workspace.total);
  place->memory->make_resident();
  model_.check(cria_make_workspace(place->memory->data(), place->memory->size_bytes(),
                                   model_.model(), &config, &place->workspace));
}

uint64_t TextService::n_bytes() const {
  return has_tokenizer() ? short_.memory->size_bytes() + long_.memory->size_bytes() : 0;
}

void TextService::need_tokenizer() const {
  if (has_tokenizer()) return;
  throw ApiError(ErrorKind::kNotSupported,
                 "the model has no tokenizer; /completion takes token ids as its prompt");
}

// In parts that end before a space where there is one.
uint64_t TextService::count(std::string_view text, uint32_t flags) {
  constexpr size_t kPartBytes = size_t{8} << 10;
  uint64_t n_tokens = 0;
  std::vector<uint32_t> tokens;
  while (!text.empty()) {
    size_t n_bytes = std::min({kPartBytes, short_.max_bytes, text.size()});
    if (n_bytes < text.size()) {
      const size_t space = text.rfind(' ', n_bytes);
      if (space != std::string_view::npos && space > n_bytes / 2) n_bytes = space;
      while (n_bytes > 1 && (static_cast<unsigned char>(text[n_bytes]) & 0xc0) == 0x80) --n_bytes;
    }
    {
      const std::lock_guard lock(short_.mutex);
      if (encode_into(short_.workspace, text.substr(0, n_bytes), flags, &tokens) != CRIA_OK) break;
    }
    n_tokens += tokens.size();
    flags = (flags & ~uint32_t{CRIA_ENCODE_SPECIAL}) | CRIA_ENCODE_CONTINUES;
    text.remove_prefix(n_bytes);
  }
  return n_tokens;
}

Encoded TextService::encode(std::string_view text, uint32_t flags) {
  need_tokenizer();
  Encoded result = {};
  cria_status status = CRIA_TEXT_TOO_LONG;
  if (text.size() <= max_text_bytes_) {
    Place& place = place_for(text.size());
    const std::lock_guard lock(place.mutex);
    status = encode_into(place.workspace, text, flags, &result.tokens);
  }
  if (status == CRIA_TEXT_TOO_LONG) return {{}, count(text, flags), true};
  if (status != CRIA_OK) throw ApiError(ErrorKind::kServer, cria_status_message(status));
  std::vector<uint32_t>& tokens = result.tokens;
  const uint32_t bos = model_.info().bos_token;
  const bool adds = (flags & CRIA_ENCODE_SPECIAL) != 0;
  if (adds && tokens.size() > 1 && bos != CRIA_NO_TOKEN && tokens[0] == bos && tokens[1] == bos) {
    tokens.erase(tokens.begin());
  }
  result.n_tokens = tokens.size();
  return result;
}

void TextService::complete(Conversation* conversation, const ConversationMembers& members) {
  const bool has_any = std::any_of(
      conversation->messages.begin(), conversation->messages.end(),
      [](const ConversationMessage& m) { return m.role == CRIA_TOOL || !m.calls.empty(); });
  if (!has_chat() || !has_any) return;
  const std::lock_guard lock(short_.mutex);
  refuse(complete_for(short_.workspace, conversation, CRIA_TURN_OPENED), members);
}

Encoded TextService::encode_chat(const Conversation& text, const ConversationMembers& members) {
  if (is_for_embeddings()) {
    throw ApiError(ErrorKind::kNotSupported,
                   "the model makes embeddings and holds no conversations; use /v1/embeddings");
  }
  if (!has_chat()) {
    throw ApiError(ErrorKind::kNotSupported,
                   has_tokenizer() ? "the model has no chat template; use /v1/completions, or "
                                     "convert again with --chat-template"
                                   : "the model has no tokenizer; /completion takes token ids");
  }
  const ConversationView view(text, CRIA_TURN_OPENED);
  {
    const std::lock_guard lock(short_.mutex);
    refuse(chat_refusal_of(short_.workspace, text, CRIA_TURN_OPENED), members);
  }
  Encoded result = {};
  const auto overflow = [&] {
    uint64_t n_tokens = 0;
    visit_texts(
        text, [&](const std::string& each) { n_tokens += 1 + count(each, CRIA_ENCODE_CONTINUES); });
    return Encoded{{}, n_tokens, true};
  };
  // So many messages, or so much text, that no context holds them.
  const uint64_t n_bytes = bytes_of(text);
  const bool is_hopeless = text.messages.size() >= cria_context(model_.session());
  if (n_bytes > max_text_bytes_ || is_hopeless) return overflow();
  // JSON may be written with more space than it came with.
  size_t n_written = 0;
  {
    const std::lock_guard lock(long_.mutex);
    const cria_status status = cria_chat_text(long_.workspace, view.get(), nullptr, 0, &n_written);
    if (status != CRIA_BUFFER_TOO_SMALL && status != CRIA_OK) return overflow();
  }
  if (n_written > 2 * max_text_bytes_) return overflow();
  constexpr size_t kTokensOfAByte = 3;
  constexpr size_t kMore = 64;
  result.tokens.resize(kTokensOfAByte * n_written + kMore);
  size_t n_tokens = 0;
  cria_status status = CRIA_TEXT_TOO_LONG;
  // With what the template writes a short one may be long.
  for (Place* const place : {&short_, &long_}) {
    if (status != CRIA_TEXT_TOO_LONG || n_bytes > place->max_bytes) continue;
    const std::lock_guard lock(place->mutex);
    status = cria_encode_chat(place->workspace, view.get(), 0, result.tokens.data(),
                              result.tokens.size(), &n_tokens);
  }
  if (status == CRIA_TEXT_TOO_LONG || status == CRIA_BUFFER_TOO_SMALL) return overflow();
  if (status != CRIA_OK) throw ApiError(ErrorKind::kServer, cria_status_message(status));
  result.tokens.resize(n_tokens);
  result.n_tokens = n_tokens;
  return result;
}

void TextService::refuse_length(uint64_t n_tokens) const {
  const uint32_t n_context = cria_context(model_.session());
  if (n_tokens >= n_context) {
    throw ApiError(ContextSizes{n_tokens, n_context, model_.advice_on_length()});
  }
  throw ApiError(
      ErrorKind::kInvalidRequest,
      text_of("texts of more than %zu bytes together are not read, even if they have few tokens",
              max_text_bytes_));
}

std::string TextService::text_by(WriteText write, const Conversation& conversation) {
  const ConversationView view(conversation, CRIA_TURN_OPENED);
  const std::lock_guard lock(long_.mutex);
  std::string text;
  size_t n_bytes = 0;
  cria_status status = write(long_.workspace, view.get(), nullptr, 0, &n_bytes);
  if (status == CRIA_BUFFER_TOO_SMALL) {
    text.resize(n_bytes);
    status = write(long_.workspace, view.get(), text.data(), text.size(), &n_bytes);
  }
  if (status != CRIA_OK) throw ApiError(ErrorKind::kServer, cria_status_message(status));
  return text;
}

uint32_t TextService::n_lasting(const Conversation& text, const std::vector<uint32_t>& tokens) {
  const ConversationView view(text, CRIA_TURN_LATER);
  std::vector<uint32_t> lasting(tokens.size());
  size_t n_tokens = 0;
  const std::lock_guard lock(long_.mutex);
  const cria_status status =
      cria_encode_chat(long_.workspace, view.get(), 0, lasting.data(), lasting.size(), &n_tokens);
  if (status != CRIA_OK) return 0;
  const auto end = lasting.begin() + static_cast<ptrdiff_t>(n_tokens);
  const auto differs = std::mismatch(lasting.begin(), end, tokens.begin(), tokens.end()).first;
  return static_cast<uint32_t>(differs - lasting.begin());
}

std::string TextService::opening(const Conversation& conversation) {
  return text_by(&cria_chat_opening, conversation);
}

std::string TextService::chat_text(const Conversation& conversation,
                                   const ConversationMembers& members) {
  const Encoded encoded = encode_chat(conversation, members);
  if (encoded.is_counted) refuse_length(encoded.n_tokens);
  std::string text = text_by(&cria_chat_text, conversation);
  const Encoded again = encode(text, CRIA_ENCODE_PARSE);
  const bool is_same = again.is_counted || again.tokens == encoded.tokens;
  bool spells_token_out = false;
  visit_texts(conversation, [&](const std::string& each) {
    constexpr uint32_t kParsed = CRIA_ENCODE_CONTINUES | CRIA_ENCODE_PARSE;
    spells_token_out = spells_token_out ||
                       encode(each, kParsed).tokens != encode(each, CRIA_ENCODE_CONTINUES).tokens;
  });
  if (is_same || spells_token_out) return text;
  throw ApiError(ErrorKind::kNotSupported,
                 "no text has the tokens of this conversation: in a text, the tokenizer finds a "
                 "control token only after a space; use "
                 "/v1/chat/completions");
}

std::string TextService::decode(const std::vector<uint32_t>& tokens, bool begins) const {
  need_tokenizer();
  std::string piece(token_text_capacity(model_.model()), '\0');
  std::string text;
  cria_text_state state = {};
  state.show_special = 1;
  state.started = begins ? 0 : 1;
  const auto put = [&](uint32_t token) {
    size_t n_bytes = 0;
    const cria_status status =
        cria_decode_token(model_.model(), &state, token, piece.data(), piece.size(), &n_bytes);
    if (status != CRIA_OK) throw ApiError(ErrorKind::kServer, cria_status_message(status));
    text.append(piece, 0, n_bytes);
    check_token_bytes(text.size());
  };
  for (const uint32_t token : tokens) put(token);
  put(CRIA_NO_TOKEN);
  return text;
}

std::string TextService::token_text(uint32_t token) const {
  return has_tokenizer() ? decode({token}, false) : std::string();
}

std::string TextService::token_bytes(uint32_t token) const {
  const std::string text = token_text(token);
  size_t n_bytes = 0;
  const char* const stored = cria_token_text(model_.model(), token, &n_bytes);
  if (stored == nullptr) return text;
  // The table has the bytes, but for how it marks spaces; where all are whole characters the text
  // is them.
  const std::string_view bytes(stored, n_bytes);
  return n_replaced(text) == n_replaced(bytes) ? text : std::string(bytes);
}

}  // namespace cria::hosted
