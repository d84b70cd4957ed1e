/* cria_chat: conversations on cria.h, in memory that the caller owns.
 *
 * A chat remembers the messages of a conversation, keeps its session's context filled with what was
 * said, and makes room there when it is full. It computes nothing itself: what a model has to read
 * comes out as a turn for cria_step, so that a server can answer many chats together. A program
 * with one conversation calls cria_chat_answer and is done.
 *
 *   cria_chat_required(session, &config, &n_bytes);
 *   cria_chat_make(memory, n_bytes, workspace, session, &config, &chat);
 *   cria_chat_answer(chat, workspace, question, n, &options, &result);     as often as one likes
 *
 * When the context is full the oldest exchanges leave it, whole messages at a time; the system text
 * stays. By default they are dropped (cria_drop): no token is read again, at once. What was said
 * after them was computed with them in sight, and stays so. With exact_context what is left is read
 * again, which takes as long as reading a prompt and gives the bits of a conversation that began
 * there. Templates that put the system text into the first question always do the latter; so do
 * models with a sliding window that is not longer than the context.
 *
 * What is said here of bits holds with the exact backend, for a session that nobody else changes.
 * A call that fails leaves everything as it was, whatever its status: what follows has the bits it
 * would have had, though more may have to be read for it. Two things are not taken back. Exchanges
 * that left to make room for a question stay away when its reading fails, as by CRIA_CANCELLED. And
 * what that reading had replaced in the session is read again without dropped exchanges in sight:
 * those that had left, and those that leave next, for which what stays is then read again.
 *
 * Nothing here allocates or prints. A chat is used by one call at a time, as its session is, which
 * nobody else may change meanwhile.
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

/* Makes a chat without messages in 64-byte aligned memory, which must not move. workspace is used
 * by this call alone. Errors: CRIA_NO_TOKENIZER, CRIA_NO_CHAT_TEMPLATE, CRIA_MEMORY_TOO_SMALL. */
cria_status cria_chat_make(void* memory, size_t n_bytes, cria_workspace* workspace,
                           cria_session* session, const cria_chat_config* config, cria_chat** chat);

/* Forgets all messages and begins anew with a system text, or without one (n_bytes 0). What the
 * session holds of it already is not read again, unless it was computed behind dropped exchanges:
 * no bit of what follows depends on what was said before. */
cria_status cria_chat_begin(cria_chat* chat, const char* system, size_t n_bytes);

/* How templates with a switch for it have the model think from the next question on; at first
 * CRIA_THINKING_DEFAULT. Where it changes the conversation is read again as far as the template
 * writes it otherwise. CRIA_INVALID_ARGUMENT while an answer is made. workspace is used by this
 * call alone. */
cria_status cria_chat_set_thinking(cria_chat* chat, cria_workspace* workspace,
                                   cria_thinking thinking);

/* Adds a message without answering it: earlier ones of a conversation that others keep. Roles may
 * be user and assistant. CRIA_TEXT_TOO_LONG when there is no memory for it. */
cria_status cria_chat_add(cria_chat* chat, cria_role role, const char* text, size_t n_bytes);

/* Forgets all messages but the first n_messages: to take an exchange back, to say it differently.
 * What the session holds of the others is not read again, and what follows has the bits that it has
 * in a conversation which never had the rest. Exchanges that left a full context do not come back:
 * where some left for the rest, the others are read again with the next question, for the bits of a
 * conversation that began with them (cria_chat_add). A sliding window that has gone on makes them
 * read again too, for the same bits. CRIA_INVALID_ARGUMENT when there are fewer, or while an answer
 * is made. */
cria_status cria_chat_keep(cria_chat* chat, size_t n_messages);

/* Answering in one call ------------------------------------------------------------------------ */

typedef enum cria_chat_end {
  CRIA_CHAT_ANSWERED = 0, /* the model ended its turn */
  CRIA_CHAT_LIMIT = 1,    /* max_tokens */
  CRIA_CHAT_STOPPED = 2,  /* on_text, cria_chat_stop or a hook said so */
  CRIA_CHAT_FULL = 3      /* the answer alone fills the context, or the memory for text */
} cria_chat_end;

typedef struct cria_chat_options {
  cria_sampling sampling;
  uint32_t max_tokens; /* of the answer; 0: no limit of its own */
  uint32_t reserved;   /* zero */
  /* Gets each token of the answer and the text that became whole with it, n_bytes of UTF-8 without
   * a final zero, perhaps none; with the last one what was left: that is CRIA_NO_TOKEN where the
   * model ended its turn. Nonzero ends the answer, half a character then with it. May be null. */
  int (*on_text)(void* context, uint32_t token, const char* text, size_t n_bytes);
  void* context;
} cria_chat_options;

typedef struct cria_chat_result {
  cria_chat_end end;
  uint32_t n_answered; /* tokens of the answer */
  uint32_t n_read;     /* tokens that were read before it, and when room was made */
  uint32_t n_dropped;  /* exchanges that left the conversation */
} cria_chat_result;

/* Asks and answers. Where text is null the newest question is answered: the last message, if that
 * is the user's, else once more the one before the last, whose answer makes way as the new one
 * begins (CRIA_INVALID_ARGUMENT when neither is a question). What follows has the bits that it has
 * where that answer was never given. Errors, after which the question was not asked (one that can
 * never be asked makes no exchange leave): CRIA_TEXT_TOO_LONG when the question is too long for the
 * workspace or the memory, CRIA_CONTEXT_FULL when it is for the context, CRIA_NOTHING_TO_SAMPLE
 * when no token stands for it, CRIA_CANCELLED by the workspace's hook while the question was read,
 * and what cria_step says. */
cria_status cria_chat_answer(cria_chat* chat, cria_workspace* workspace, const char* text,
                             size_t n_bytes, const cria_chat_options* options,
                             cria_chat_result* result);

/* Asks text instead of the newest question, which makes way, with its answer if it has one, as the
 * new one begins; until then the memory holds both. What follows has the bits that it has behind
 * cria_chat_keep and cria_chat_answer. Errors as above, after which the exchange is as it was. */
cria_status cria_chat_answer_instead(cria_chat* chat, cria_workspace* workspace, const char* text,
                                     size_t n_bytes, const cria_chat_options* options,
                                     cria_chat_result* result);

/* Answering step by step ----------------------------------------------------------------------- */

/* Adds a question (none where text is null: then the newest one is answered, as above) and says
 * what has to be read for it: turn, valid until the chat is used again, for cria_step. Errors as
 * above. When the step fails cria_chat_abandon takes the question back. */
cria_status cria_chat_ask(cria_chat* chat, cria_workspace* workspace, const char* text,
                          size_t n_bytes, uint32_t max_tokens, cria_turn* turn);

/* What came of a step. text is valid until the chat is used again. */
typedef struct cria_chat_piece {
  uint32_t token; /* CRIA_NO_TOKEN when the answer ended before one */
  const char* text;
  size_t n_bytes;
  int is_last;       /* the answer is over: no step has to follow */
  cria_chat_end end; /* then why */
} cria_chat_piece;

/* Draws the next token of the answer from the session's logits, after each successful step, and
 * says what has to be read next. Where room must be made that may be more than the token.
 * CRIA_INVALID_ARGUMENT where no answer is made or the step before has not been done. */
cria_status cria_chat_next(cria_chat* chat, cria_workspace* workspace,
                           const cria_sampling* sampling, cria_chat_piece* piece, cria_turn* turn);

/* Ends an answer where it is; what was said of it stays in the conversation. */
void cria_chat_stop(cria_chat* chat);
/* Takes the newest question and what was answered of it out of the conversation, as
 * cria_chat_keep does. An answer that was to be replaced stays, unless the new one has begun. */
void cria_chat_abandon(cria_chat* chat);

/* Between answers ------------------------------------------------------------------------------ */

/* Reads ahead while the next question is not yet there, at most most_tokens of what comes before
 * any question:
 *   - the system text;
 *   - what closes the last answer;
 *   - what has to be read again, because the template changes answers or the context is full.
 * n_read is 0 when nothing is left. With max_tokens as of the question most is gained. No bit of
 * what follows depends on whether, or how far, this was called; the question's own reading becomes
 * shorter.
 *
 * To save the same bytes however much was read ahead, said or forgotten before:
 *   1. call this until n_read is 0;
 *   2. call cria_chat_keep of all messages, which takes back what was read after the last answer;
 *   3. call cria_chat_save.
 * Without the first two the bytes may differ where the conversation has to be read again. They may
 * differ, too, where the newest message is a question.
 *
 * CRIA_CANCELLED by the workspace's hook, after which it may be called again; CRIA_INVALID_ARGUMENT
 * while an answer is made. */
cria_status cria_chat_read_ahead(cria_chat* chat, cria_workspace* workspace, uint32_t max_tokens,
                                 uint32_t most_tokens, uint32_t* n_read);

/* Looking at it -------------------------------------------------------------------------------- */

size_t cria_chat_n_messages(const cria_chat* chat);
/* Message i in order; its text is valid until the chat is used again. Null text past the end. */
cria_message cria_chat_message(const cria_chat* chat, size_t i);
/* Counts since the chat was made: tokens read, exchanges dropped. */
uint64_t cria_chat_n_read(const cria_chat* chat);
uint64_t cria_chat_n_dropped(const cria_chat* chat);

/* Saves messages and session, so that a chat of the same model goes on where this one is, with the
 * same bits where its context, exact_context and thinking are the same. Loading takes no byte on
 * trust and changes nothing unless it succeeds; CRIA_BAD_STATE otherwise, or CRIA_CONTEXT_FULL and
 * CRIA_TEXT_TOO_LONG where it does not fit. Not while an answer is made. */
size_t cria_chat_save_size(const cria_chat* chat);
cria_status cria_chat_save(const cria_chat* chat, void* destination, size_t n_bytes);
cria_status cria_chat_load(cria_chat* chat, const void* saved, size_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif /* CRIA_RUNTIME_CRIA_CHAT_H_ */
