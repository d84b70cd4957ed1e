#include "runtime/decode/step.h"

#include <algorithm>

#include "quant/format/all_zero.h"
#include "runtime/decode/decoder.h"
#include "runtime/decode/slots.h"

#ifndef CRIA_WITH_EMBEDDINGS
#define CRIA_WITH_EMBEDDINGS 1
#endif

namespace cria {
namespace {

// Firmware that wants no hidden rows leaves them out: 400 bytes.
constexpr bool kHasEmbeddings = CRIA_WITH_EMBEDDINGS != 0;

// A place in the tokens of all entries.
struct Cursor {
  size_t entry;
  size_t token;  // of the entry
};

// The tokens of one entry within a chunk of rows.
struct Piece {
  const cria_batch_entry* entry;
  size_t first_token;
  size_t first_row;
  size_t n;
  [[nodiscard]] bool ends_entry() const { return first_token + n == entry->n_tokens; }
};

// Rows [0, n_rows) of a workspace: the tokens from a cursor on.
struct Chunk {
  Cursor begin;
  size_t n_rows;
};

// Calls visit with each piece of a chunk.
template <typename Visit>
void visit_pieces(std::span<const cria_batch_entry> entries, const Chunk& chunk,
                  const Visit& visit) {
  Cursor at = chunk.begin;
  for (size_t row = 0; row < chunk.n_rows; ++at.entry, at.token = 0) {
    const cria_batch_entry& entry = entries[at.entry];
    const size_t n = std::min(entry.n_tokens - at.token, chunk.n_rows - row);
    visit(Piece{&entry, at.token, row, n});
    row += n;
  }
}

// Whether what an entry says of hidden rows fits its other members, and this build.
Status check_hidden(const cria_batch_entry& entry) {
  const cria_hidden& hidden = entry.hidden;
  if constexpr (!kHasEmbeddings) {
    return hidden.rows == nullptr && hidden.instead_of_logits == 0 ? Status::kOk
                                                                   : Status::kUnsupported;
  }
  const bool are_rows_valid = hidden.rows == nullptr
                                  ? hidden.n_rows == 0
                                  : hidden.n_rows >= 1 && hidden.n_rows <= entry.n_tokens;
  const bool is_valid = are_rows_valid && all_zero(hidden.reserved) &&
                        (hidden.instead_of_logits == 0 || entry.all_logits == nullptr);
  return is_valid ? Status::kOk : Status::kInvalidArgument;
}

// Whether an entry can be; it marks its session, so that it is found when it comes again.
Status check_entry(const cria_workspace& w, const cria_batch_entry& entry) {
  cria_session* session = entry.session;
  if (session == nullptr || session->model != w.model || entry.tokens == nullptr ||
      entry.n_tokens == 0 || session->is_in_step) {
    return Status::kInvalidArgument;
  }
  CRIA_TRY(check_hidden(entry));
  for (size_t i = 0; i < entry.n_tokens; ++i) {
    if (entry.tokens[i] >= w.model->scalars().vocab_size) return Status::kInvalidArgument;
  }
  if (entry.n_tokens > session->context - session->position) return Status::kContextFull;
  session->is_in_step = true;
  return Status::kOk;
}

Status check_entries(const cria_workspace& w, std::span<const cria_batch_entry> entries) {
  Status status = entries.empty() ? Status::kInvalidArgument : Status::kOk;
  size_t n_checked = 0;
  while (n_checked < entries.size() && status == Status::kOk) {
    status = check_entry(w, entries[n_checked]);
    if (status == Status::kOk) ++n_checked;
  }
  for (const cria_batch_entry& entry : entries.first(n_checked)) entry.session->is_in_step = false;
  return status;
}

// Fills the workspace's rows with what comes next, and moves the cursor after it.
Chunk take_chunk(cria_workspace* w, std::span<const cria_batch_entry> entries, Cursor* at) {
  Chunk chunk = {*at, 0};
  uint32_t room = 0;  // of the session at hand, in rows of this chunk
  while (at->entry < entries.size() && chunk.n_rows < w->n_rows) {
    const cria_batch_entry& entry = entries[at->entry];
    cria_session* session = entry.session;
    if (chunk.n_rows == 0 || at->token == 0) room = most_rows(*session);
    if (room-- == 0) break;
    const uint32_t position = session->position + static_cast<uint32_t>(at->token);
    w->rows()[chunk.n_rows++] = {&session->states, position, entry.tokens[at->token]};
    note_written(session, position + 1);
    if (++at->token == entry.n_tokens) *at = {at->entry + 1, 0};
  }
  return chunk;
}

// Logits of every row, for the entries that want them.
Status output_all(cria_workspace* w, std::span<const cria_batch_entry> entries,
                  const Chunk& chunk) {
  const size_t vocab_size = w->model->scalars().vocab_size;
  Status status = Status::kOk;
  visit_pieces(entries, chunk, [&](const Piece& piece) {
    if (piece.entry->all_logits == nullptr || status != Status::kOk) return;
    float* logits = piece.entry->all_logits + piece.first_token * vocab_size;
    status = output(w, piece.first_row, piece.n, logits);
  });
  return status;
}

// Hidden rows, for the entries that want them.
void keep_hidden(cria_workspace* w, std::span<const cria_batch_entry> entries, const Chunk& chunk) {
  if constexpr (!kHasEmbeddings) return;
  const size_t width = w->model->scalars().d_model;
  visit_pieces(entries, chunk, [&](const Piece& piece) {
    const cria_hidden& hidden = piece.entry->hidden;
    if (hidden.rows == nullptr) return;
    const size_t first_wanted = piece.entry->n_tokens - hidden.n_rows;
    const size_t first = std::max(piece.first_token, first_wanted);
    const size_t end = piece.first_token + piece.n;
    if (first >= end) return;
    hidden_rows(w, piece.first_row + first - piece.first_token, end - first,
                hidden.rows + (first - first_wanted) * width);
  });
}

// Whether an entry's last logits, and no others, are wanted.
bool wants_last(const cria_batch_entry& entry) {
  return entry.all_logits == nullptr && (!kHasEmbeddings || entry.hidden.instead_of_logits == 0);
}

// The session of an entry of which only the last logits are wanted keeps what its last row came
// to. So its logits stay what they are until all of the step's rows are computed.
void keep_last_rows(const cria_workspace& w, std::span<const cria_batch_entry> entries,
                    const Chunk& chunk) {
  const size_t width = w.model->scalars().d_model;
  visit_pieces(entries, chunk, [&](const Piece& piece) {
    if (!piece.ends_entry() || !wants_last(*piece.entry)) return;
    const float* row = w.step.x + (piece.first_row + piece.n - 1) * width;
    std::copy(row, row + width, piece.entry->session->last_row);
  });
}

// Logits of the last rows that were kept, with one pass over the output matrix for each max_entries
// of them.
Status output_last(cria_workspace* w, std::span<const cria_batch_entry> entries) {
  const size_t width = w->model->scalars().d_model;
  const size_t vocab_size = w->model->scalars().vocab_size;
  for (size_t begin = 0; begin < entries.size();) {
    size_t end = begin;
    uint32_t n = 0;
    float* only = nullptr;
    for (; end < entries.size() && n < w->max_entries; ++end) {
      if (!wants_last(entries[end])) continue;
      cria_session* session = entries[end].session;
      std::copy(session->last_row, session->last_row + width, w->step.x + n++ * width);
      session->has_logits = false;
      only = session->logits;
    }
    if (n == 1) CRIA_TRY(output(w, 0, 1, only));
    if (n > 1) {
      CRIA_TRY(output(w, 0, n, w->step.entry_logits));
      const float* logits = w->step.entry_logits;
      for (const cria_batch_entry& entry : entries.subspan(begin, end - begin)) {
        if (!wants_last(entry)) continue;
        std::copy(logits, logits + vocab_size, entry.session->logits);
        logits += vocab_size;
      }
    }
    begin = end;
  }
  return Status::kOk;
}

// All rows are in the caches: the sessions go on from there.
void commit(std::span<const cria_batch_entry> entries) {
  for (const cria_batch_entry& entry : entries) {
    cria_session* session = entry.session;
    std::copy(entry.tokens, entry.tokens + entry.n_tokens, session->history + session->position);
    session->position += static_cast<uint32_t>(entry.n_tokens);
    if constexpr (kHasBlocks) commit_blocks(session, session->position);
    session->has_logits = !kHasEmbeddings || entry.hidden.instead_of_logits == 0;
    if (entry.all_logits == nullptr) continue;
    const size_t vocab_size = session->model->scalars().vocab_size;
    const float* last = entry.all_logits + (entry.n_tokens - 1) * vocab_size;
    std::copy(last, last + vocab_size, session->logits);
  }
}

// What a ring held before a step that failed may be gone: then its session begins anew.
void give_up(std::span<const cria_batch_entry> entries) {
  for (const cria_batch_entry& entry : entries) {
    cria_session* session = entry.session;
    if (!can_follow(*session, session->position)) cut(session, 0);
  }
}

Status run(cria_workspace* w, std::span<const cria_batch_entry> entries) {
  if constexpr (kHasBlocks) {
    for (const cria_batch_entry& entry : entries) begin_blocks(entry.session);
  }
  for (Cursor at = {0, 0}; at.entry < entries.size();) {
    const Chunk chunk = take_chunk(w, entries, &at);
    CRIA_TRY(forward(w, chunk.n_rows));
    keep_hidden(w, entries, chunk);
    CRIA_TRY(output_all(w, entries, chunk));
    keep_last_rows(*w, entries, chunk);
  }
  return output_last(w, entries);
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

Status step(cria_workspace* w, std::span<const cria_batch_entry> entries) {
  if (!w->can_run) return Status::kNoWeights;
  CRIA_TRY(check_entries(*w, entries));
  w->n_done = 0;
  w->n_to_do = 0;
  for (const cria_batch_entry& entry : entries) {
    w->n_to_do += entry.n_tokens * w->model->scalars().n_layers;
  }
  const Status status = run(w, entries);
  if (status == Status::kOk) {
    commit(entries);
  } else {
    give_up(entries);
  }
  return status;
}

}  // namespace cria

extern "C" cria_status cria_step(cria_workspace* workspace, const cria_batch_entry* entries,
                                 size_t n_entries) {
  if (workspace == nullptr || entries == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(cria::step(workspace, {entries, n_entries}));
}

extern "C" cria_status cria_prefill(cria_workspace* workspace, cria_session* session,
                                    const uint32_t* tokens, size_t n_tokens) {
  cria_batch_entry entry = {};
  entry.session = session;
  entry.tokens = tokens;
  entry.n_tokens = n_tokens;
  return cria_step(workspace, &entry, 1);
}
