// Checks that run on the device. Each reads its arguments from the words of the command line,
// prints what it found, and ends the program with fail() where something is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <cria.h>

namespace cria::firmware_test {

// What a check works on: the model in memory that can be written, and memory of its own after it.
struct Bench {
  std::span<uint8_t> model;
  std::span<uint8_t> arena;
  std::span<uint8_t> work;
};

// bits KV CONTEXT TOKENS: XXH64 of the logits after each token of the pattern of exact_bits_test.
void check_bits(const Bench& bench, std::string_view words);
// greedy COUNT IDS...: continues ids greedily, end tokens included; prints ids.
void check_greedy(const Bench& bench, std::string_view words);
// plan: the plans of a mapped and a read source; opens with both and compares what each object uses
// with what was planned.
void check_plan(const Bench& bench, std::string_view words);
// sweep STEP: every size below the plan in steps is refused, the plan suffices.
void check_sweep(const Bench& bench, std::string_view words);
// flips COUNT BYTES: single bits spread over the first BYTES (0: all): verify notices each, open
// refuses or is harmless.
void check_flips(const Bench& bench, std::string_view words);
// generate COUNT: sampling, resetting, saving and loading, with the heap's trap after it all.
void check_generation(const Bench& bench, std::string_view words);
// heap: asks for memory, which must end the program.
void check_heap_trap(const Bench& bench, std::string_view words);
// overflow: calls itself until the stack is used up, which must end the program.
void check_overflow(const Bench& bench, std::string_view words);
// prefill TOKENS TIMES ISAS: reads a prompt of so many tokens so many times, with kernels of the
// instruction sets of the mask ISAS; prints their name.
void check_prefill(const Bench& bench, std::string_view words);
// kernels: every kernel of every instruction set of the build against the scalar one, between
// guards (check_kernels.cpp); prints how many results were compared.
void check_kernels(const Bench& bench, std::string_view words);
// guards SIDE ACCESS: accesses inside an array, then one that must end the program: SIDE 0 at the
// array's end, 1 at its beginning; ACCESS 0 reads the byte beyond, 1 writes it, 2 writes an input,
// 3 is the inner accesses alone.
void check_guards(const Bench& bench, std::string_view words);
// refused KV TEMPERATURE: what cria_open, or else cria_sample, says.
void check_refusal(const Bench& bench, std::string_view words);

// files: the model's memory holds many files (a table in front: their number, then offset and bytes
// of each); prints for each what verify and open say of it, read and mapped: four statuses.
void check_files(const Bench& bench, std::string_view words);
// states: the same memory holds a model and saved states; prints for each what the session says.
void check_states(const Bench& bench, std::string_view words);

// sessions TOKENS: two sessions that share a model and a step get the bits that each gets alone.
void check_sessions(const Bench& bench, std::string_view words);

// tools TOOL NAME ARGUMENTS RESULT QUESTION: the prompt of the question, a call and its result, and
// the call that the model must make of the question; or why the chat template refuses them.
void check_tools(const Bench& bench, std::string_view words);

// Shared by the above.
void need(cria_status status);
[[nodiscard]] cria_source source_of(const Bench& bench);
// One of each object in the arena.
[[nodiscard]] cria_instance open_model(const Bench& bench, const cria_config& config);
[[nodiscard]] uint32_t next_number(std::string_view* words);

}  // namespace cria::firmware_test
