// Runs a fuzz target on the files given, or on all files of a folder: the corpora, on every target,
// without libFuzzer. With --mutated N FILE also on N changed ones, made by the target's own mutator
// where it has one: that a target lives is seen without libFuzzer too. FILE is the input that runs:
// it is there when one ended the process.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/random_choice.h"
#include "tests/fuzz/time_limit.h"
#include "tests/support/sampling.h"
#include "tests/support/seeds.h"

// A target's own; null where libFuzzer's alone changes its inputs.
extern "C" [[gnu::weak]] size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                        unsigned seed);

namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;

struct Arguments {
  std::vector<fs::path> files;
  size_t n_mutated = 0;
  fs::path mutated_file;
};

Arguments arguments_of(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("--mutated") && i + 2 < argc) {
      arguments.n_mutated = std::strtoul(argv[++i], nullptr, 10);
      arguments.mutated_file = argv[++i];
    } else if (fs::is_directory(argv[i])) {
      for (const auto& entry : fs::directory_iterator(argv[i])) {
        arguments.files.push_back(entry.path());
      }
    } else {
      arguments.files.emplace_back(argv[i]);
    }
  }
  std::sort(arguments.files.begin(), arguments.files.end());
  return arguments;
}

bool read_file(const fs::path& path, Bytes* bytes) {
  std::ifstream file(path, std::ios::binary);
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  if (file) return true;
  std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
  return false;
}

void run(const Bytes& bytes) {
  // A copy of exactly these bytes, so that the address sanitizer sees a read past them.
  const auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  cria::fuzz::run_in_time(cria::fuzz::fuzz_one, copy.get(), bytes.size());
}

// Changed a few times in turn, as inputs that libFuzzer keeps are.
Bytes mutated(Bytes bytes, cria::fuzz::RandomChoice* random) {
  constexpr size_t kMostBytes = size_t{1} << 18;  // a request reaches the limit of its values
  constexpr uint32_t kMostTurns = 4;
  const auto change = [&](uint8_t* data, size_t size, size_t max_size) {
    return LLVMFuzzerCustomMutator != nullptr
               ? LLVMFuzzerCustomMutator(data, size, max_size, random->bits())
               : LLVMFuzzerMutate(data, size, max_size);
  };
  size_t size = bytes.size();
  bytes.resize(std::max(size, kMostBytes));
  for (uint32_t n = 1 + random->below(kMostTurns); n > 0; --n) {
    size = change(bytes.data(), size, bytes.size());
  }
  bytes.resize(size);
  return bytes;
}

bool run_mutated(const std::vector<Bytes>& corpus, size_t n, const fs::path& path) {
  for (const uint32_t seed : cria::test::test_seeds({1})) {
    cria::fuzz::RandomChoice random(seed);
    cria::fuzz::seed_byte_mutation(seed);
    for (size_t i = 0; i < n; ++i) {
      const Bytes input = mutated(corpus[random.below(corpus.size())], &random);
      std::ofstream file(path, std::ios::binary);
      file.write(reinterpret_cast<const char*>(input.data()),
                 static_cast<std::streamsize>(input.size()));
      file.close();
      if (!file) {
        std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
        return false;
      }
      run(input);
    }
    std::printf("%zu mutated inputs run, seed %u\n", n, seed);
  }
  fs::remove(path);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = arguments_of(argc, argv);
  if (arguments.files.empty()) {
    std::fprintf(stderr, "usage: %s FILE|FOLDER... [--mutated N FILE]\n", argv[0]);
    return 2;
  }
  // Others may load the machine, which takes the caches. At rest the slowest corpus takes a quarter
  // of a second in all.
  cria::fuzz::multiply_limits(10);
  std::vector<Bytes> corpus;
  for (const fs::path& path : arguments.files) {
    // Named before it runs: where the process ends, the last line says by which.
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    if (!read_file(path, &corpus.emplace_back())) return 4;
    run(corpus.back());
  }
  std::printf("%zu inputs replayed\n", corpus.size());
  if (arguments.n_mutated == 0) return 0;
  std::printf("%s\n", arguments.mutated_file.c_str());
  std::fflush(stdout);
  const size_t n = cria::test::sweep_cases(arguments.n_mutated);
  return run_mutated(corpus, n, arguments.mutated_file) ? 0 : 4;
}
