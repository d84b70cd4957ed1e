// What a model thinks before it answers: the text from <think> to </think> at an answer's
// beginning.
#pragma once

#include <cstddef>
#include <string_view>

namespace cria::hosted {

// Tells thinking from answer in text that comes in pieces, tags cut anywhere. The tags themselves
// are thinking. Allocates nothing.
class ThinkingFilter {
 public:
  enum class Part { kAnswer, kThinking };
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void put_part(std::string_view text, Part part) = 0;
  };

  explicit ThinkingFilter(Sink* sink) : sink_(sink) {}

  // The template opened the thinking, or a special token that shows no text did; and closed it.
  void open();
  void close();
  void feed(std::string_view text);
  // The end: what may have become a tag is text.
  void finish();

 private:
  enum class State { kBefore, kThinking, kBehind };
  std::string_view tag() const;
  void end_tag();
  void put(std::string_view text);

  Sink* sink_;
  State state_ = State::kBefore;
  size_t n_matched_ = 0;  // bytes of the tag that is looked for, held back
};

}  // namespace cria::hosted
