// Scalar reference of what layers with a state of fixed size compute. Naive for ever. Contracts are
// in runtime/kernels/kernels.h.
#include "runtime/kernels/scalar/scalar.h"

namespace cria {
namespace {

void recall_values(const float* state, const float* key, size_t n_keys, size_t n_values,
                   float* out) {
  for (size_t j = 0; j < n_values; ++j) out[j] = 0.0f;
  for (size_t i = 0; i < n_keys; ++i, state += n_values) {
    for (size_t j = 0; j < n_values; ++j) out[j] += key[i] * state[j];
  }
}

void advance_state(const float* from, const StateUpdate& u, size_t n_keys, size_t n_values,
                   float* to, float* out) {
  for (size_t j = 0; j < n_values; ++j) out[j] = 0.0f;
  for (size_t i = 0; i < n_keys; ++i, from += n_values, to += n_values) {
    for (size_t j = 0; j < n_values; ++j) {
      to[j] = from[j] * u.decay + u.key[i] * u.value[j];
      out[j] += u.query[i] * to[j];
    }
  }
}

}  // namespace

constinit const StateKernels kScalarStates = {
    .recall_values = recall_values,
    .advance_state = advance_state,
};

}  // namespace cria
