/* cria_calls: reads a model's answer as it comes, in memory that the caller owns. It tells the
 * text, the thinking and the tools that the answer calls.
 *
 *   cria_calls_required(format, n_format, tools, n_tools, hold_bytes, &n_bytes);
 *   cria_calls_make(memory, n_bytes, format, n_format, tools, n_tools, hold_bytes, &calls);
 *   cria_calls_begin(calls, opened, n_opened);                              once an answer
 *   while (there are more tokens) cria_calls_read(calls, text, n, tell, context);
 *   cria_calls_finish(calls, CRIA_CALLS_STOPPED, tell, context, &ending);
 *
 * docs/tools.md lists the ways of writing calls that are understood. It also says how text that is
 * no call is told, and what reading costs.
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

/* Gives the bytes of memory for a reader.
 *   - format: how the model writes calls (quant/text/call_format.h)
 *   - tools: a JSON array of tools, as OpenAI's API has them. They are objects with a name and
 *     parameters, or with those inside a member "function". Null and 0: none
 *   - hold_bytes: so much of a call is held back until it is whole
 * Errors:
 *   - CRIA_CORRUPT: the format breaks a rule
 *   - CRIA_UNSUPPORTED: the tools are no such JSON
 *   - CRIA_TEXT_TOO_LONG: the tools have more than 1 MiB */
cria_status cria_calls_required(const void* format, size_t n_format, const char* tools,
                                size_t n_tools, size_t hold_bytes, size_t* n_bytes);

/* Makes a reader. format and tools must stay there while it is used.
 *   - memory: 64-byte aligned; it must not move
 * Errors:
 *   - CRIA_MEMORY_TOO_SMALL: n_bytes is less than cria_calls_required says
 *   - CRIA_MISALIGNED: memory is not 64-byte aligned
 *   - those above */
cria_status cria_calls_make(void* memory, size_t n_bytes, const void* format, size_t n_format,
                            const char* tools, size_t n_tools, size_t hold_bytes,
                            cria_calls** calls);

/* What a format says of its model: bits of cria_calls_written; 0 for one that breaks a rule. */
enum {
  CRIA_WRITES_CALLS = 1,   /* it calls tools */
  CRIA_WRITES_THINKING = 2 /* its thinking stands between markers */
};
uint32_t cria_calls_written(const void* format, size_t n_format);

/* Sets whether calls are read, from the next answer on. At first they are.
 *   - is_on: 0: nothing is a call, as for a request without tools. Calls are then told as text */
void cria_calls_take(cria_calls* calls, int is_on);

typedef enum cria_calls_kind {
  CRIA_CALLS_TEXT = 0,      /* text: a piece of what the user is to see */
  CRIA_CALLS_THINKING = 1,  /* text: a piece of the thinking */
  CRIA_CALLS_BEGIN = 2,     /* text: a tool's name. It may be none of the tools */
  CRIA_CALLS_ARGUMENTS = 3, /* text: a piece of the arguments, which join to a JSON object */
  CRIA_CALLS_END = 4,       /* the call is whole */
  CRIA_CALLS_BROKEN = 5     /* the call goes on in a way that is not understood: it is no call */
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

/* Begins an answer.
 *   - opened: the end of the prompt that belongs to the assistant's turn. It says whether thinking
 *     is open, and may be the beginning of a call. Nothing of it is told as text */
cria_status cria_calls_begin(cria_calls* calls, const char* opened, size_t n_opened);

/* Reads the next piece of the answer, of any size. The same bytes give the same events, once pieces
 * are joined. Nothing is told twice or taken back. */
cria_status cria_calls_read(cria_calls* calls, const char* text, size_t n_bytes,
                            cria_calls_tell_fn tell, void* context);

typedef enum cria_calls_ending {
  CRIA_CALLS_STOPPED = 0, /* the model ended its answer */
  CRIA_CALLS_CUT = 1      /* it had no more tokens */
} cria_calls_ending;

/* Ends the answer. If the answer was cut, nothing is told of a call that is not whole, unless the
 * call has begun. Otherwise the bytes of such a call are text.
 *   - ended: how the answer ended
 *   - ending: receives CRIA_CALLS_CUT if it ended inside a call or thinking, whatever ended says.
 *     So does an answer that was cut inside a marker */
cria_status cria_calls_finish(cria_calls* calls, cria_calls_ending ended, cria_calls_tell_fn tell,
                              void* context, cria_calls_ending* ending);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_CALLS_H_ */
