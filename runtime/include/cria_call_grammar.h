/* cria_call_grammar: calls of tools that cannot be malformed, for any model of cria.h whose answers
 * cria_calls.h reads, in memory that the caller owns.
 *
 * Once a call begins, a mask over the vocabulary leaves only tokens that continue a call of one of
 * the tools. The call has the tool's name and arguments of its schema, in the model's form of
 * calls. Before that the answer is what the model likes, or as much thinking as is allowed.
 *
 *   cria_json_make_vocabulary(...);                                          once a model
 *   cria_call_grammar_required(vocabulary, &order, &n_bytes, &problem);      once for tools
 *   cria_call_grammar_make(memory, n_bytes, vocabulary, &order, &grammar, &problem);
 *   cria_call_grammar_begin(grammar, opened, n_opened, &state);              once an answer
 *   while (cria_call_grammar_progress_of(grammar, &state) != CRIA_CALL_CLOSED) {
 *     cria_call_grammar_mask(grammar, &state, cria_logits(session), cria_vocab_size(model));
 *     cria_sample(workspace, session, &sampling, &token);
 *     if (cria_is_end_token(model, token)) break;
 *     cria_call_grammar_accept(grammar, &state, token);
 *     cria_prefill(workspace, session, &token, 1);
 *   }
 *
 * Special tokens have the bytes of their texts here, as a reader of the answer must get them: the
 * text of cria_decode_token with show_special.
 *
 * docs/tools.md says in which form calls are written, what becomes of schemas that are not
 * understood, and what a mask costs.
 *
 * Nothing here allocates or prints. Any number of grammars, on any threads, share a vocabulary. A
 * grammar is used by one call at a time, for any number of states. Each state is an answer.
 */
#ifndef CRIA_RUNTIME_CRIA_CALL_GRAMMAR_H_
#define CRIA_RUNTIME_CRIA_CALL_GRAMMAR_H_

#include <cria_json.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cria_call_grammar cria_call_grammar;

typedef enum cria_tool_choice {
  CRIA_TOOLS_AUTO = 0,     /* text, calls, or text and then calls */
  CRIA_TOOLS_NONE = 1,     /* text: tokens that would begin a call are never left */
  CRIA_TOOLS_REQUIRED = 2, /* at least one call, and no text */
  CRIA_TOOLS_NAMED = 3     /* the same, of one tool */
} cria_tool_choice;

/* What a grammar is made of; zero-initialise. Nothing of it is needed once the grammar is made. */
typedef struct cria_call_order {
  const void* format; /* how the model writes calls (quant/text/call_format.h), n_format bytes */
  size_t n_format;
  const char* tools; /* as in cria_calls.h: n_tools bytes of a JSON array. A tool's arguments follow
                        its "parameters". If these are not understood, "strict": true refuses the
                        tool. Without it a property that is not understood is any value, and
                        parameters that are not understood are any object. "strict": false: they
                        are any object in any case */
  size_t n_tools;
  cria_tool_choice choice;
  const char* name; /* of CRIA_TOOLS_NAMED: the tool's name, n_name bytes */
  size_t n_name;
  int one_call; /* nonzero: nothing but the answer's end follows the first call */
  int thinks;   /* nonzero: thinking may come before calls that must come. Zero: thinking that the
                   prompt opened is closed at once */
} cria_call_order;

/* What was refused, and why. */
typedef struct cria_call_problem {
  char tool[132]; /* the tool's name, as the tools have it, cut and terminated; empty: no tool's */
  cria_json_problem schema; /* offset is one of the tools' bytes */
} cria_call_problem;

/* Gives the bytes of memory for a grammar.
 *   - problem: filled on these errors; may be null
 * Errors:
 *   - CRIA_CORRUPT: the format breaks a rule
 *   - CRIA_UNSUPPORTED: no grammar can be made for the format, or the tools are no such JSON
 *   - CRIA_TEXT_TOO_LONG: a limit of docs/tools.md is exceeded */
cria_status cria_call_grammar_required(const cria_json_vocabulary* vocabulary,
                                       const cria_call_order* order, size_t* n_bytes,
                                       cria_call_problem* problem);

/* Makes a grammar in 64-byte aligned memory. The memory must not move, and the vocabulary must
 * outlive it.
 * Errors:
 *   - CRIA_MEMORY_TOO_SMALL: n_bytes is less than cria_call_grammar_required says
 *   - CRIA_MISALIGNED: memory is not 64-byte aligned
 *   - CRIA_UNSUPPORTED: as above, or
 *     - the parameters of a strict tool are not understood
 *     - the form cannot write the name of a tool
 *     - a name stands twice
 *     - no tool has the name that order gives
 *     - calls must come, and there are no tools
 *   - the others above */
cria_status cria_call_grammar_make(void* memory, size_t n_bytes,
                                   const cria_json_vocabulary* vocabulary,
                                   const cria_call_order* order, cria_call_grammar** grammar,
                                   cria_call_problem* problem);

/* How far an answer is: plain bytes, to be copied and kept. A state that was kept elsewhere is
 * checked whenever it is used. */
typedef struct cria_call_state {
  uint64_t bytes[384];
} cria_call_state;

/* Begins an answer.
 *   - opened: as in cria_calls_begin
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: opened goes on as no call of the tools does */
cria_status cria_call_grammar_begin(cria_call_grammar* grammar, const char* opened, size_t n_opened,
                                    cria_call_state* state);

/* Does what cria_json_mask does, with these tokens:
 *   - Special tokens are left where the form's markers consist of them, and in text of
 *     CRIA_TOOLS_AUTO and CRIA_TOOLS_NONE.
 *   - End tokens are left in such text, and where calls are whole.
 * Where every token can come, logits are left as they are, whatever they are. */
cria_status cria_call_grammar_mask(cria_call_grammar* grammar, const cria_call_state* state,
                                   float* logits, size_t n_logits);

/* Sets a hook, as cria_json_watch does. */
void cria_call_grammar_watch(cria_call_grammar* grammar, cria_json_stop_fn wants_stop,
                             void* context);

/* Takes a token that was drawn. An end token where the answer may end changes nothing.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: the mask would not have left it; the state stays as it is */
cria_status cria_call_grammar_accept(cria_call_grammar* grammar, cria_call_state* state,
                                     uint32_t token);

/* Gives the bytes that must follow here, up to the next choice: n_bytes of them, at most capacity.
 * Nothing is forced where the answer may end. Time: some 20 us a byte. */
cria_status cria_call_grammar_forced(cria_call_grammar* grammar, const cria_call_state* state,
                                     char* text, size_t capacity, size_t* n_bytes);

/* Gives the same as tokens, which a caller takes and runs together without drawing. Their bytes are
 * a beginning of those that are forced. A marker that is a special token is that token; all else is
 * encoded as the tokenizer does. Where a choice follows, the last piece is left to be drawn: it may
 * be the beginning of a longer token. So n_tokens may be 0 where bytes are forced.
 *   - workspace: used only during this call
 *   - tokens: at most capacity
 * Errors: those of cria_encode. */
cria_status cria_call_grammar_forced_tokens(cria_call_grammar* grammar,
                                            const cria_call_state* state, cria_workspace* workspace,
                                            uint32_t* tokens, size_t capacity, size_t* n_tokens);

typedef enum cria_call_progress {
  CRIA_CALL_TEXT = 0,  /* text that nothing holds: it may end */
  CRIA_CALL_OPEN = 1,  /* something is missing */
  CRIA_CALL_WHOLE = 2, /* calls are whole, and another may follow */
  CRIA_CALL_CLOSED = 3 /* calls are whole, and nothing can follow */
} cria_call_progress;

/* CRIA_CALL_OPEN for an invalid argument or state too. */
cria_call_progress cria_call_grammar_progress_of(cria_call_grammar* grammar,
                                                 const cria_call_state* state);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_CALL_GRAMMAR_H_ */
