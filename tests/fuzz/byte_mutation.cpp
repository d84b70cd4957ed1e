#include "tests/fuzz/byte_mutation.h"

#include <algorithm>
#include <cstring>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/random_choice.h"

namespace cria::fuzz {
namespace {

RandomChoice g_random(0);

// Where a piece of an input begins, and its bytes: at most 64.
struct Piece {
  size_t begin;
  size_t n;
};

Piece some_piece(size_t size) {
  constexpr size_t kMostBytes = 64;
  const size_t begin = g_random.below(size);
  return {begin, 1 + g_random.below(std::min(kMostBytes, size - begin))};
}

// n new bytes at place: zeros until they are written.
uint8_t* make_room(uint8_t* data, size_t* size, size_t place, size_t n) {
  std::memmove(data + place + n, data + place, *size - place);
  std::memset(data + place, 0, n);
  *size += n;
  return data + place;
}

void insert_bytes(uint8_t* data, size_t* size, size_t max_size) {
  const size_t n = 1 + g_random.below(std::min<size_t>(8, max_size - *size));
  uint8_t* const room = make_room(data, size, g_random.below(*size + 1), n);
  for (size_t i = 0; i < n; ++i) room[i] = static_cast<uint8_t>(g_random.bits());
}

void repeat_piece(uint8_t* data, size_t* size, size_t max_size) {
  uint8_t copy[64];
  Piece piece = some_piece(*size);
  piece.n = std::min(piece.n, max_size - *size);
  std::memcpy(copy, data + piece.begin, piece.n);
  std::memcpy(make_room(data, size, g_random.below(*size + 1), piece.n), copy, piece.n);
}

void erase_piece(uint8_t* data, size_t* size) {
  const Piece piece = some_piece(*size);
  const size_t end = piece.begin + piece.n;
  std::memmove(data + piece.begin, data + end, *size - end);
  *size -= piece.n;
}

void move_piece(uint8_t* data, size_t size) {
  const Piece piece = some_piece(size);
  std::memmove(data + g_random.below(size - piece.n + 1), data + piece.begin, piece.n);
}

void write_number(uint8_t* data, size_t size) {
  const uint32_t value = g_random.interesting();
  const size_t place = g_random.below(size);
  const size_t width = size_t{1} << g_random.below(3);
  std::memcpy(data + place, &value, std::min(width, size - place));
}

}  // namespace

void seed_byte_mutation(uint32_t seed) { g_random = RandomChoice(seed); }

}  // namespace cria::fuzz

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  using namespace cria::fuzz;
  enum Change : uint32_t { kInsert, kRepeat, kErase, kMove, kWrite, kFlip, kChanges };
  auto change = static_cast<Change>(g_random.below(kChanges));
  if (size == max_size && change <= kRepeat) change = kErase;
  if (size == 0) change = kInsert;
  if (max_size == 0) return 0;
  switch (change) {
    case kInsert:
      insert_bytes(data, &size, max_size);
      break;
    case kRepeat:
      repeat_piece(data, &size, max_size);
      break;
    case kErase:
      erase_piece(data, &size);
      break;
    case kMove:
      move_piece(data, size);
      break;
    case kWrite:
      write_number(data, size);
      break;
    default:
      data[g_random.below(size)] ^= static_cast<uint8_t>(1u << g_random.below(8));
  }
  return size;
}
