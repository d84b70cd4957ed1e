#include "runtime/decode/step.h"

#include <algorithm>

#include "quant/all_zero.h"
#include "runtime/decode/decoder.h"
#include "runtime/decode/slots.h"

#ifndef CRIA_WITH_EMBEDDINGS
#define CRIA_WITH_EMBEDDINGS 1
#endif

namespace cria {
namespace {

// Firmware that wants no hidden rows leaves them out: 400 bytes.
constexpr bool kHasEmbeddings = CRIA_WITH_EMBEDDINGS != 0;

// A place in the tokens of all turns.
struct Cursor {
  size_t turn;
  size_t token;  // of the turn
};

// The tokens of one turn within a chunk of rows.
struct Piece {
  const cria_turn* turn;
  size_t first_token;
  size_t first_row;
  size_t n;
  [[nodiscard]] bool ends_turn() const { return first_token + n == turn->n_tokens; }
};

// Rows [0, n_rows) of a workspace: the tokens from a cursor on.
struct Chunk {
  Cursor begin;
  size_t n_rows;
};

// Calls visit with each piece of a chunk.
template <typename Visit>
void visit_pieces(std::span<const cria_turn> turns, const Chunk& chunk, const Visit& visit) {
  Cursor at = chunk.begin;
  for (size_t row = 0; row < chunk.n_rows; ++at.turn, at.token = 0) {
    const cria_turn& turn = turns[at.turn];
    const size_t n = std::min(turn.n_tokens - at.token, chunk.n_rows - row);
    visit(Piece{&turn, at.token, row, n});
    row += n;
  }
}

// Whether what a turn says of hidden rows fits its other members, and this build.
Status check_hidden(const cria_turn& turn) {
  const cria_hidden& hidden = turn.hidden;
  if constexpr (!kHasEmbeddings) {
    return hidden.rows == nullptr && hidden.instead_of_logits == 0 ? Status::kOk
                                                                   : Status::kUnsupported;
  }
  const bool are_rows_valid = hidden.rows == nullptr
                                  ? hidden.n_rows == 0
                                  : hidden.n_rows >= 1 && hidden.n_rows <= turn.n_tokens;
  const bool is_valid = are_rows_valid && all_zero(hidden.reserved) &&
                        (hidden.instead_of_logits == 0 || turn.all_logits == nullptr);
  return is_valid ? Status::kOk : Status::kInvalidArgument;
}

// Whether a turn can be; it marks its session, so that it is found when it comes again.
Status check_turn(const cria_workspace& w, const cria_turn& turn) {
  cria_session* session = turn.session;
  if (session == nullptr || session->model != w.model || turn.tokens == nullptr ||
      turn.n_tokens == 0 || session->is_in_step) {
    return Status::kInvalidArgument;
  }
  CRIA_TRY(check_hidden(turn));
  for (size_t i = 0; i < turn.n_tokens; ++i) {
    if (turn.tokens[i] >= w.model->scalars().vocab_size) return Status::kInvalidArgument;
  }
  if (turn.n_tokens > session->context - session->position) return Status::kContextFull;
  session->is_in_step = true;
  return Status::kOk;
}

Status check_turns(const cria_workspace& w, std::span<const cria_turn> turns) {
  Status status = turns.empty() ? Status::kInvalidArgument : Status::kOk;
  size_t n_checked = 0;
  while (n_checked < turns.size() && status == Status::kOk) {
    status = check_turn(w, turns[n_checked]);
    if (status == Status::kOk) ++n_checked;
  }
  for (const cria_turn& turn : turns.first(n_checked)) turn.session->is_in_step = false;
  return status;
}

// Fills the workspace's rows with what comes next, and moves the cursor behind it.
Chunk take_chunk(cria_workspace* w, std::span<const cria_turn> turns, Cursor* at) {
  Chunk chunk = {*at, 0};
  uint32_t room = 0;  // of the session at hand, in rows of this chunk
  while (at->turn < turns.size() && chunk.n_rows < w->n_rows) {
    const cria_turn& turn = turns[at->turn];
    cria_session* session = turn.session;
    if (chunk.n_rows == 0 || at->token == 0) room = most_rows(*session);
    if (room-- == 0) break;
    const uint32_t position = session->position + static_cast<uint32_t>(at->token);
    w->rows()[chunk.n_rows++] = {&session->states, position, turn.tokens[at->token]};
    note_written(session, position + 1);
    if (++at->token == turn.n_tokens) *at = {at->turn + 1, 0};
  }
  return chunk;
}

// Logits of every row, for the turns that want them.
Status output_all(cria_workspace* w, std::span<const cria_turn> turns, const Chunk& chunk) {
  const size_t vocab_size = w->model->scalars().vocab_size;
  Status status = Status::kOk;
  visit_pieces(turns, chunk, [&](const Piece& piece) {
    if (piece.turn->all_logits == nullptr || status != Status::kOk) return;
    float* logits = piece.turn->all_logits + piece.first_token * vocab_size;
    status = output(w, piece.first_row, piece.n, logits);
  });
  return status;
}

// Hidden rows, for the turns that want them.
void keep_hidden(cria_workspace* w, std::span<const cria_turn> turns, const Chunk& chunk) {
  if constexpr (!kHasEmbeddings) return;
  const size_t width = w->model->scalars().d_model;
  visit_pieces(turns, chunk, [&](const Piece& piece) {
    const cria_hidden& hidden = piece.turn->hidden;
    if (hidden.rows == nullptr) return;
    const size_t first_wanted = piece.turn->n_tokens - hidden.n_rows;
    const size_t first = std::max(piece.first_token, first_wanted);
    const size_t end = piece.first_token + piece.n;
    if (first >= end) return;
    hidden_rows(w, piece.first_row + first - piece.first_token, end - first,
                hidden.rows + (first - first_wanted) * width);
  });
}

// Whether a turn's last logits, and no others, are wanted.
bool wants_last(const cria_turn& turn) {
  return turn.all_logits == nullptr && (!kHasEmbeddings || turn.hidden.instead_of_logits == 0);
}

// The session of a turn whose last logits alone are wanted keeps what its last row came to, so that
// its logits stay what they are until all of the step's rows are computed.
void keep_last_rows(const cria_workspace& w, std::span<const cria_turn> turns, const Chunk& chunk) {
  const size_t width = w.model->scalars().d_model;
  visit_pieces(turns, chunk, [&](const Piece& piece) {
    if (!piece.ends_turn() || !wants_last(*piece.turn)) return;
    const float* row = w.step.x + (piece.first_row + piece.n - 1) * width;
    std::copy(row, row + width, piece.turn->session->last_row);
  });
}

// Logits of the last rows that were kept, with one pass over the output matrix for each max_turns
// of them.
Status output_last(cria_workspace* w, std::span<const cria_turn> turns) {
  const size_t width = w->model->scalars().d_model;
  const size_t vocab_size = w->model->scalars().vocab_size;
  for (size_t begin = 0; begin < turns.size();) {
    size_t end = begin;
    uint32_t n = 0;
    float* only = nullptr;
    for (; end < turns.size() && n < w->max_turns; ++end) {
      if (!wants_last(turns[end])) continue;
      cria_session* session = turns[end].session;
      std::copy(session->last_row, session->last_row + width, w->step.x + n++ * width);
      session->has_logits = false;
      only = session->logits;
    }
    if (n == 1) CRIA_TRY(output(w, 0, 1, only));
    if (n > 1) {
      CRIA_TRY(output(w, 0, n, w->step.turn_logits));
      const float* logits = w->step.turn_logits;
      for (const cria_turn& turn : turns.subspan(begin, end - begin)) {
        if (!wants_last(turn)) continue;
        std::copy(logits, logits + vocab_size, turn.session->logits);
        logits += vocab_size;
      }
    }
    begin = end;
  }
  return Status::kOk;
}

// Sessions with rows in another chunk go on from what these have become.
void go_on(std::span<const cria_turn> turns, const Chunk& chunk) {
  if constexpr (!kHasBlocks) return;
  visit_pieces(turns, chunk, [](const Piece& piece) { go_on_with_blocks(piece.turn->session); });
}

// All rows are in the caches: the sessions go on from there.
void commit(std::span<const cria_turn> turns) {
  for (const cria_turn& turn : turns) {
    cria_session* session = turn.session;
    std::copy(turn.tokens, turn.tokens + turn.n_tokens, session->history + session->position);
    session->position += static_cast<uint32_t>(turn.n_tokens);
    if constexpr (kHasBlocks) commit_blocks(session, session->position);
    session->has_logits = !kHasEmbeddings || turn.hidden.instead_of_logits == 0;
    if (turn.all_logits == nullptr) continue;
    const size_t vocab_size = session->model->scalars().vocab_size;
    const float* last = turn.all_logits + (turn.n_tokens - 1) * vocab_size;
    std::copy(last, last + vocab_size, session->logits);
  }
}

// What a ring held before a step that failed may be gone: then its session begins anew.
void give_up(std::span<const cria_turn> turns) {
  for (const cria_turn& turn : turns) {
    cria_session* session = turn.session;
    if (!can_follow(*session, session->position)) cut(session, 0);
  }
}

Status run(cria_workspace* w, std::span<const cria_turn> turns) {
  if constexpr (kHasBlocks) {
    for (const cria_turn& turn : turns) begin_blocks(turn.session, turn.n_tokens);
  }
  for (Cursor at = {0, 0}; at.turn < turns.size();) {
    const Chunk chunk = take_chunk(w, turns, &at);
    CRIA_TRY(forward(w, chunk.n_rows));
    go_on(turns, chunk);
    keep_hidden(w, turns, chunk);
    CRIA_TRY(output_all(w, turns, chunk));
    keep_last_rows(*w, turns, chunk);
  }
  return output_last(w, turns);
}

}  // namespace

uint32_t most_rows(const cria_session& session) {
  uint32_t most = UINT32_MAX;
  for (size_t kind = 0; kind < session.caches().size(); ++kind) {
    const uint32_t window = session.model->config.kinds[kind].window;
    const KvCache& cache = session.caches()[kind];
    if (window == 0 || cache.n_parts == 0 || cache.n_positions == session.context) continue;
    most = std::min(most, cache.n_positions - window + 1);
  }
  return most;
}

Status step(cria_workspace* w, std::span<const cria_turn> turns) {
  if (!w->can_run) return Status::kNoWeights;
  CRIA_TRY(check_turns(*w, turns));
  w->n_done = 0;
  w->n_to_do = 0;
  for (const cria_turn& turn : turns) w->n_to_do += turn.n_tokens * w->model->scalars().n_layers;
  const Status status = run(w, turns);
  if (status == Status::kOk) {
    commit(turns);
  } else {
    give_up(turns);
  }
  return status;
}

}  // namespace cria

extern "C" cria_status cria_step(cria_workspace* workspace, const cria_turn* turns,
                                 size_t n_turns) {
  if (workspace == nullptr || turns == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(cria::step(workspace, {turns, n_turns}));
}

extern "C" cria_status cria_prefill(cria_workspace* workspace, cria_session* session,
                                    const uint32_t* tokens, size_t n_tokens) {
  cria_turn turn = {};
  turn.session = session;
  turn.tokens = tokens;
  turn.n_tokens = n_tokens;
  return cria_step(workspace, &turn, 1);
}
