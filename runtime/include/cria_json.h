/* cria_json: JSON that cannot be malformed, for any model of cria.h, in memory that the caller
 * owns.
 *
 * A JSON schema becomes an automaton over bytes. Before each token is drawn, a mask over the
 * vocabulary leaves only tokens that continue a document of the schema. The model's end tokens are
 * left exactly where the document is whole.
 *
 *   cria_json_vocabulary_required(model, &n_bytes);                          once a model
 *   cria_json_make_vocabulary(memory, n_bytes, model, &vocabulary);
 *   cria_json_required(vocabulary, schema, n, &n_bytes, &problem);           once a schema
 *   cria_json_make(memory, n_bytes, vocabulary, schema, n, &json, &problem);
 *   cria_json_begin(json, &state);                                           once a document
 *   while (cria_json_progress_of(json, &state) != CRIA_JSON_CLOSED) {
 *     cria_json_mask(json, &state, cria_logits(session), cria_vocab_size(model));
 *     cria_sample(workspace, session, &sampling, &token);
 *     if (cria_is_end_token(model, token)) break;
 *     cria_json_accept(json, &state, token);
 *     cria_prefill(workspace, session, &token, 1);
 *   }
 *
 * docs/json.md says which schemas are understood, in which form documents are written, and what a
 * mask costs. Anything that is not understood is refused by name, never ignored.
 *
 * Nothing here allocates or prints. A vocabulary never changes once it is made: any number of
 * schemas, on any threads, share it. A cria_json is used by one call at a time, for any number of
 * states. Each state is one document that is being written.
 */
#ifndef CRIA_RUNTIME_CRIA_JSON_H_
#define CRIA_RUNTIME_CRIA_JSON_H_

#include <cria.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tokens of a model by their bytes. */
typedef struct cria_json_vocabulary cria_json_vocabulary;

/* Gives the bytes of memory for a model's vocabulary.
 * Errors:
 *   - CRIA_NO_TOKENIZER: the model has none
 *   - CRIA_UNSUPPORTED: the tokenizer lacks a token for one of the bytes that JSON is written with.
 *     It is neither byte-level nor falls back to bytes: a mask could leave nothing */
cria_status cria_json_vocabulary_required(const cria_model* model, size_t* n_bytes);

/* Makes a vocabulary in 64-byte aligned memory. The memory must not move, and the model must
 * outlive it. */
cria_status cria_json_make_vocabulary(void* memory, size_t n_bytes, const cria_model* model,
                                      cria_json_vocabulary** vocabulary);

/* A schema, compiled for a vocabulary. */
typedef struct cria_json cria_json;

/* Where a schema was refused, and why. */
typedef struct cria_json_problem {
  size_t offset;      /* in the schema: the first byte of what is refused */
  const char* reason; /* static text that continues the keyword, or "the schema "; null: nothing was
                         refused */
  char keyword[48];   /* as the schema has it, cut and terminated; empty: none */
} cria_json_problem;

/* Gives the bytes of memory for a schema.
 *   - schema: n_schema bytes of JSON in UTF-8. Null and 0 stand for any JSON value.
 *     {"type":"object"} stands for any JSON object
 *   - problem: filled on these errors; may be null
 * Errors:
 *   - CRIA_UNSUPPORTED: the schema is no JSON
 *   - CRIA_TEXT_TOO_LONG: the schema is past a limit */
cria_status cria_json_required(const cria_json_vocabulary* vocabulary, const char* schema,
                               size_t n_schema, size_t* n_bytes, cria_json_problem* problem);

/* Compiles the schema in 64-byte aligned memory. The memory must not move, and the vocabulary must
 * outlive it. The schema's text is not needed afterwards.
 * Errors:
 *   - CRIA_MEMORY_TOO_SMALL: n_bytes is less than cria_json_required says
 *   - CRIA_UNSUPPORTED: a keyword, or the value of one, is not understood, or no document satisfies
 *     the schema
 *   - those above */
cria_status cria_json_make(void* memory, size_t n_bytes, const cria_json_vocabulary* vocabulary,
                           const char* schema, size_t n_schema, cria_json** json,
                           cria_json_problem* problem);

/* How far a document is: plain bytes, to be copied and kept. A state that was kept elsewhere is
 * checked whenever it is used. */
typedef struct cria_json_state {
  uint64_t bytes[384];
} cria_json_state;

/* Begins a document. */
cria_status cria_json_begin(const cria_json* json, cria_json_state* state);

/* Sets logits of tokens that cannot come next to -INFINITY. Other logits are left as they are, but
 * never below -1e30, so that one can always be drawn. Special tokens can never come next, and end
 * tokens can where the document is whole.
 *   - logits: [cria_vocab_size]
 * Errors, after which logits are as they were:
 *   - CRIA_BAD_STATE: the state is of another schema, or nothing can come after it
 *   - CRIA_CANCELLED: as below */
cria_status cria_json_mask(cria_json* json, const cria_json_state* state, float* logits,
                           size_t n_logits);

/* A hook that is called while a mask is made, each 0.1 ms or so.
 * Returns: 0, or anything else to stop the mask. Then cria_json_mask returns CRIA_CANCELLED, and
 * logits are as they were. */
typedef int (*cria_json_stop_fn)(void* context);
/* Sets the hook. Null: no hook, as at first. */
void cria_json_watch(cria_json* json, cria_json_stop_fn wants_stop, void* context);

/* Takes a token that was drawn. An end token of a whole document changes nothing.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: the mask would not have left it; the state stays as it is */
cria_status cria_json_accept(cria_json* json, cria_json_state* state, uint32_t token);

typedef enum cria_json_progress {
  CRIA_JSON_OPEN = 0,  /* something is missing */
  CRIA_JSON_WHOLE = 1, /* a document, and perhaps the beginning of another: a number */
  CRIA_JSON_CLOSED = 2 /* a document that nothing can follow */
} cria_json_progress;

/* CRIA_JSON_OPEN for an invalid argument or state too. */
cria_json_progress cria_json_progress_of(cria_json* json, const cria_json_state* state);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_JSON_H_ */
