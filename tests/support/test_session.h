// A model, a session and a workspace over model bytes in memory, for tests: each in a block of
// exactly the planned size.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cria.h>
#include "platforms/hosted/base/thread_pool.h"

namespace cria::test {

// How the source hands out its bytes.
enum class Access { kRead, kMap, kBoth };

// Model bytes at a 64-byte aligned place, as a source.
class MemorySource {
 public:
  explicit MemorySource(std::span<const uint8_t> bytes, Access access = Access::kRead);
  [[nodiscard]] const cria_source& source() const { return source_; }
  [[nodiscard]] std::span<uint8_t> bytes() { return {base_, size_}; }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  uint8_t* base_;
  size_t size_;
  cria_source source_;
};

// 64-byte aligned memory of exactly n_bytes (valgrind and ASan see the byte after it).
class AlignedMemory {
 public:
  explicit AlignedMemory(size_t n_bytes);
  ~AlignedMemory();
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  [[nodiscard]] void* data() { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  void* data_;
  size_t size_;
};

// What a source says it holds, and the plan for it. Both fail the test when the library refuses.
[[nodiscard]] cria_model_info inspected(const cria_source& source);
[[nodiscard]] cria_memory_plan planned(const cria_model_info& info, const cria_config& config);

// A test's requests and what follows from its source and its threads.
[[nodiscard]] cria_config complete_config(const cria_config& given, const MemorySource& source,
                                          hosted::ThreadPool* pool);

// Throws what a status says.
void need(cria_status status);

// Bytes that the objects of cria_open have taken; those that are null, none.
[[nodiscard]] size_t bytes_of(const cria_instance& instance);

// The backends of this build, and a test's name for one.
[[nodiscard]] std::vector<cria_backend> built_backends();
[[nodiscard]] std::string backend_label(const testing::TestParamInfo<cria_backend>& backend);

class TestSession {
 public:
  // With the programs' thread pool where config.n_threads asks for it. Fails the test when an
  // object takes other bytes than were planned, throws when one cannot be had. A text_only config
  // gives no session.
  TestSession(const MemorySource& source, const cria_config& config);
  [[nodiscard]] const cria_model* model() const { return model_; }
  [[nodiscard]] cria_session* session() { return session_; }
  [[nodiscard]] cria_workspace* workspace() { return workspace_; }
  [[nodiscard]] cria_instance instance() { return {model_, session_, workspace_}; }
  // What the three were made with, hooks of the thread pool included.
  [[nodiscard]] const cria_config& config() const { return config_; }
  [[nodiscard]] const cria_memory_plan& plan() const { return plan_; }
  [[nodiscard]] const cria_model_info& info() const { return info_; }

  // Logits after every token, [n][vocab_size].
  [[nodiscard]] std::vector<float> all_logits(std::span<const uint32_t> tokens);
  // Continues greedily from the newest logits.
  [[nodiscard]] std::vector<uint32_t> greedy(size_t n_tokens);

 private:
  hosted::ThreadPool pool_;
  cria_config config_;
  cria_model_info info_;
  cria_memory_plan plan_;
  AlignedMemory model_memory_;
  AlignedMemory session_memory_;
  AlignedMemory workspace_memory_;
  cria_model* model_ = nullptr;
  cria_session* session_ = nullptr;
  cria_workspace* workspace_ = nullptr;
};

}  // namespace cria::test
