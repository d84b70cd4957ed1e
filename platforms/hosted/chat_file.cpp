#include "platforms/hosted/chat_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "platforms/hosted/input_text.h"
#include "platforms/hosted/program_error.h"
#include "platforms/posix/output_file.h"

namespace cria::hosted {
namespace {

constexpr char kMagic[8] = {'C', 'R', 'I', 'A', 'C', 'H', 'A', 'T'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kStale = 1 << 0;
constexpr uint64_t kMostPending = 1 << 14;  // of the template, behind an answer

// Followed by messages, fed tokens, pending tokens, text and state.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t flags;
  uint32_t n_messages;
  uint32_t n_fed;
  uint32_t n_pending;
  uint32_t reserved;
  uint64_t text_bytes;
  uint64_t state_bytes;
  uint64_t checksum;  // of what lies between header and state, which has its own
};
static_assert(sizeof(Header) == 56);

struct MessageEntry {
  uint32_t role;
  uint32_t n_bytes;
};
static_assert(sizeof(MessageEntry) == 8);

// FNV-1a.
uint64_t checksum_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

template <typename Value>
void append(std::string* bytes, const Value* values, size_t count) {
  if (count > 0) bytes->append(reinterpret_cast<const char*>(values), count * sizeof(Value));
}

// Takes values from the front of bytes; false when there are not so many.
template <typename Value>
bool take(std::string_view* bytes, uint64_t count, std::vector<Value>* values) {
  if (count > bytes->size() / sizeof(Value)) return false;
  values->resize(static_cast<size_t>(count));
  if (count > 0) std::memcpy(values->data(), bytes->data(), values->size() * sizeof(Value));
  bytes->remove_prefix(values->size() * sizeof(Value));
  return true;
}

// A conversation: platforms/hosted/conversation.h.
bool parse_messages(const std::vector<MessageEntry>& entries, uint64_t text_bytes,
                    std::vector<Conversation::Message>* messages) {
  uint64_t sum = 0;
  uint32_t expected = CRIA_USER;
  for (const MessageEntry& entry : entries) {
    if (entry.role == CRIA_SYSTEM) {
      if (!messages->empty()) return false;
    } else {
      if (entry.role != expected) return false;
      expected = expected == CRIA_USER ? CRIA_ASSISTANT : CRIA_USER;
    }
    sum += entry.n_bytes;
    messages->push_back({static_cast<cria_role>(entry.role), entry.n_bytes});
  }
  return sum == text_bytes && expected == CRIA_USER;  // no message without an answer
}

// The longest file that can be right. A message has at least one token.
uint64_t most_file_bytes(const ChatLimits& limits) {
  const uint64_t tokens = uint64_t{limits.context} + kMostPending;
  return sizeof(Header) + tokens * (sizeof(MessageEntry) + 2 * sizeof(uint32_t)) + kMostTextBytes +
         limits.state_bytes;
}

bool are_below(const std::vector<uint32_t>& tokens, uint32_t vocab_size) {
  return std::all_of(tokens.begin(), tokens.end(),
                     [vocab_size](uint32_t token) { return token < vocab_size; });
}

bool is_within(const ChatRecord& record, const ChatLimits& limits) {
  return record.fed.size() <= limits.context &&
         record.pending.size() <= uint64_t{limits.context} + kMostPending &&
         record.text.size() <= kMostTextBytes && are_below(record.fed, limits.vocab_size) &&
         are_below(record.pending, limits.vocab_size);
}

bool parse(std::string_view bytes, ChatRecord* record) {
  Header header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kVersion ||
      (header.flags & ~kStale) != 0 || header.reserved != 0 || header.state_bytes > bytes.size()) {
    return false;
  }
  if (checksum_of(bytes.substr(0, bytes.size() - static_cast<size_t>(header.state_bytes))) !=
      header.checksum) {
    return false;
  }
  std::vector<MessageEntry> entries;
  std::vector<char> text;
  if (!take(&bytes, header.n_messages, &entries) || !take(&bytes, header.n_fed, &record->fed) ||
      !take(&bytes, header.n_pending, &record->pending) ||
      !take(&bytes, header.text_bytes, &text) ||
      !take(&bytes, header.state_bytes, &record->state) || !bytes.empty()) {
    return false;
  }
  record->text.assign(text.begin(), text.end());
  record->context_is_stale = (header.flags & kStale) != 0;
  return parse_messages(entries, header.text_bytes, &record->messages);
}

}  // namespace

std::string format_chat_file(const ChatRecord& record) {
  std::string body;
  for (const Conversation::Message& message : record.messages) {
    const MessageEntry entry = {static_cast<uint32_t>(message.role),
                                static_cast<uint32_t>(message.n_bytes)};
    append(&body, &entry, 1);
  }
  append(&body, record.fed.data(), record.fed.size());
  append(&body, record.pending.data(), record.pending.size());
  body += record.text;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.flags = record.context_is_stale ? kStale : 0;
  header.n_messages = static_cast<uint32_t>(record.messages.size());
  header.n_fed = static_cast<uint32_t>(record.fed.size());
  header.n_pending = static_cast<uint32_t>(record.pending.size());
  header.text_bytes = record.text.size();
  header.state_bytes = record.state.size();
  header.checksum = checksum_of(body);
  std::string bytes;
  append(&bytes, &header, 1);
  bytes += body;
  append(&bytes, record.state.data(), record.state.size());
  return bytes;
}

ChatLimits chat_limits(const ModelSession& model) {
  constexpr uint64_t kStateHeader = 4096;  // more than it has
  const cria_memory_plan& plan = model.plan();
  return {.state_bytes = kStateHeader + plan.session.total,
          .vocab_size = model.info().vocab_size,
          .context = cria_context(model.session())};
}

ChatRecord parse_chat_file(std::string_view bytes, const ChatLimits& limits,
                           const std::string& path) {
  ChatRecord record;
  if (!parse(bytes, &record) || !is_within(record, limits)) {
    throw ProgramError(ExitCode::kBadInput, path + ": not a conversation that /save wrote");
  }
  return record;
}

void write_chat_file(const std::string& path, const ChatRecord& record) {
  const std::string bytes = format_chat_file(record);
  try {
    posix::OutputFile file(path, posix::InPlace::kNever);
    file.append(bytes.data(), bytes.size());
    file.commit();
  } catch (const posix::OutputError& error) {
    throw program_error_of(error);
  }
}

ChatRecord read_chat_file(const std::string& path, const ChatLimits& limits) {
  return parse_chat_file(read_regular_file(path, most_file_bytes(limits)), limits, path);
}

}  // namespace cria::hosted
