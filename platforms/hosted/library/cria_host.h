/* cria_host: a model file opened on a machine with an operating system, for programs in languages
 * that have no threads or mapped files to lend: what cria.h leaves to its caller, as the cria
 * program does it. C99; the library is libcria_host.so, beside libcria.so.
 *
 *   cria_host* host = cria_host_open("model.cria", &options, &problem);
 *   cria_encode(host->workspace, ...);          and all else of cria.h, on these objects
 *   cria_host_close(host);
 *
 * Threads of a pool run what is called with the workspace; the calls themselves come from one
 * thread at a time. */
#ifndef CRIA_PLATFORMS_HOSTED_LIBRARY_CRIA_HOST_H_
#define CRIA_PLATFORMS_HOSTED_LIBRARY_CRIA_HOST_H_

#include <cria_call_grammar.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise for what the program does without options. */
typedef struct cria_host_options {
  uint32_t context;        /* positions; 0: the model's planned_context */
  uint32_t n_threads;      /* 0: the machine's fast cores, as far as this process may use them */
  uint32_t prefill_chunk;  /* as cria_config's */
  uint32_t max_text_bytes; /* longest text encoded in one piece; 0: what a conversation that fills
                              the context may need */
  uint32_t backend;        /* a cria_backend */
  uint32_t isa_mask;       /* CRIA_ISA_ bits; 0: all that the CPU has */
  uint32_t kv_format;      /* 0: f32 with f32 weights, else int8; else a cria_kv_format + 1 */
  uint8_t never_map;       /* nonzero: the file is read, not mapped */
  uint8_t reserved[3];     /* zero */
} cria_host_options;

/* An open model: one of each object, and what was found and planned. Read-only. */
typedef struct cria_host {
  cria_model* model;
  cria_session* session;
  cria_workspace* workspace;
  uint32_t n_threads;
  uint32_t is_mapped;
  cria_model_info info;
  cria_memory_plan plan;
} cria_host;

/* Why a model cannot be opened. */
typedef struct cria_host_problem {
  int32_t status;    /* the cria_status behind it; CRIA_OK: none is */
  int32_t exit_code; /* what the cria program would end with: docs/command_line.md */
  char message[504]; /* one line, cut and terminated */
} cria_host_problem;

/* Opens a model: memory for it is taken here, and nothing more afterwards. Null when that fails;
 * problem says why. */
cria_host* cria_host_open(const char* path, const cria_host_options* options,
                          cria_host_problem* problem);
/* Ends the threads and gives the memory back. Null is nothing to close. */
void cria_host_close(cria_host* host);

/* How many calls of tools a model may make in one answer, as the cria program has it. */
typedef enum cria_host_calls {
  CRIA_HOST_NO_CALLS = 0, /* the chat template has no place for tools, or none for what their calls
                             came to; or it is not known how the model writes calls */
  CRIA_HOST_ONE_CALL = 1, /* the template takes no two calls with their results */
  CRIA_HOST_ANY_CALLS = 2
} cria_host_calls;
/* Asks the chat template, with the workspace. */
cria_host_calls cria_host_calls_taken(cria_host* host);

/* Reads a conversation in the JSON of OpenAI's API as the program does: an object with "messages",
 * and maybe "tools" and "chat_template_kwargs". It ends CRIA_TURN_OPENED. Calls and results have
 * the names and ids that the chat template asks for.
 *   - json: n_bytes; nothing of it is needed afterwards
 * Null: problem says why, with the status CRIA_REFUSED_BY_TEMPLATE or the exit code of a usage
 * error. cria_host_conversation_close gives the memory back. */
const cria_conversation* cria_host_conversation_read(cria_host* host, const char* json,
                                                     size_t n_bytes, cria_host_problem* problem);
void cria_host_conversation_close(const cria_conversation* conversation);

/* What the program says of a problem that has a reason: one line, cut and terminated.
 *   - tools, schema: what it is a problem of
 *   - capacity: bytes of text, at least 1 */
void cria_host_call_problem_text(const cria_call_problem* problem, const char* tools,
                                 size_t n_tools, char* text, size_t capacity);
void cria_host_json_problem_text(const cria_json_problem* problem, const char* schema,
                                 size_t n_schema, char* text, size_t capacity);

/* Nonzero: steps return CRIA_CANCELLED within one layer's time, until this is called with zero.
 * From any thread. */
void cria_host_cancel(cria_host* host, int is_cancelled);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_PLATFORMS_HOSTED_LIBRARY_CRIA_HOST_H_ */
