// Memory for what the network library keeps of one operation that waits. It is taken with whatever
// the operation is of, so that the operation can begin however little memory there is by then.
#pragma once

#include <boost/asio/bind_allocator.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace cria::hosted {

class HandlerMemory {
 public:
  // A second operation, or one that is larger, takes other memory.
  void* take(size_t n_bytes) {
    if (is_taken_ || n_bytes > bytes_.size()) return ::operator new(n_bytes);
    is_taken_ = true;
    return bytes_.data();
  }
  void give_back(void* memory) {
    if (memory == bytes_.data()) {
      is_taken_ = false;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, 512> bytes_;
  bool is_taken_ = false;
};

// It outlives the operation by itself: what is done may end its owner.
template <typename Value>
class HandlerAllocator {
 public:
  // The library's name.
  using value_type = Value;  // NOLINT(readability-identifier-naming)
  explicit HandlerAllocator(std::shared_ptr<HandlerMemory> memory) : memory_(std::move(memory)) {}
  template <typename Other>
  HandlerAllocator(const HandlerAllocator<Other>& other) : memory_(other.memory_) {}

  Value* allocate(size_t n) { return static_cast<Value*>(memory_->take(n * sizeof(Value))); }
  void deallocate(Value* values, size_t) { memory_->give_back(values); }
  template <typename Other>
  bool operator==(const HandlerAllocator<Other>& other) const {
    return memory_ == other.memory_;
  }

 private:
  template <typename Other>
  friend class HandlerAllocator;
  std::shared_ptr<HandlerMemory> memory_;
};

template <typename Handler>
auto stored_in(const std::shared_ptr<HandlerMemory>& memory, Handler handler) {
  return boost::asio::bind_allocator(HandlerAllocator<std::byte>(memory), std::move(handler));
}

}  // namespace cria::hosted
