// Changes JSON texts by their structure, or by bytes: for json_fuzz and safetensors_fuzz.
#include <cstring>

#include "tests/fuzz/json_mutation.h"
#include "tests/fuzz/mutator.h"

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  static constexpr const char* kWords[] = {
      "dtype", "shape", "data_offsets", "__metadata__", "F32", "BF16", "F16",
      "F64",   "BOOL",  "F4",           "weight_map",   "a",   "b"};
  cria::fuzz::RandomChoice random(seed);
  if (random.one_in(3)) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text =
      cria::fuzz::changed_json({reinterpret_cast<const char*>(data), size}, kWords, &random);
  if (text.size() > max_size || text == std::string_view(reinterpret_cast<char*>(data), size)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
