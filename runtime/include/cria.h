/* cria: a LLaMA runtime in memory that the caller owns. C99 and C++.
 *
 * Three objects, each in a block of memory whose size is known to the byte before a weight is read:
 *
 *   - model: weights, tokenizer, chat template. It never changes once it is loaded. Any number of
 *     sessions and workspaces share it, on any threads.
 *   - session: one conversation, with its KV cache, tokens, logits and random state.
 *   - workspace: what a call computes with. One call uses it at a time. A program with one thread
 *     that runs models has one, for any number of sessions.
 *
 * Nothing here allocates, prints, aborts or calls the operating system (the XNNPACK backend's
 * library asks the CPU for its features once). Every error is a return code.
 *
 *   cria_inspect(&source, &info);
 *   cria_plan(&info, &config, &plan);             plan.total bytes, 64-byte aligned
 *   cria_open(memory, plan.total, &source, &config, &cria);      one of each in one block
 *   cria_encode(cria.workspace, text, n, CRIA_ENCODE_SPECIAL, tokens, capacity, &n_tokens);
 *   cria_prefill(cria.workspace, cria.session, tokens, n_tokens);
 *   for (;;) {
 *     cria_sample(cria.workspace, cria.session, &sampling, &token);
 *     ...
 *     cria_prefill(cria.workspace, cria.session, &token, 1);
 *   }
 *
 * There is nothing to close: forget the memory, the model's last. Threads: all may use a model at
 * once; a session and a workspace are used by one call at a time.
 */
#ifndef CRIA_RUNTIME_CRIA_H_
#define CRIA_RUNTIME_CRIA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every status: its name, value and message. The values are stable. */
#define CRIA_STATUS_LIST(X)                                                                      \
  X(CRIA_OK, 0, "done")                                                                          \
  X(CRIA_INVALID_ARGUMENT, 1, "an argument is out of range or null")                             \
  X(CRIA_NOT_A_MODEL, 2, "not a cria model file")                                                \
  X(CRIA_UNSUPPORTED_VERSION, 3, "the file has another format version; convert the model again") \
  X(CRIA_CORRUPT, 4, "the file is damaged: a checksum or a reserved byte is wrong")              \
  X(CRIA_TRUNCATED, 5, "the file is shorter than its header says")                               \
  X(CRIA_READ_FAILED, 6, "the source could not be read")                                         \
  X(CRIA_MEMORY_TOO_SMALL, 7, "the memory given is too small for this model")                    \
  X(CRIA_MISALIGNED, 8, "memory or mapped source is not aligned to 64 bytes")                    \
  X(CRIA_UNSUPPORTED, 9, "this build or this CPU cannot run the model with these options")       \
  X(CRIA_NO_TOKENIZER, 10, "the model file holds no tokenizer")                                  \
  X(CRIA_NO_CHAT_TEMPLATE, 11, "the model file holds no chat template")                          \
  X(CRIA_TEXT_TOO_LONG, 12, "the text is longer than the workspace was planned for")             \
  X(CRIA_BUFFER_TOO_SMALL, 13, "the output buffer is too small")                                 \
  X(CRIA_CONTEXT_FULL, 14, "the KV cache has no room for these tokens")                          \
  X(CRIA_NOTHING_TO_SAMPLE, 15, "no logits yet: run a prefill first")                            \
  X(CRIA_BAD_STATE, 16, "the saved state belongs to another model or configuration")             \
  X(CRIA_BACKEND_FAILED, 17, "the backend's library refused an operation")                       \
  X(CRIA_INVALID_MODEL, 18, "the file breaks a rule of its format")                              \
  X(CRIA_NO_WEIGHTS, 19, "the model was loaded, or the workspace made, only for text")           \
  X(CRIA_CANCELLED, 20, "the caller's hook stopped it")                                          \
  X(CRIA_FORGOTTEN, 21, "the sliding window's KV cache no longer holds what is needed")          \
  X(CRIA_REFUSED_BY_TEMPLATE, 22, "the model's chat template does not allow this conversation")

typedef enum cria_status {
#define CRIA_STATUS_VALUE(name, value, text) name = value,
  CRIA_STATUS_LIST(CRIA_STATUS_VALUE)
#undef CRIA_STATUS_VALUE
} cria_status;

/* Where there is no token: info.bos_token, the end of a stream of text. */
#define CRIA_NO_TOKEN ((uint32_t)0xffffffff)

/* One English sentence without a full stop; never null. */
const char* cria_status_message(cria_status status);

/* "0.1.0" */
const char* cria_version(void);

/* Model bytes ------------------------------------------------------------------------------- */

/* Where the model file's bytes come from: a mapped file, flash, a serial link. At least one of map
 * and read is given; both must be callable from several threads when parallel_for is. */
typedef struct cria_source {
  void* context;
  uint64_t size; /* bytes */
  /* Pointer to bytes [offset, offset + n_bytes), valid and unchanged while the model is used, or
   * null when they cannot be mapped. Offset 0 must be 64-byte aligned. Then uncompressed weights
   * and the tokenizer's tables are used in place. */
  const void* (*map)(void* context, uint64_t offset, size_t n_bytes);
  /* Copies bytes to destination. Returns 0, or anything else when it failed or could not copy all
   * of them. Nothing of a failed read is used. When both functions are given, bytes that have to be
   * copied anyway come through read. Bytes that change between two reads give an error or another
   * model, never worse. */
  int (*read)(void* context, uint64_t offset, void* destination, size_t n_bytes);
} cria_source;

typedef enum cria_number_format {
  CRIA_MIXED = 0, /* several */
  CRIA_F32 = 1,
  CRIA_F16 = 2,
  CRIA_BF16 = 3,
  CRIA_INT8 = 4,
  CRIA_INT4 = 5,
  CRIA_INT4NL = 6,  /* sixteen uneven values; not for CRIA_BACKEND_XNNPACK */
  CRIA_INT8G32 = 7, /* int8 with scales of groups; not for CRIA_BACKEND_XNNPACK */
  CRIA_BIT1 = 8,    /* weights trained as two values; not for CRIA_BACKEND_XNNPACK */
  CRIA_BIT2 = 9     /* the same of four values */
} cria_number_format;

/* A hook that receives how much of a call is done. Where no unit is named, only the ratio has a
 * meaning. It is called from one thread at a time.
 * Returns: 0, or nonzero to stop the call. Then the call returns CRIA_CANCELLED, and sessions are
 * as they were before. */
typedef int (*cria_progress)(void* context, uint64_t done, uint64_t total);

/* What a model file holds. Filled by cria_inspect; read-only. */
typedef struct cria_model_info {
  uint64_t file_bytes;
  uint64_t n_parameters;
  uint64_t weight_bytes;    /* in memory, layout padding included */
  uint64_t embedding_bytes; /* the embedding's part of it */
  /* What a token reads: the experts that it chooses, and nothing of tables of rows. */
  uint64_t n_active_parameters;
  uint64_t active_bytes;
  uint64_t tokenizer_bytes;
  uint64_t chat_template_bytes;
  uint64_t metadata_offset; /* JSON for people, in the file */
  uint64_t metadata_bytes;
  uint32_t format_version;
  uint32_t architecture; /* as cria_architecture_name knows it */
  uint32_t n_layers;
  uint32_t n_layer_kinds; /* layers that are alike: cria_find_layer_kind */
  uint32_t d_model;
  uint32_t vocab_size;
  uint32_t max_context;     /* positions the model was trained for */
  uint32_t planned_context; /* positions of a session by default: as the file says, up to 2^24. The
                               file's size does not limit them as it limits the weights */
  uint32_t bos_token;       /* CRIA_NO_TOKEN: none */
  cria_number_format weight_format; /* of the layers' matrices; CRIA_MIXED when they differ */
  cria_number_format embedding_format;
  uint32_t group_size;    /* of layer matrices with scales of groups; else 0, of mixed ones too */
  uint32_t chat_template; /* 0 none, else its origin: a kind of docs/model_format.md */
  uint8_t tied_embedding;
  uint8_t compressed;
  uint8_t has_tokenizer;
  uint8_t signed_scales;   /* int4 with scales of either sign: not for CRIA_BACKEND_XNNPACK */
  uint8_t can_drop;        /* 0: cria_drop is CRIA_UNSUPPORTED */
  uint8_t pooling;         /* a cria_pooling of a model of embeddings; 0: the file says nothing */
  uint8_t unit_embeddings; /* cria_embed makes rows of length 1; so it does where pooling is 0 */
  uint8_t keeps_blocks;    /* 1: sessions go back only to snapshots (cria_keep_snapshot) */
  uint8_t reserved[8];
  uint32_t config_bytes; /* of private_config */
  uint64_t private_config[512];
  const char* refused; /* the field or rule of CRIA_INVALID_MODEL, else null; static text.
                          * "a rule" in builds without CRIA_WITH_REASONS */
} cria_model_info;

/* Reads and checks header, section table, config and the sizes of the other sections; no weights.
 * Reads less than 7 KB of the source.
 * Errors: statuses 1 to 6 and 18. Then info is zero except for refused. */
cria_status cria_inspect(const cria_source* source, cria_model_info* info);

typedef enum cria_mixer {
  CRIA_NO_MIXER = 0,
  CRIA_ATTENTION = 1,
  CRIA_LATENT_ATTENTION = 2,
  CRIA_SHORT_CONVOLUTION = 3,
  CRIA_DELTA_RULE = 4,
  CRIA_STATE_SPACE = 5
} cria_mixer;
typedef enum cria_feed_forward {
  CRIA_NO_FEED_FORWARD = 0,
  CRIA_DENSE = 1,
  CRIA_EXPERTS = 2
} cria_feed_forward;

/* Layers that are alike. What their mixer or feed-forward does not have is 0. */
typedef struct cria_layer_kind {
  uint32_t n_layers;
  cria_mixer mixer;
  cria_feed_forward feed_forward;
  uint32_t n_heads;    /* of queries */
  uint32_t n_kv_heads; /* of keys and values */
  uint32_t n_states;   /* matrices of key_dim x value_dim that layers keep in place of a KV cache */
  uint32_t key_dim;    /* of a head, as value_dim */
  uint32_t value_dim;
  uint32_t window;   /* a position attends to this many, itself included; 0: to all */
  uint32_t has_rope; /* 1, or 0: positions turn nothing */
  /* Sessions of more positions use the RoPE frequencies for long contexts, other sessions those for
   * short ones. 0: there is one set for all. */
  uint32_t original_context;
  uint32_t d_ff; /* of the MLP */
  uint32_t n_experts;
  uint32_t n_chosen; /* experts of a token */
  uint32_t expert_ff;
} cria_layer_kind;

/* Gives the kind of layers at an index. Kinds are counted from 0, in the order in which they first
 * appear.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: index is after the last kind */
cria_status cria_find_layer_kind(const cria_model_info* info, uint32_t index,
                                 cria_layer_kind* kind);

/* The matrices of one name and format. */
typedef struct cria_matrix_kind {
  const char* name; /* "embedding", "q", "k", "v", "o", "gate", "up", "down", "lm_head", ... */
  cria_number_format number_format;
  uint32_t group_size; /* weights that share a scale; 0 where no group does */
  uint32_t n_matrices; /* in all layers, at least one */
} cria_matrix_kind;

/* Gives the kind of matrices at an index. Kinds are counted from 0, in the order above. A tied
 * lm_head has none.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: index is after the last kind */
cria_status cria_find_matrix_kind(const cria_model_info* info, uint32_t index,
                                  cria_matrix_kind* kind);

/* Names for people: "llama", ...; "int4", ...; "chatml", ... and "none". Any other number is
 * "unknown". */
const char* cria_architecture_name(uint32_t architecture);
const char* cria_number_format_name(cria_number_format number_format);
const char* cria_chat_template_name(uint32_t chat_template);

/* Copies the metadata to text and checks it: its checksum, and that it is JSON nested at most 16
 * deep. Writes nothing when the file has none (metadata_bytes == 0).
 *   - info: from cria_inspect of this source
 *   - text: receives info->metadata_bytes of JSON in UTF-8, without a final zero */
cria_status cria_read_metadata(const cria_source* source, const cria_model_info* info, char* text,
                               size_t capacity);

/* Checks all that cria_load checks, and accepts the same files. It checks:
 *   - every checksum, and every byte between two parts
 *   - directory, chunk table, metadata, tokenizer and chat template
 *   - that every chunk decompresses to its size
 *   - that the values of every chunk are ones the format allows
 * Parameters:
 *   - scratch: cria_verify_required bytes, 64-byte aligned
 *   - progress: receives bytes of the data; may be null
 *   - bad_offset: receives where the part with the first error lies; may be null */
cria_status cria_verify(const cria_source* source, void* scratch, size_t scratch_bytes,
                        cria_progress progress, void* progress_context, uint64_t* bad_offset);
/* Bytes of scratch for a model: 4096 and the size of its tokenizer and chat template, but at least
 * CRIA_VERIFY_SCRATCH_BYTES. */
cria_status cria_verify_required(const cria_model_info* info, size_t* n_bytes);
#define CRIA_VERIFY_SCRATCH_BYTES ((size_t)704 * 1024)

/* Memory ------------------------------------------------------------------------------------- */

typedef enum cria_backend {
  CRIA_BACKEND_AUTO = 0,  /* the faster one known for this CPU */
  CRIA_BACKEND_EXACT = 1, /* ours: the same bits on every target */
  /* CRIA_UNSUPPORTED where it is not built in, for int4nl, int8g32, bit1, bit2 and
   * signed_scales. */
  CRIA_BACKEND_XNNPACK = 2
} cria_backend;

/* Instruction sets the kernels know, in rising order: bits of cria_config.isa_mask. */
enum {
  CRIA_ISA_SCALAR = 1 << 0,
  CRIA_ISA_SSE4_1 = 1 << 1,
  CRIA_ISA_AVX2 = 1 << 2, /* with F16C */
  CRIA_ISA_AVX_VNNI = 1 << 3,
  CRIA_ISA_AVX512_VNNI = 1 << 4, /* with F, BW, DQ and VL */
  CRIA_ISA_NEON = 1 << 8,
  CRIA_ISA_DOTPROD = 1 << 9,
  CRIA_ISA_I8MM = 1 << 10,
  CRIA_ISA_DSP = 1 << 12,   /* Armv7E-M, Armv8-M: products of 16-bit pairs */
  CRIA_ISA_HELIUM = 1 << 13 /* Armv8.1-M's vectors of integers and floats */
};

/* Bits of the instruction sets this build has kernels for. */
uint32_t cria_built_isas(void);
/* "sse4.1" for CRIA_ISA_SSE4_1, ...; "unknown" for what is not one of the bits. */
const char* cria_instruction_set_name(uint32_t isa);

/* Numbers in the KV cache. Each comment has the bytes that one position of one KV head takes for
 * keys and values: a session's memory grows with them. A state of one format cannot be loaded with
 * another. */
typedef enum cria_kv_format {
  CRIA_KV_INT8 = 0, /* int8 with a scale each: 2 * (head_dim + 4) */
  CRIA_KV_F32 = 1,  /* 8 * head_dim; for comparing */
  CRIA_KV_K8V4 = 2  /* int8 keys, values in 4 bits with a scale for each 32 of them: 1.5 * head_dim
                       + 4 + 2 * ceil(head_dim / 32), some three quarters of CRIA_KV_INT8; what it
                       costs is in docs/quantization.md */
} cria_kv_format;

/* Calls task(argument, i) once for each i < n_tasks, on any threads, and returns when all calls
 * have. n_tasks is at most cria_config.n_threads. */
typedef void (*cria_parallel_for)(void* context, void (*task)(void* argument, size_t index),
                                  void* argument, size_t n_tasks);

/* The caller's options. Zero-initialise for the defaults. Give the same config to cria_plan and to
 * the functions that make what was planned. Reserved bytes must be zero, here and in the structs
 * below: a later version may give them a meaning. */
typedef struct cria_config {
  /* Of the model. */
  cria_backend backend;
  /* CRIA_ISA_ bits that kernels may use. Give all of the CPU's, as lower ones tell how it likes
   * memory read. The caller vouches for them. 0: those this build needs anyway. The exact backend's
   * results are the same with any of them, to the bit. */
  uint32_t isa_mask;
  uint8_t source_is_mapped; /* source.map will be given: tables and stored weights stay there */
  uint8_t skip_checksums;   /* nonzero: chunks used in place are trusted and not read while loading,
                               neither for checksums nor for values */
  uint8_t text_only;        /* nonzero: only tokenizer and template; the data is not read, and such
                               a model has no sessions */
  uint8_t reserved[5];
  /* Of a session. */
  uint32_t context; /* positions of the KV cache; 0: the model's planned_context */
  cria_kv_format kv_format;
  /* Positions that a session can go back to, of models whose layers keep blocks of state
   * (cria_keep_snapshot); other models need none, and no memory for them. 0: 2. CRIA_NO_SNAPSHOTS:
   * none. At most CRIA_MAX_SNAPSHOTS. */
  uint32_t n_snapshots;
  /* Of a workspace; of loading too: n_threads and parallel_for. None changes a bit of a result. */
  uint32_t n_threads;      /* tasks work is split into; 0: 1 */
  uint32_t prefill_chunk;  /* tokens handled at once; 0: 64, at most the context */
  uint32_t max_entries;    /* entries of a step whose logits are computed together, at most
                              prefill_chunk; 0: 1. A step may have more, and then reads the output
                              matrix more often */
  uint32_t max_text_bytes; /* longest text encoded in one piece; 0: 4 * context, at least 1024 */
  cria_parallel_for parallel_for; /* null: everything on the calling thread */
  void* parallel_context;
  /* Hooks that can stop long calls. Null: no hook. */
  cria_progress load_progress; /* of cria_load, in bytes of the file's data */
  cria_progress step_progress; /* of a step, after every layer of every chunk of rows */
  void* progress_context;
} cria_config;

#define CRIA_MAX_SNAPSHOTS 256
#define CRIA_NO_SNAPSHOTS ((uint32_t)0xffffffff)
#define CRIA_MAX_THREADS 256
#define CRIA_MAX_PREFILL_CHUNK 4096

/* Bytes of the three objects. No figure depends on the size of a pointer. */
typedef struct cria_memory_plan {
  struct {
    uint64_t total;     /* what cria_load takes: the sum of the four below */
    uint64_t objects;   /* model and layer records */
    uint64_t tokenizer; /* tables; 0 when mapped */
    uint64_t weights;   /* matrices and vectors; 0 when stored and mapped */
    uint64_t backend;   /* weights packed by XNNPACK */
  } model;
  struct {
    uint64_t total; /* what cria_start takes: the sum of the four below */
    uint64_t objects;
    uint64_t kv_cache; /* and blocks of state, n_snapshots + 2 times */
    uint64_t history;  /* tokens of the context, for the repeat penalty and for saving */
    uint64_t logits;   /* and the row that they come from */
  } session;
  struct {
    uint64_t total; /* what cria_make_workspace takes: objects, backend, and the largest of the
                       other three, which share memory */
    uint64_t objects;
    uint64_t backend; /* XNNPACK's operators */
    uint64_t running; /* activations, attention */
    uint64_t sampling;
    uint64_t encoding; /* of text */
  } workspace;
  uint64_t loading;  /* scratch of cria_load, not needed afterwards */
  uint64_t total;    /* what cria_open takes: one of each; it loads where the workspace will be */
  uint64_t in_place; /* weights and tables used where the source has them, besides all this */
} cria_memory_plan;

/* Gives the memory that models, sessions and workspaces of this config need, to the byte. Reads
 * nothing but its arguments. N sessions and one workspace, all in one block:
 * plan.model.total + N * plan.session.total + the larger of plan.workspace.total and plan.loading.
 */
cria_status cria_plan(const cria_model_info* info, const cria_config* config,
                      cria_memory_plan* plan);

/* Objects ------------------------------------------------------------------------------------ */

typedef struct cria_model cria_model;
typedef struct cria_session cria_session;
typedef struct cria_workspace cria_workspace;

/* A null object is an invalid argument to every function with a status. Functions without one
 * return 0, CRIA_NO_TOKEN, null (pointers) or "" (names), and cria_seed does nothing.
 *
 * Memory is 64-byte aligned and must not move. CRIA_MEMORY_TOO_SMALL: it is less than cria_plan
 * says. */

/* Loads a model into memory [memory, memory + n_bytes) and checks every byte it uses.
 *   - source: the model keeps its functions, not the struct
 *   - scratch: plan.loading bytes, used by this call alone. A workspace or a session may be made
 *     there afterwards */
cria_status cria_load(void* memory, size_t n_bytes, void* scratch, size_t scratch_bytes,
                      const cria_source* source, const cria_config* config, cria_model** model);

/* Begins a conversation with a model. This is cheap: memory is written only when it is used. */
cria_status cria_start(void* memory, size_t n_bytes, const cria_model* model,
                       const cria_config* config, cria_session** session);

/* Makes a workspace for any sessions of a model, one call at a time. It keeps config's hooks. */
cria_status cria_make_workspace(void* memory, size_t n_bytes, const cria_model* model,
                                const cria_config* config, cria_workspace** workspace);

/* All three in one block of plan.total bytes, for programs with one conversation. With a text_only
 * config there is no session. */
typedef struct cria_instance {
  cria_model* model;
  cria_session* session;
  cria_workspace* workspace;
} cria_instance;
cria_status cria_open(void* memory, size_t n_bytes, const cria_source* source,
                      const cria_config* config, cria_instance* instance);

/* Bytes of memory an object has taken: equals the plan. */
size_t cria_model_bytes(const cria_model* model);
size_t cria_session_bytes(const cria_session* session);
size_t cria_workspace_bytes(const cria_workspace* workspace);

/* "exact" or "xnnpack", and the ISA of its kernels ("scalar", ...). */
const char* cria_backend_name(const cria_model* model);
const char* cria_isa_name(const cria_model* model);
/* A number that differs for every different model file. A state of one cannot be loaded with
 * another. */
uint64_t cria_fingerprint(const cria_model* model);
/* Tokens of the vocabulary of the model that was loaded. Size buffers by it, not by an earlier
 * cria_inspect: the file may have been replaced in between. */
uint32_t cria_vocab_size(const cria_model* model);
/* Floats of a hidden row of the model that was loaded. Size buffers by it, as above. */
uint32_t cria_d_model(const cria_model* model);
/* Nonzero when generation should stop at this token. */
int cria_is_end_token(const cria_model* model, uint32_t token);

/* Text --------------------------------------------------------------------------------------- */

enum {
  CRIA_ENCODE_SPECIAL = 1,  /* add BOS and EOS by the tokenizer's rules */
  CRIA_ENCODE_PARSE = 2,    /* special tokens written out in the text become those tokens */
  CRIA_ENCODE_CONTINUES = 4 /* the text goes on from earlier text: no space is put before it */
};

/* Encodes UTF-8 text. n_tokens receives the number written. */
cria_status cria_encode(cria_workspace* workspace, const char* text, size_t n_bytes, uint32_t flags,
                        uint32_t* tokens, size_t capacity, size_t* n_tokens);

/* A stream of decoded text; zero-initialise, one per stream. */
typedef struct cria_text_state {
  uint8_t pending[4];
  uint8_t n_pending;
  uint8_t started;
  uint8_t show_special; /* set it to see special tokens */
  uint8_t reserved;     /* zero */
} cria_text_state;

/* Writes the text of one token: whole UTF-8 characters only, the rest waits in state. Bytes that
 * are no character come out as U+FFFD, together with bytes that waited.
 *   - token: CRIA_NO_TOKEN ends the stream
 *   - capacity: CRIA_TEXT_BYTES always suffices for tokens of real models, and
 *     3 * cria_longest_token_bytes + 8 for tokens of this model
 *   - n_bytes: receives the bytes written, without a final zero
 * Errors:
 *   - CRIA_BUFFER_TOO_SMALL: capacity does not suffice */
#define CRIA_TEXT_BYTES 1024
cria_status cria_decode_token(const cria_model* model, cria_text_state* state, uint32_t token,
                              char* text, size_t capacity, size_t* n_bytes);

/* Gives a token as the tokenizer's table has it. It may be a part of a character. In
 * SentencePiece's tables U+2581 stands for a space.
 *   - n_bytes: receives the length
 * Returns: text that is valid as long as the model and not terminated. Null, and n_bytes 0, when
 * the tokenizer has no such token. */
const char* cria_token_text(const cria_model* model, uint32_t token, size_t* n_bytes);
/* The most bytes cria_token_text gives; 0 without a tokenizer. */
size_t cria_longest_token_bytes(const cria_model* model);
/* Nonzero for a special token: one for control, like the end of a turn. Text becomes such a token
 * only with CRIA_ENCODE_PARSE, and cria_decode_token shows it only when told to. */
int cria_token_is_special(const cria_model* model, uint32_t token);
/* The special token with this text, such as "<|im_end|>"; CRIA_NO_TOKEN when there is none. It
 * searches the whole vocabulary: keep the result. */
uint32_t cria_find_special(const cria_model* model, const char* text, size_t n_bytes);

typedef enum cria_role {
  CRIA_SYSTEM = 0,
  CRIA_USER = 1,
  CRIA_ASSISTANT = 2,
  CRIA_TOOL = 3 /* what a call gave */
} cria_role;

typedef struct cria_message {
  cria_role role;
  const char* text;
  size_t n_bytes;
} cria_message;

/* UTF-8, not terminated; n_bytes 0: none. */
typedef struct cria_text {
  const char* text;
  size_t n_bytes;
} cria_text;

typedef struct cria_call {
  cria_text name;
  cria_text arguments; /* JSON, an object */
  cria_text id;
} cria_call;

/* What a message has besides its text. */
typedef struct cria_message_parts {
  cria_text thinking;     /* of an assistant's message */
  const cria_call* calls; /* of an assistant's message */
  size_t n_calls;
  cria_text name; /* of a tool's message: the function's */
  cria_text id;   /* of a tool's message: the call's */
} cria_message_parts;

/* How the text of a conversation ends. */
typedef enum cria_chat_ending {
  CRIA_TURN_CLOSED = 0, /* with its last message */
  CRIA_TURN_OPENED = 1, /* with what opens the assistant's turn */
  CRIA_TURN_LATER = 2   /* other messages follow, one of a user among them. Gives the tokens that
                           none of them can change */
} cria_chat_ending;

typedef enum cria_thinking {
  CRIA_THINKING_DEFAULT = 0, /* as the template does by default */
  CRIA_THINKING_ON = 1,
  CRIA_THINKING_OFF = 2
} cria_thinking;

/* A conversation for the functions below; zero-initialise. They read it and keep nothing of it. */
typedef struct cria_conversation {
  const cria_message* messages; /* [n_messages] */
  size_t n_messages;
  cria_chat_ending ending;
  cria_thinking thinking;
  const cria_message_parts* parts; /* [n_messages]; null: no message has any */
  const cria_text* tools;          /* [n_tools] JSON, an object each: "type" and "function" */
  size_t n_tools;
} cria_conversation;

/* Encodes messages [first, n_messages) of a conversation by the model's chat template. Earlier
 * calls encoded the messages before first. Those calls ended CRIA_TURN_LATER, or one of them opened
 * the turn that the messages go on with.
 *
 * A message's text, a tool or a call cannot forge control tokens. Values of JSON are written as the
 * template writes them, numbers with the digits they have. Keys that come twice stay.
 * Errors:
 *   - CRIA_REFUSED_BY_TEMPLATE: cria_chat_refusal says why. Also when JSON that must be an object
 *     is none
 *   - CRIA_TEXT_TOO_LONG: a text is too long for the workspace. For a template with few control
 *     tokens this counts for the conversation as a whole */
cria_status cria_encode_chat(cria_workspace* workspace, const cria_conversation* conversation,
                             size_t first, uint32_t* tokens, size_t capacity, size_t* n_tokens);
/* Writes the text whose tokens those are. cria_encode with CRIA_ENCODE_PARSE gives the same tokens
 * for it. This does not hold where a message spells out a control token, or where the tokenizer
 * treats such tokens in texts in its own way.
 *   - n_bytes: receives the length, also with CRIA_BUFFER_TOO_SMALL */
cria_status cria_chat_text(cria_workspace* workspace, const cria_conversation* conversation,
                           char* text, size_t capacity, size_t* n_bytes);
/* Writes the template's text after the last message of a conversation that ends CRIA_TURN_OPENED.
 * The end of this text is what the template has opened of the answer (cria_calls_begin).
 *   - n_bytes: as above
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: the conversation has another ending
 *   - those above */
cria_status cria_chat_opening(cria_workspace* workspace, const cria_conversation* conversation,
                              char* text, size_t capacity, size_t* n_bytes);
/* Says why the template does not take a conversation.
 * Returns: static text that continues "the chat template ". Null when the template takes the
 * conversation, or when it is not a valid one. */
const char* cria_chat_refusal(cria_workspace* workspace, const cria_conversation* conversation);

/* Says how the model writes calls of tools, thinking and text into its answers.
 * Returns: n_bytes for cria_calls.h, owned by the model. Null and 0 when the file does not say. */
const void* cria_call_format(const cria_model* model, size_t* n_bytes);

/* Says how the model's chat template writes dates.
 * Returns: a format of strftime ("%d %b %Y"), not terminated. Null, and n_bytes 0, when it writes
 * none. */
const char* cria_chat_date_format(const cria_model* model, size_t* n_bytes);
/* Sets the date that a workspace's conversations name from now on.
 *   - date: as the template writes it; n_bytes 0: the template's date, which is the same every day
 * Errors:
 *   - CRIA_TEXT_TOO_LONG: more than 64 bytes */
cria_status cria_set_chat_date(cria_workspace* workspace, const char* date, size_t n_bytes);

/* Running ------------------------------------------------------------------------------------ */

/* Appends tokens to a session's context and computes the logits that follow the last one.
 * n_tokens >= 1. On an error the context is as before. */
cria_status cria_prefill(cria_workspace* workspace, cria_session* session, const uint32_t* tokens,
                         size_t n_tokens);

/* Rows after the last norm. In a library that was built without them, all members must be zero:
 * else CRIA_UNSUPPORTED. */
typedef struct cria_hidden {
  float* rows;   /* null, or those of an entry's last n_rows tokens, [n_rows][cria_d_model] */
  size_t n_rows; /* 1 to the entry's n_tokens; 0 where rows is null */
  uint8_t instead_of_logits; /* nonzero: the output matrix is not read, and the session has no
                                logits afterwards; all_logits must be null */
  uint8_t reserved[7];
} cria_hidden;

/* What one session has to do in a step. */
typedef struct cria_batch_entry {
  cria_session* session;
  const uint32_t* tokens; /* appended to its context, as by cria_prefill */
  size_t n_tokens;        /* >= 1 */
  float* all_logits;      /* null, or the logits that follow every token,
                             [n_tokens][cria_vocab_size] */
  cria_hidden hidden;     /* what it gives besides; zero: nothing */
} cria_batch_entry;

/* Does cria_prefill for several sessions of one model, each once. Their tokens go through the
 * matrices together, so that weights are read once for all. Each session gets the bits that it
 * would get alone.
 *
 * On an error all contexts and logits are as before, with two exceptions:
 *   - CRIA_BACKEND_FAILED may change logits
 *   - a sliding-window session may begin anew, at position 0, or have forgotten more of its past.
 *     This happens only if its ring has wrapped and its entry has more tokens than prefill_chunk */
cria_status cria_step(cria_workspace* workspace, const cria_batch_entry* entries, size_t n_entries);

/* Embeddings --------------------------------------------------------------------------------- */

/* How the hidden rows of a text's tokens become its embedding. */
typedef enum cria_pooling {
  CRIA_POOLING_LAST = 1, /* that of the last token */
  CRIA_POOLING_MEAN = 2, /* their mean */
  CRIA_POOLING_FIRST = 3 /* that of the first token */
} cria_pooling;

/* As the model's file says; CRIA_POOLING_LAST where it says nothing. */
cria_pooling cria_embedding_pooling(const cria_model* model);

/* Computes the embedding of a text. The session begins anew and reads the tokens without computing
 * logits. config.step_progress is called for steps of at most prefill_chunk tokens each. The bits
 * are the same on every target (exact backend), with any number of threads and rows at once.
 *   - tokens: n_tokens >= 1. Encode the text with CRIA_ENCODE_SPECIAL: models of embeddings are
 *     trained with the tokens that this adds
 *   - dimensions: how many of the first floats count; 0: all
 *   - embedding: receives [cria_d_model] floats. Their norm is 1, unless the file says how rows are
 *     pooled and does not ask for norm 1. A row of zeros stays one
 * Errors:
 *   - CRIA_UNSUPPORTED: this library was built without embeddings
 *   - those of cria_step; the session is empty then */
cria_status cria_embed(cria_workspace* workspace, cria_session* session, const uint32_t* tokens,
                       size_t n_tokens, uint32_t dimensions, float* embedding);

/* Adds hidden rows of tokens [first, first + n_rows) of a text to its embedding, [cria_d_model].
 * This and the next function are the parts of cria_embed, for programs that read several texts at
 * once by cria_step. Tokens are counted from 0, and rows are added in their order. first == 0
 * begins a new embedding. Pooling that takes one row needs only the call with that row. */
cria_status cria_embedding_add(const cria_model* model, const float* hidden, size_t n_rows,
                               size_t first, float* embedding);
/* Completes an embedding.
 *   - n_tokens: of the whole text
 *   - dimensions: as for cria_embed */
cria_status cria_embedding_finish(const cria_model* model, size_t n_tokens, uint32_t dimensions,
                                  float* embedding);

/* Logits and sampling -------------------------------------------------------------------------- */

/* Gives the newest logits. They may be changed before sampling. A change stays until the next
 * prefill, also for cria_copy_prefix and cria_state_save.
 * Returns: [cria_vocab_size], owned by the session until its next prefill. Null before the first
 * prefill and after hidden.instead_of_logits. */
float* cria_logits(cria_session* session);

/* What is added to a token's logit before anything else; -INFINITY forbids the token. If all tokens
 * are forbidden, the lowest id is drawn. */
typedef struct cria_logit_bias {
  uint32_t token; /* of the vocabulary */
  float bias;     /* not NaN */
} cria_logit_bias;

/* How a token is drawn; zero-initialised: greedily. Steps come in the order of the members, except
 * that temperature comes after top_k. Penalties look at the last 64 tokens of the context. */
typedef struct cria_sampling {
  const cria_logit_bias* biases; /* null, or [n_biases]; of one token they add up */
  size_t n_biases;
  float repeat_penalty;    /* tokens that are there: positive logits divided by it, negative ones
                              multiplied; 1 (or 0): off */
  float frequency_penalty; /* taken off the logit for each time that a token is there; 0: off */
  float presence_penalty;  /* taken off once; 0: off */
  float temperature;       /* 0: greedy, the lowest id among the largest logits */
  uint32_t top_k;          /* keeps so many of the likeliest; 0: off */
  float top_p;             /* keeps the likeliest up to this sum, at least one; 1 (or 0): off */
  float min_p;             /* keeps those with this share of the likeliest's probability; 0: off */
} cria_sampling;

#define CRIA_PENALTY_TOKENS 64

/* Draws the next token from the newest logits. Changes only the random state. docs/numerics.md
 * describes the generator. */
cria_status cria_sample(cria_workspace* workspace, cria_session* session,
                        const cria_sampling* sampling, uint32_t* token);
/* Restarts the session's random numbers. cria_start seeds with 0. */
void cria_seed(cria_session* session, uint64_t seed);

/* Positions used by the tokens so far, and positions there are: config.context or, where that was
 * zero, the model's planned_context. */
uint32_t cria_position(const cria_session* session);
uint32_t cria_context(const cria_session* session);
/* Forgets every token from position on (0: all). The kept part of the KV cache stays valid. There
 * are no logits until the next prefill.
 *
 * Where layers keep blocks of state (info.keeps_blocks) the session can go back only to snapshots
 * and to 0. It goes to the last of them that is not after position, and stays where it stands if
 * that is position. Read on from cria_position(session).
 * Errors:
 *   - CRIA_FORGOTTEN: the ring of a sliding-window model no longer holds what tokens at this
 *     position would attend to. Position 0 never fails so */
cria_status cria_reset(cria_session* session, uint32_t position);

/* Keeps a snapshot of a position, so that cria_reset can come back to it and cria_copy_prefix and
 * cria_state_prefix_save can begin there. It costs no time: blocks of state, unlike rows of a KV
 * cache, cannot be cut back, so the session leaves these where they are. Models without blocks can
 * go back anywhere, and do nothing here.
 *   - position: where the session stands, or a later one. The step that passes a later one keeps
 *     it, and no other bit changes. The logits of a prompt that may come again need a snapshot
 *     before its last token
 *
 * A snapshot is forgotten with its position, and one that is to come with every cria_reset. When
 * config.n_snapshots are taken, the one that is nearest to the one before it makes room: least has
 * to be read again for it.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: position is beyond the context
 *   - CRIA_FORGOTTEN: the session has passed it without a snapshot
 *   - CRIA_UNSUPPORTED: the layers keep blocks, and the session was planned without snapshots */
cria_status cria_keep_snapshot(cria_session* session, uint32_t position);
/* Gives the last position up to this one at which tokens can follow: where cria_reset goes, and
 * where cria_copy_prefix and cria_state_prefix_save can end. 0: nothing before it is of use. */
uint32_t cria_resume_position(const cria_session* session, uint32_t position);

/* Makes a session a copy of the first n_positions of another one, from. Tokens, keys and values are
 * copied. Logits are copied too, as they are, if n_positions are all of from. What session held is
 * forgotten.
 *
 * Both have the same model and KV format. If the model has an original_context, both contexts are
 * on the same side of it. The bits are those of reading the tokens again, unless cria_drop or the
 * caller's changes to logits have changed them.
 * Errors:
 *   - CRIA_CONTEXT_FULL: session has fewer than n_positions
 *   - CRIA_FORGOTTEN: as by cria_reset. Where layers keep blocks, also when from neither stands at
 *     n_positions nor has a snapshot there. Session has no snapshots afterwards */
cria_status cria_copy_prefix(cria_session* session, const cria_session* from, uint32_t n_positions);

/* Forgets positions [first, first + n) and moves later positions down by n. Values stay as they
 * are. Where their layer has RoPE, keys are rotated back and, in an int8 cache, quantized again.
 * The newest logits stay, unless nothing is left.
 *
 * With the exact backend's kernels the bits are the same on every target. They are not those of
 * reading the remaining tokens again, which were computed with the forgotten ones in sight.
 * Errors:
 *   - CRIA_FORGOTTEN: the ring of a sliding-window model has wrapped, and positions older than the
 *     forgotten ones would be left in it
 *   - CRIA_UNSUPPORTED: positions are learned, as in GPT-2, and stay in what was computed; or
 *     layers keep blocks of state, in which all positions are one */
cria_status cria_drop(cria_workspace* workspace, cria_session* session, uint32_t first, uint32_t n);

/* Saves the context (tokens, KV cache and blocks up to the position, logits as they are, random
 * state), without snapshots. A later session of the same model and KV format goes on with the same
 * bits, whatever its threads and backend ISA. Its context size may differ too, on the same side of
 * an original_context. The size of a state depends on the position.
 *
 * cria_state_load takes no byte on trust and changes the session only when it succeeds. Besides the
 * checksum, which is of the whole state, it checks that a session can have saved it:
 *   - tokens are in the vocabulary
 *   - no code of an int8 cache is -128
 *   - no scale is negative, infinite or not a number
 *
 * A model may compute any value. So the floats of an f32 cache, of blocks and of the logits may
 * have any. When a token is drawn, a value that is not a number counts as the smallest.
 * Errors of cria_state_load:
 *   - CRIA_BAD_STATE: a check failed, or the state is of another model or configuration
 *   - CRIA_CONTEXT_FULL: the state has more positions than the session */
size_t cria_state_size(const cria_session* session);
cria_status cria_state_save(const cria_session* session, void* destination, size_t n_bytes);
cria_status cria_state_load(cria_session* session, const void* state, size_t n_bytes);
/* Save only the first n_positions: the state after reading those tokens, without logits unless
 * they are all tokens. The session stays as it is. Size is 0 when the session has fewer positions.
 * Errors:
 *   - CRIA_FORGOTTEN: as by cria_copy_prefix */
size_t cria_state_prefix_size(const cria_session* session, uint32_t n_positions);
cria_status cria_state_prefix_save(const cria_session* session, uint32_t n_positions,
                                   void* destination, size_t n_bytes);
/* Gives the tokens of the context.
 * Returns: [cria_position] tokens, owned by the session. The next call that changes it overwrites
 * them. Null when session is null. */
const uint32_t* cria_tokens(const cria_session* session);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_H_ */
