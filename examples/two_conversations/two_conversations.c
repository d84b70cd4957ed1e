/* Two conversations with one model: its weights are in memory once, and each step reads them once
 * for both. The second conversation begins as a copy of the first one's beginning, which is read
 * once too.   two_conversations MODEL.cria */
#include <cria.h>
#include <stdio.h>
#include <stdlib.h>

#define N_CONVERSATIONS 2
#define CONTEXT 128
#define N_TOKENS 24
#define ALIGNMENT 64

static const char beginning[] = "Once upon a time";
static const char* const ways_on[N_CONVERSATIONS] = {" the llama", " there was a fox"};

struct conversation {
  cria_session* session;
  uint32_t tokens[CONTEXT]; /* to be read next */
  size_t n_tokens;
  cria_text_state text_state;
  char text[N_TOKENS * CRIA_TEXT_BYTES];
  size_t n_bytes;
  int is_over;
};

static struct conversation conversations[N_CONVERSATIONS];

static void check(cria_status status, const char* what) {
  if (status == CRIA_OK) return;
  fprintf(stderr, "two_conversations: %s: %s\n", what, cria_status_message(status));
  exit(1);
}

static int read_file(void* file, uint64_t offset, void* destination, size_t n_bytes) {
  if (fseek(file, (long)offset, SEEK_SET) != 0) return 1;
  return fread(destination, 1, n_bytes, file) == n_bytes ? 0 : 1;
}

/* Takes the front of a block. Every size in a plan is a multiple of the alignment. */
static void* take(unsigned char** block, uint64_t n_bytes) {
  void* const front = *block;
  *block += n_bytes;
  return front;
}

/* Loads the model and makes a session for each conversation, all in one block of memory. */
static void open_all(const cria_source* source, const cria_model** model,
                     cria_workspace** workspace) {
  const cria_config config = {
      .backend = CRIA_BACKEND_EXACT, .context = CONTEXT, .max_entries = N_CONVERSATIONS};
  cria_model_info info;
  cria_memory_plan plan;
  cria_model* loaded;
  check(cria_inspect(source, &info), "the file");
  check(cria_plan(&info, &config, &plan), "the plan");

  /* Loading is over before there is a workspace, so the two share memory. */
  const uint64_t shared = plan.workspace.total > plan.loading ? plan.workspace.total : plan.loading;
  const uint64_t total = plan.model.total + N_CONVERSATIONS * plan.session.total + shared;
  unsigned char* block = malloc((size_t)total + ALIGNMENT - 1);
  if (block == NULL) {
    fprintf(stderr, "two_conversations: no %llu bytes of memory\n", (unsigned long long)total);
    exit(1);
  }
  block += (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;

  void* const scratch = take(&block, shared);
  check(cria_load(take(&block, plan.model.total), (size_t)plan.model.total, scratch, (size_t)shared,
                  source, &config, &loaded),
        "loading");
  for (int i = 0; i < N_CONVERSATIONS; ++i) {
    check(cria_start(take(&block, plan.session.total), (size_t)plan.session.total, loaded, &config,
                     &conversations[i].session),
          "a session");
  }
  check(cria_make_workspace(scratch, (size_t)shared, loaded, &config, workspace), "the workspace");
  *model = loaded;
}

/* The first conversation reads the beginning, the others copy it; then each has its own way on to
 * read. */
static void begin(cria_workspace* workspace) {
  uint32_t tokens[CONTEXT];
  size_t n_tokens = 0;
  cria_session* const first = conversations[0].session;
  check(cria_encode(workspace, beginning, sizeof beginning - 1, CRIA_ENCODE_SPECIAL, tokens,
                    CONTEXT, &n_tokens),
        "encoding");
  check(cria_prefill(workspace, first, tokens, n_tokens), "reading");
  for (int i = 0; i < N_CONVERSATIONS; ++i) {
    struct conversation* const c = &conversations[i];
    size_t n_bytes = 0;
    while (ways_on[i][n_bytes] != '\0') ++n_bytes;
    if (i > 0) check(cria_copy_prefix(c->session, first, cria_position(first)), "copying");
    check(cria_encode(workspace, ways_on[i], n_bytes, CRIA_ENCODE_CONTINUES, c->tokens, CONTEXT,
                      &c->n_tokens),
          "encoding");
    c->text_state.started = 1; /* the text goes on: a blank in front of it stays */
  }
}

/* All that are not over read their tokens, together. */
static int step(cria_workspace* workspace) {
  cria_batch_entry entries[N_CONVERSATIONS];
  size_t n_entries = 0;
  for (int i = 0; i < N_CONVERSATIONS; ++i) {
    struct conversation* const c = &conversations[i];
    if (c->is_over) continue;
    const cria_batch_entry entry = {
        .session = c->session, .tokens = c->tokens, .n_tokens = c->n_tokens};
    entries[n_entries++] = entry;
  }
  if (n_entries == 0) return 0;
  check(cria_step(workspace, entries, n_entries), "a step");
  return 1;
}

/* Draws a conversation's next token, which it reads in the next step. */
static void answer(const cria_model* model, cria_workspace* workspace, struct conversation* c) {
  const cria_sampling greedy = {.temperature = 0};
  size_t n_bytes = 0;
  check(cria_sample(workspace, c->session, &greedy, c->tokens), "sampling");
  c->n_tokens = 1;
  c->is_over = cria_is_end_token(model, c->tokens[0]);
  if (c->is_over) return;
  check(cria_decode_token(model, &c->text_state, c->tokens[0], c->text + c->n_bytes,
                          CRIA_TEXT_BYTES, &n_bytes),
        "decoding");
  c->n_bytes += n_bytes;
}

int main(int argc, char** argv) {
  FILE* const file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  const cria_model* model;
  cria_workspace* workspace;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fprintf(stderr, "usage: two_conversations MODEL.cria\n");
    return 2;
  }
  const cria_source source = {.context = file, .size = (uint64_t)ftell(file), .read = read_file};
  open_all(&source, &model, &workspace);
  begin(workspace);
  for (int n = 0; n < N_TOKENS && step(workspace); ++n) {
    for (int i = 0; i < N_CONVERSATIONS; ++i) {
      if (!conversations[i].is_over) answer(model, workspace, &conversations[i]);
    }
  }
  for (int i = 0; i < N_CONVERSATIONS; ++i) {
    printf("%s%s:", beginning, ways_on[i]);
    fwrite(conversations[i].text, 1, conversations[i].n_bytes, stdout);
    putchar('\n');
  }
  return 0;
}
