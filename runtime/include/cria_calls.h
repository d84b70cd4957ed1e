/* cria_calls: reads a model's answer as it comes, and tells its text, its thinking and the tools
 * that it calls, in memory that the caller owns.
 *
 *   cria_calls_required(format, n_format, tools, n_tools, hold_bytes, &n_bytes);
 *   cria_calls_make(memory, n_bytes, format, n_format, tools, n_tools, hold_bytes, &calls);
 *   cria_calls_begin(calls, opened, n_opened);                              once an answer
 *   while (there are more tokens) cria_calls_read(calls, text, n, tell, context);
 *   cria_calls_finish(calls, CRIA_CALLS_STOPPED, tell, context, &ending);
 *
 * docs/tools.md says which ways of writing calls are understood, what becomes of what is none,
 * and what reading costs.
 *
 * Nothing here allocates or prints. A reader is used by one call at a time, for one answer after
 * another.
 */
#ifndef CRIA_RUNTIME_CRIA_CALLS_H_
#define CRIA_RUNTIME_CRIA_CALLS_H_

#include <cria.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cria_calls cria_calls;

/* hold_bytes is at least this. */
#define CRIA_CALLS_LEAST_HOLD ((size_t)512)

/* Bytes of memory for a reader.
 *   format      how the model writes calls (quant/call_format.h)
 *   tools       a JSON array of tools, as OpenAI's API has them: objects with a name and
 *               parameters, or with those inside a member "function". Null and 0: none
 *   hold_bytes  so much of a call is held back until it is whole
 * Errors: CRIA_CORRUPT for a format that breaks a rule; CRIA_UNSUPPORTED for tools that are no such
 * JSON, CRIA_TEXT_TOO_LONG for more than 1 MiB of them. */
cria_status cria_calls_required(const void* format, size_t n_format, const char* tools,
                                size_t n_tools, size_t hold_bytes, size_t* n_bytes);

/* Makes it in 64-byte aligned memory, which must not move. The reader is used while format and
 * tools are there. Errors: as above, CRIA_MEMORY_TOO_SMALL, CRIA_MISALIGNED. */
cria_status cria_calls_make(void* memory, size_t n_bytes, const void* format, size_t n_format,
                            const char* tools, size_t n_tools, size_t hold_bytes,
                            cria_calls** calls);

/* What a format says of its model: bits of cria_calls_written; 0 for one that breaks a rule. */
enum {
  CRIA_WRITES_CALLS = 1,   /* it calls tools */
  CRIA_WRITES_THINKING = 2 /* its thinking stands between markers */
};
uint32_t cria_calls_written(const void* format, size_t n_format);

/* From the next answer on, is_on 0: nothing is a call, as where a request has no tools; what would
 * be one is text. At first calls are read. */
void cria_calls_take(cria_calls* calls, int is_on);

typedef enum cria_calls_kind {
  CRIA_CALLS_TEXT = 0,      /* text: a piece of what the user is to see */
  CRIA_CALLS_THINKING = 1,  /* text: a piece of the thinking */
  CRIA_CALLS_BEGIN = 2,     /* text: a tool's name. It may be none of the tools */
  CRIA_CALLS_ARGUMENTS = 3, /* text: a piece of the arguments, which join to a JSON object */
  CRIA_CALLS_END = 4,       /* the call is whole */
  CRIA_CALLS_BROKEN = 5     /* the call goes on as nothing that is understood: it is none */
} cria_calls_kind;

typedef struct cria_calls_event {
  cria_calls_kind kind;
  uint32_t call;    /* of a call: 0, 1, ... in the order of the answer */
  const char* text; /* n_bytes, valid while it is told. Pieces are whole characters */
  size_t n_bytes;
  const char* id; /* of CRIA_CALLS_BEGIN, as the model wrote it: n_id bytes, 0 without one */
  size_t n_id;
} cria_calls_event;

typedef void (*cria_calls_tell_fn)(void* context, const cria_calls_event* event);

/* Begins an answer. opened is the end of the prompt that belongs to the assistant's turn: it says
 * whether thinking is open, and may be the beginning of a call. Nothing of it is told as text. */
cria_status cria_calls_begin(cria_calls* calls, const char* opened, size_t n_opened);

/* Reads the next piece of the answer, of any size: the same events, joined, for the same bytes.
 * Nothing is told twice or taken back. */
cria_status cria_calls_read(cria_calls* calls, const char* text, size_t n_bytes,
                            cria_calls_tell_fn tell, void* context);

typedef enum cria_calls_ending {
  CRIA_CALLS_STOPPED = 0, /* the model ended its answer */
  CRIA_CALLS_CUT = 1      /* it had no more tokens */
} cria_calls_ending;

/* Ends the answer. Of a call that is not whole nothing is told where the answer was cut, unless
 * it has begun; else its bytes are text.
 *   ended   how the answer ended
 *   ending  CRIA_CALLS_CUT when it ended inside a call, thinking or a marker */
cria_status cria_calls_finish(cria_calls* calls, cria_calls_ending ended, cria_calls_tell_fn tell,
                              void* context, cria_calls_ending* ending);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_CALLS_H_ */
