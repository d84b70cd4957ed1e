/* cria_chat: conversations on cria.h, in memory that the caller owns.
 *
 * A chat remembers the messages of a conversation, keeps its session's context filled with them,
 * and makes room there when it is full. It computes nothing itself: it gives the tokens that the
 * model has to read as an entry for cria_step. So a server can answer many chats together. A
 * program with one conversation calls cria_chat_answer and is done.
 *
 *   cria_chat_required(session, &config, &n_bytes);
 *   cria_chat_make(memory, n_bytes, workspace, session, &config, &chat);
 *   cria_chat_answer(chat, workspace, question, n, &options, &result);     as often as one likes
 *
 * When the context is full, the oldest exchanges leave it, whole messages at a time. The system
 * text stays. There are two ways:
 *   - By default the exchanges are dropped (cria_drop), at once: no token is read again. Later
 *     messages were computed with them in sight, and stay so.
 *   - With exact_context the remaining messages are read again. This takes as long as reading a
 *     prompt, and gives the bits of a conversation that began there. Templates that put the system
 *     text into the first question always do this. So do models with a sliding window that is not
 *     longer than the context.
 *
 * Statements about bits hold with the exact backend, for a session that only the chat changes.
 * A call that fails leaves everything as it was, whatever its status. Later results have the bits
 * that they would have had, though more may have to be read for them. Two things are not taken
 * back when the reading of a question fails, as by CRIA_CANCELLED:
 *   - Exchanges that left to make room for the question stay away.
 *   - Tokens that the reading had replaced in the session are read again. Dropped exchanges are not
 *     in sight then: those that had left, and those that leave next. When these leave, the
 *     remaining messages are read again.
 *
 * Nothing here allocates or prints. A chat and its session are used by one call at a time. Only the
 * chat may change the session meanwhile.
 */
#ifndef CRIA_RUNTIME_CRIA_CHAT_H_
#define CRIA_RUNTIME_CRIA_CHAT_H_

#include <cria.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cria_chat cria_chat;

/* Zero-initialise for the defaults. */
typedef struct cria_chat_config {
  uint32_t max_messages;   /* remembered, two an exchange; 0: one for 8 positions of the context, at
                              least 16 */
  uint32_t max_text_bytes; /* of all messages; 0: 16 a position of the context, at least 8192 */
  uint8_t exact_context;   /* nonzero: what stays is read again when the oldest exchanges leave */
  uint8_t reserved[7];     /* zero */
} cria_chat_config;

/* Bytes of memory for a chat. */
cria_status cria_chat_required(const cria_session* session, const cria_chat_config* config,
                               size_t* n_bytes);

/* Makes a chat without messages.
 *   - memory: 64-byte aligned; it must not move
 *   - workspace: used only during this call
 * Errors:
 *   - CRIA_NO_TOKENIZER: the model has none
 *   - CRIA_NO_CHAT_TEMPLATE: the model has none
 *   - CRIA_MEMORY_TOO_SMALL: n_bytes is less than cria_chat_required says */
cria_status cria_chat_make(void* memory, size_t n_bytes, cria_workspace* workspace,
                           cria_session* session, const cria_chat_config* config, cria_chat** chat);

/* Forgets all messages and begins anew with a system text, or without one (n_bytes 0). Tokens of it
 * that the session holds already are not read again, unless they were computed after dropped
 * exchanges. No bit of later results depends on earlier messages. */
cria_status cria_chat_begin(cria_chat* chat, const char* system, size_t n_bytes);

/* Sets whether the model thinks from the next question on, for templates with a switch for it. At
 * first it is CRIA_THINKING_DEFAULT. When it changes, the parts of the conversation that the
 * template then writes otherwise are read again.
 *   - workspace: used only during this call
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: an answer is being made */
cria_status cria_chat_set_thinking(cria_chat* chat, cria_workspace* workspace,
                                   cria_thinking thinking);

/* Adds a message without answering it, as for earlier messages of a conversation that is kept
 * elsewhere.
 *   - role: CRIA_USER or CRIA_ASSISTANT
 * Errors:
 *   - CRIA_TEXT_TOO_LONG: there is no memory for it */
cria_status cria_chat_add(cria_chat* chat, cria_role role, const char* text, size_t n_bytes);

/* Forgets all messages but the first n_messages: to take an exchange back, or to say it
 * differently. Tokens of the kept messages that the session holds are not read again. Later results
 * have the bits of a conversation that never had the forgotten messages. There are two exceptions:
 *   - Exchanges that left a full context do not come back. If some left to make room for the
 *     forgotten messages, the kept ones are read again with the next question. That gives the bits
 *     of a conversation that began with them (cria_chat_add).
 *   - A sliding window that has gone on makes them read again too, for the same bits.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: there are fewer messages, or an answer is being made */
cria_status cria_chat_keep(cria_chat* chat, size_t n_messages);

/* Answering in one call ------------------------------------------------------------------------ */

typedef enum cria_chat_end {
  CRIA_CHAT_ANSWERED = 0, /* the model ended its turn */
  CRIA_CHAT_LIMIT = 1,    /* max_tokens */
  CRIA_CHAT_STOPPED = 2,  /* on_text, cria_chat_stop or a hook stopped it */
  CRIA_CHAT_FULL = 3      /* the answer alone fills the context, or the memory for text */
} cria_chat_end;

typedef struct cria_chat_options {
  cria_sampling sampling;
  uint32_t max_tokens; /* of the answer; 0: none is set */
  uint32_t reserved;   /* zero */
  /* Receives each token of the answer and the text that became whole with it. May be null.
   *   - token: CRIA_NO_TOKEN for the last one if the model ended its turn
   *   - text: n_bytes of UTF-8 without a final zero, perhaps none; with the last token all that was
   *     left
   * Returns: 0, or nonzero to end the answer. Half a character then ends with it. */
  int (*on_text)(void* context, uint32_t token, const char* text, size_t n_bytes);
  void* context;
} cria_chat_options;

typedef struct cria_chat_result {
  cria_chat_end end;
  uint32_t n_answered; /* tokens of the answer */
  uint32_t n_read;     /* tokens that were read before it, and when room was made */
  uint32_t n_dropped;  /* exchanges that left the conversation */
} cria_chat_result;

/* Asks a question and answers it.
 *   - text: the question. Null: the newest question is answered. That is the last message, if it is
 *     the user's. Else it is the one before the last, which is answered once more: its answer makes
 *     way as the new one begins. Later results have the bits of a conversation in which the old
 *     answer was never given.
 * Errors, after which the question was not asked. One that can never be asked makes no exchange
 * leave.
 *   - CRIA_INVALID_ARGUMENT: text is null, and neither of these messages is a question
 *   - CRIA_TEXT_TOO_LONG: the question is too long for the workspace or the memory
 *   - CRIA_CONTEXT_FULL: the question is too long for the context
 *   - CRIA_NOTHING_TO_SAMPLE: no token stands for the question
 *   - CRIA_CANCELLED: the workspace's hook stopped the reading of the question
 *   - those of cria_step */
cria_status cria_chat_answer(cria_chat* chat, cria_workspace* workspace, const char* text,
                             size_t n_bytes, const cria_chat_options* options,
                             cria_chat_result* result);

/* Asks text instead of the newest question. That question makes way as the new answer begins, with
 * its answer if it has one. Until then the memory holds both. Later results have the bits that they
 * have after cria_chat_keep and cria_chat_answer.
 * Errors: as above. Then the exchange is as it was. */
cria_status cria_chat_answer_instead(cria_chat* chat, cria_workspace* workspace, const char* text,
                                     size_t n_bytes, const cria_chat_options* options,
                                     cria_chat_result* result);

/* Answering step by step ----------------------------------------------------------------------- */

/* Adds a question and says what has to be read for it. If the step fails, cria_chat_abandon takes
 * the question back.
 *   - text: null: no question is added, and the newest one is answered, as above
 *   - entry: receives the entry for cria_step, valid until the chat is used again
 * Errors: as above. */
cria_status cria_chat_ask(cria_chat* chat, cria_workspace* workspace, const char* text,
                          size_t n_bytes, uint32_t max_tokens, cria_batch_entry* entry);

/* What came of a step. text is valid until the chat is used again. */
typedef struct cria_chat_piece {
  uint32_t token; /* CRIA_NO_TOKEN when the answer ended before one */
  const char* text;
  size_t n_bytes;
  int is_last;       /* the answer is over: no step has to follow */
  cria_chat_end end; /* then why */
} cria_chat_piece;

/* Draws the next token of the answer from the session's logits, after each successful step, and
 * says what has to be read next. If room must be made, that may be more than the token.
 * Errors:
 *   - CRIA_INVALID_ARGUMENT: no answer is being made, or the step before has not been done */
cria_status cria_chat_next(cria_chat* chat, cria_workspace* workspace,
                           const cria_sampling* sampling, cria_chat_piece* piece,
                           cria_batch_entry* entry);

/* Ends an answer where it is. Its text so far stays in the conversation. */
void cria_chat_stop(cria_chat* chat);
/* Takes the newest question and its answer so far out of the conversation, as cria_chat_keep does.
 * An answer that was to be replaced stays, unless the new one has begun. */
void cria_chat_abandon(cria_chat* chat);

/* Between answers ------------------------------------------------------------------------------ */

/* Reads ahead while the next question is not yet there: at most most_tokens of the tokens that come
 * before any question:
 *   - the system text;
 *   - the tokens that close the last answer;
 *   - what has to be read again, because the template changes answers or the context is full.
 * n_read is 0 when nothing is left. Most is gained if max_tokens is that of the question. No bit of
 * later results depends on whether, or how far, this was called. The reading of the question
 * becomes shorter.
 *
 * To save the same bytes, whatever was read ahead, said or forgotten before:
 *   1. call this until n_read is 0;
 *   2. call cria_chat_keep of all messages, which takes back what was read for the next question;
 *   3. call cria_chat_save.
 * Without the first two the bytes may differ where the conversation has to be read again. They may
 * differ, too, where the newest message is a question.
 *
 * Errors:
 *   - CRIA_CANCELLED: the workspace's hook stopped it; it may be called again
 *   - CRIA_INVALID_ARGUMENT: an answer is being made */
cria_status cria_chat_read_ahead(cria_chat* chat, cria_workspace* workspace, uint32_t max_tokens,
                                 uint32_t most_tokens, uint32_t* n_read);

/* Looking at it -------------------------------------------------------------------------------- */

size_t cria_chat_n_messages(const cria_chat* chat);
/* Message i in order; its text is valid until the chat is used again. Null text past the end. */
cria_message cria_chat_message(const cria_chat* chat, size_t i);
/* Counts since the chat was made: tokens read, exchanges dropped. */
uint64_t cria_chat_n_read(const cria_chat* chat);
uint64_t cria_chat_n_dropped(const cria_chat* chat);

/* Saves messages and session, so that a chat of the same model goes on where this one is. It has
 * the same bits if its context, exact_context and thinking are the same. Loading takes no byte on
 * trust and changes nothing unless it succeeds. Neither is possible while an answer is being made.
 * Errors of cria_chat_load:
 *   - CRIA_BAD_STATE: the bytes cannot be loaded
 *   - CRIA_CONTEXT_FULL: they do not fit the context
 *   - CRIA_TEXT_TOO_LONG: they do not fit the memory for messages and text */
size_t cria_chat_save_size(const cria_chat* chat);
cria_status cria_chat_save(const cria_chat* chat, void* destination, size_t n_bytes);
cria_status cria_chat_load(cria_chat* chat, const void* saved, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_CHAT_H_ */
