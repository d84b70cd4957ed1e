// A table from texts to numbers that no choice of texts makes slow: its hash has a random key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cria::converter {

class TextTable {
 public:
  TextTable();

  [[nodiscard]] size_t size() const { return entries_.size(); }
  // False, and nothing is done, when text is there already. text, below 4 GiB, must outlive the
  // table.
  bool insert(std::string_view text, uint32_t value);
  [[nodiscard]] std::optional<uint32_t> find(std::string_view text) const;
  // Finds some texts in less time than one after the other: memory is waited for once.
  template <size_t N>
  [[nodiscard]] std::array<std::optional<uint32_t>, N> find_each(
      const std::array<std::string_view, N>& texts) const {
    std::array<uint32_t, N> hashes;
    for (size_t i = 0; i < N; ++i) {
      hashes[i] = hash_of(texts[i]);
      __builtin_prefetch(&buckets_[bucket_of(hashes[i])]);
    }
    for (const uint32_t hash : hashes) {
      const uint32_t first = buckets_[bucket_of(hash)];
      if (first < entries_.size()) __builtin_prefetch(&entries_[first]);
    }
    std::array<std::optional<uint32_t>, N> values;
    for (size_t i = 0; i < N; ++i) values[i] = find(texts[i], hashes[i]);
    return values;
  }

  // The parts of one text, each found in a time that its length has no part in, but for the one
  // comparison that tells it was found.
  class Parts {
   public:
    // Both must outlive this. Linear.
    Parts(const TextTable& table, std::string_view text);
    [[nodiscard]] std::optional<uint32_t> find(size_t begin, size_t end) const;

   private:
    const TextTable& table_;
    std::string_view text_;
    std::vector<uint32_t> hashes_;  // [text.size() + 1], of its beginnings
    std::vector<uint32_t> powers_;  // [text.size() + 1], of the key
  };

 private:
  // Half a line of a processor's cache. Short texts are compared without a look elsewhere.
  struct Entry {
    const char* text;
    uint64_t beginning;  // of the text, then zeros
    uint32_t n_bytes;
    uint32_t value;
    uint32_t hash;
    uint32_t next;  // with the same bucket; an index into entries_
  };

  [[nodiscard]] uint32_t hash_of(std::string_view text) const;
  [[nodiscard]] size_t bucket_of(uint32_t hash) const;
  [[nodiscard]] std::optional<uint32_t> find(std::string_view text, uint32_t hash) const;
  void grow();

  uint32_t key_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> buckets_;  // a power of two; the first entry of each
};

}  // namespace cria::converter
