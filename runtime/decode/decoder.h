// The decoder: tokens in, logits out.
#pragma once

#include "runtime/base/status.h"
#include "runtime/blocks/layer_step.h"
#include "runtime/decode/workspace.h"

namespace cria {

// Takes the first n of the workspace's rows, n <= w->n_rows, through all layers: their keys and
// values are in their caches afterwards, and what the last layer says of them in w->step.x. Rows of
// one cache stand in the order of their positions. kCancelled when the workspace's hook says so.
[[nodiscard]] Status forward(cria_workspace* w, size_t n);

// logits [n][vocab_size] of rows [first, first + n) of w->step.x.
[[nodiscard]] Status output(cria_workspace* w, size_t first, size_t n, float* logits);

// hidden [n][d_model], what the output matrix reads of those rows.
void hidden_rows(cria_workspace* w, size_t first, size_t n, float* hidden);

// What forward and output do, in parts, for those who bring rows and memory of their own.

// What layers read of a row: x [d_model], its token's row of the embedding, is scaled in place, and
// its learned position is added where the model has them.
void finish_embedding(const Step& s, const Weights& weights, const Row& row, float* x);
// Cosines and sines of every RoPE table's angles: [rows] of each table its cosines, then its sines.
void find_angles(const Step& s, float* cosines);
// What a layer does to the rows, one after the other.
[[nodiscard]] Status mix(const Step& s, const Layer& layer);
[[nodiscard]] Status feed_forward(const Step& s, const Layer& layer);
// What comes last in layers of Gemma 4, by their number; others have no such tensors. Rows of the
// per-layer table are read first, to where finish_layer finds them.
void read_layer_table(const Step& s, const Weights& weights, uint32_t number);
[[nodiscard]] Status finish_layer(const Step& s, const Weights& weights, uint32_t number);
// What the output layer reads: y [rows][d_model] of what the last layer says, x; y may be x.
void normalize_last(const Step& s, const Weights& weights, const float* x, float* y);
// What the output layer says, [n][vocab_size], becomes logits in place.
void finish_logits(const Step& s, size_t n, float* logits);

}  // namespace cria
