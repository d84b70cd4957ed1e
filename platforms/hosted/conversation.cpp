#include "platforms/hosted/conversation.h"

#include <algorithm>
#include <numeric>

namespace cria::hosted {

Conversation::Conversation(size_t reserved_bytes, size_t reserved_messages) {
  text_.reserve(reserved_bytes);
  messages_.reserve(reserved_messages);
  view_.reserve(reserved_messages);
}

void Conversation::clear() {
  messages_.clear();
  text_.clear();
}

void Conversation::add(cria_role role, std::string_view text) {
  messages_.push_back({role, text.size()});
  text_ += text;
}

void Conversation::append_to_last(std::string_view text) {
  messages_.back().n_bytes += text.size();
  text_ += text;
}

void Conversation::drop_last() {
  text_.resize(text_.size() - messages_.back().n_bytes);
  messages_.pop_back();
}

size_t Conversation::first_exchange() const {
  return !messages_.empty() && messages_[0].role == CRIA_SYSTEM ? 1 : 0;
}

size_t Conversation::end_of_exchanges(size_t n_exchanges) const {
  size_t index = first_exchange();
  size_t n_seen = 0;
  for (; index < messages_.size(); ++index) {
    if (messages_[index].role == CRIA_USER && ++n_seen > n_exchanges) break;
  }
  return index;
}

void Conversation::drop_oldest(size_t n_exchanges) {
  const auto first = messages_.begin() + static_cast<std::ptrdiff_t>(first_exchange());
  const auto end = messages_.begin() + static_cast<std::ptrdiff_t>(end_of_exchanges(n_exchanges));
  const auto add_bytes = [](size_t sum, const Message& message) { return sum + message.n_bytes; };
  const size_t kept_bytes = std::accumulate(messages_.begin(), first, size_t{0}, add_bytes);
  text_.erase(kept_bytes, std::accumulate(first, end, size_t{0}, add_bytes));
  messages_.erase(first, end);
}

size_t Conversation::n_exchanges() const {
  return static_cast<size_t>(
      std::count_if(messages_.begin(), messages_.end(),
                    [](const Message& message) { return message.role == CRIA_USER; }));
}

const std::vector<cria_message>& Conversation::view(size_t n_left_out) {
  const size_t skip_begin = first_exchange();
  const size_t skip_end = end_of_exchanges(n_left_out);
  view_.clear();
  size_t offset = 0;
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Message& message = messages_[i];
    if (i < skip_begin || i >= skip_end) {
      view_.push_back({message.role, text_.data() + offset, message.n_bytes});
    }
    offset += message.n_bytes;
  }
  return view_;
}

}  // namespace cria::hosted
